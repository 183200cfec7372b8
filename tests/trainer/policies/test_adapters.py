"""Adapters learn alone, and what is published of them is a base model that any engine loads."""

from __future__ import annotations

import copy

import pytest
import torch

from aliquot.domain import SequenceSpace
from aliquot.domain.spaces import BOS
from aliquot.trainer.policies import Dense, MoE, Policy, PolicyError, load_policy
from aliquot.trainer.policies.adapters import (
    LoraConfig,
    has_adapters,
    merged_weights,
    restore_trained,
    trained_state,
    with_lora,
)
from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine
from aliquot.trainer.routing import Recording, Replay, routed

SPACE = SequenceSpace(alphabet="dna", min_length=1, max_length=8)
DENSE = Dense(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=16, max_positions=16)
MIXTURE = MoE(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=8, experts=4, max_positions=16)
TOKENS = torch.tensor([[BOS, 3, 4, 5, 6, 3, 3], [BOS, 6, 6, 5, 4, 3, 5]])


def moved(policy: Policy, config: LoraConfig | None = None, seed: int = 0) -> Policy:
    """The policy with adapters that have learned something."""
    adapted = with_lora(policy, config or LoraConfig(rank=3, alpha=6.0), seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in adapted.model.named_parameters():
            if "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return adapted


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "qwen3_moe", "mixtral", "olmoe", "deepseek_v3"])
def test_merged_weights_load_into_the_base_and_say_what_the_adapters_say(family, tiny_model):
    base = Policy.of(tiny_model(family, 7), SPACE.codec(), family)
    adapted = moved(base)
    plain = {name: tensor.shape for name, tensor in base.model.state_dict().items()}
    merged = merged_weights(adapted.model)
    assert {name: tensor.shape for name, tensor in merged.items()} == plain
    expected = adapted.model(input_ids=TOKENS).logits
    before = base.model(input_ids=TOKENS).logits
    base.model.load_state_dict(merged)
    torch.testing.assert_close(base.model(input_ids=TOKENS).logits, expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(before, expected, atol=1e-3)


def test_a_merged_weight_is_the_weight_and_alpha_over_rank_times_the_product_of_the_two_factors():
    base = load_policy("fresh", SPACE, DENSE, seed=0)
    adapted = with_lora(base, LoraConfig(rank=2, alpha=6.0, targets=("q_proj",)))
    layer = adapted.model.model.layers[1].self_attn.q_proj
    a, b = layer.lora_A["learned"].weight, layer.lora_B["learned"].weight
    with torch.no_grad():
        a.zero_()[0, 3] = 5.0
        b.zero_()[7, 0] = 2.0
    name = "model.layers.1.self_attn.q_proj.weight"
    expected = base.model.state_dict()[name].clone()
    expected[7, 3] += 6.0 / 2 * 2.0 * 5.0
    assert torch.equal(merged_weights(adapted.model)[name], expected)


@pytest.mark.parametrize("shape", [DENSE, MIXTURE], ids=["dense", "moe"])
def test_an_adapter_begins_as_nothing_and_leaves_the_policy_that_it_was_given_alone(shape):
    base = load_policy("fresh", SPACE, shape, seed=0)
    before = copy.deepcopy(base.model.state_dict())
    adapted = moved(base)
    assert not has_adapters(base.model) and has_adapters(adapted.model)
    assert all(parameter.requires_grad for parameter in base.model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in base.model.state_dict().items())
    untouched = with_lora(base, LoraConfig()).model
    assert torch.equal(untouched(input_ids=TOKENS).logits, base.model(input_ids=TOKENS).logits)


@pytest.mark.parametrize("shape", [DENSE, MIXTURE], ids=["dense", "moe"])
def test_only_adapters_change_in_training(shape):
    base = load_policy("fresh", SPACE, shape, seed=0)
    adapted = with_lora(base, LoraConfig())
    before = copy.deepcopy(adapted.model.state_dict())
    optimiser = torch.optim.AdamW([p for p in adapted.model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(2):  # in the first step B is zero and A has no gradient
        optimiser.zero_grad()
        adapted.model(input_ids=TOKENS).logits.log_softmax(-1)[..., 3].sum().backward()
        optimiser.step()
    changed = {name for name, tensor in adapted.model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {name for name in before if ".lora_" in name}
    assert not any(word in name for name in changed for word in ("gate.", "experts", "embed", "lm_head"))


def test_the_attention_of_a_mixture_is_adapted_and_its_routers_and_experts_are_not():
    names = trained_state(with_lora(load_policy("fresh", SPACE, MIXTURE, seed=0), LoraConfig()))["weights"]
    layers = {name.partition(".lora_")[0].rpartition(".")[2] for name in names}
    assert layers == {"q_proj", "k_proj", "v_proj", "o_proj"}


@pytest.mark.parametrize("family", ["qwen3_moe", "mixtral", "olmoe", "deepseek_v3"])
def test_replay_under_adapters_reaches_every_router(family, tiny_model):
    base = Policy.of(tiny_model(family, 7), SPACE.codec(), family)
    adapted, shape = moved(base), base.routing
    assert adapted.routing == shape
    scores = torch.rand(*TOKENS.shape, shape.layers, shape.experts, generator=torch.Generator().manual_seed(2))
    ids, everywhere = scores.topk(shape.top_k, dim=-1).indices, torch.ones(TOKENS.shape, dtype=torch.bool)

    native = adapted.model(input_ids=TOKENS).logits
    replayed = routed(adapted.model, Replay(ids, everywhere), input_ids=TOKENS).logits
    assert not torch.allclose(replayed, native, atol=1e-3)
    replayed.log_softmax(-1)[..., 3].sum().backward()
    own = Recording()
    routed(adapted.model, own, input_ids=TOKENS)
    assert len(own.live) == shape.layers
    learned = [p.grad for name, p in adapted.model.named_parameters() if "lora_A" in name]
    assert all(grad is not None and grad.abs().max() > 0 for grad in learned)

    base.model.load_state_dict(merged_weights(adapted.model))
    same = routed(base.model, Replay(ids, everywhere), input_ids=TOKENS).logits
    torch.testing.assert_close(replayed, same, atol=1e-5, rtol=1e-5)


def test_a_rollout_engine_of_the_base_takes_what_is_published():
    base = load_policy("fresh", SPACE, MIXTURE, seed=0)
    adapted = moved(base)
    engine = TorchRolloutEngine(base)
    engine.update_weights(merged_weights(adapted.model), version=1)
    drawn = engine.generate(RolloutRequest([BOS], 2, 6, seed=0))[0]
    inputs = torch.tensor([[*drawn.prompt, *drawn.tokens][:-1]])
    own = Recording()
    routed(adapted.model, own, input_ids=inputs)
    assert (own.ids().sort(-1).values == torch.from_numpy(drawn.experts.astype("int64")).sort(-1).values).all()


def test_a_checkpoint_holds_adapters_alone_and_knows_their_base():
    base = load_policy("fresh", SPACE, MIXTURE, seed=0)
    adapted, fresh = moved(base), with_lora(base, LoraConfig(rank=3, alpha=6.0), seed=1)
    state = trained_state(adapted)
    assert state["base"] == base.digest
    assert all(".lora_" in name for name in state["weights"])
    restore_trained(fresh, state)
    assert torch.equal(fresh.model(input_ids=TOKENS).logits, adapted.model(input_ids=TOKENS).logits)

    other = with_lora(load_policy("fresh", SPACE, MIXTURE, seed=1), LoraConfig(rank=3, alpha=6.0))
    with pytest.raises(PolicyError, match="were trained on a base with digest"):
        restore_trained(other, state)
    with pytest.raises(PolicyError, match="holds adapters, and `learning.lora` says otherwise"):
        restore_trained(base, state)
    with pytest.raises(PolicyError, match="holds whole weights"):
        restore_trained(adapted, trained_state(base))


def test_without_adapters_a_checkpoint_holds_the_weights():
    one, other = (load_policy("fresh", SPACE, DENSE, seed) for seed in (0, 1))
    state = trained_state(one)
    assert state["weights"].keys() == one.model.state_dict().keys() == merged_weights(one.model).keys()
    restore_trained(other, state)
    assert torch.equal(one.model(input_ids=TOKENS).logits, other.model(input_ids=TOKENS).logits)


def test_a_seed_decides_the_first_adapters_and_the_global_stream_stays_where_it_was():
    base = load_policy("fresh", SPACE, DENSE, seed=0)
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    first, again, other = (trained_state(with_lora(base, LoraConfig(), seed))["weights"] for seed in (0, 0, 1))
    assert torch.equal(torch.rand(1), expected)
    name = next(name for name in first if "lora_A" in name)
    assert torch.equal(first[name], again[name]) and not torch.equal(first[name], other[name])


@pytest.mark.parametrize("target", ["gate_proj", "lm_head", "gate"])
def test_a_target_that_cannot_be_adapted_is_said_with_those_that_can(target):
    with pytest.raises(PolicyError, match=f"no linear layer '{target}' to adapt: it has k_proj, o_proj"):
        with_lora(load_policy("fresh", SPACE, MIXTURE, seed=0), LoraConfig(targets=("q_proj", target)))
