"""bfloat16 inside, float32 where it counts: weights, gradients, gates and logits."""

from __future__ import annotations

import copy
from contextlib import contextmanager

import pytest
import torch
from torch.nn import functional as F

from aliquot.domain import MoleculeSpace, SequenceSpace
from aliquot.domain.spaces import BOS
from aliquot.trainer.policies import load_policy, score
from aliquot.trainer.policies.precision import use_precision
from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine
from aliquot.trainer.routing import Recording, routed
from aliquot.trainer.routing.replay import named_routers

TOKENS = torch.tensor([[BOS, 3, 4, 5, 6, 3, 3], [BOS, 6, 6, 5, 4, 3, 5]])
every_router = pytest.mark.parametrize("family", ["qwen3_moe", "mixtral", "olmoe", "deepseek_v3"])
every_kind = pytest.mark.parametrize("family", ["qwen3", "qwen3_moe"])


@pytest.fixture
def halved(tiny_model):
    """A tiny model of a family, computing in bfloat16."""

    def make(family: str):
        model = tiny_model(family, 7)
        use_precision(model, "bfloat16")
        return model

    return make


@contextmanager
def watched(*modules):
    """(inputs, output) of each module's next call, in order."""
    seen = [None] * len(modules)
    handles = [
        module.register_forward_hook(lambda _, args, output, i=i: seen.__setitem__(i, (args, output)))
        for i, module in enumerate(modules)
    ]
    yield seen
    for handle in handles:
        handle.remove()


@every_kind
def test_weights_gradients_and_moments_stay_in_float32(family, halved):
    model = halved(family)
    optimiser = torch.optim.AdamW(model.parameters())
    model(input_ids=TOKENS).logits.log_softmax(-1)[..., 3].sum().backward()
    optimiser.step()
    moments = [tensor for state in optimiser.state.values() for tensor in state.values()]
    gradients = [parameter.grad for parameter in model.parameters()]
    assert len(moments) == 3 * len(gradients)
    assert {tensor.dtype for tensor in [*model.parameters(), *gradients, *moments]} == {torch.float32}


@every_kind
def test_logits_are_a_float32_product_of_the_head_and_what_comes_before_is_bfloat16(family, halved):
    model = halved(family)
    head, query = model.get_output_embeddings(), model.model.layers[1].self_attn.q_proj
    with watched(head, query) as seen:
        logits = model(input_ids=TOKENS).logits
    hidden = seen[0][0][0]
    assert logits.dtype == torch.float32 and seen[1][1].dtype == torch.bfloat16
    assert torch.equal(logits, F.linear(hidden.float(), head.weight))
    assert not torch.equal(logits, F.linear(hidden.bfloat16(), head.weight.bfloat16()).float())


@every_router
def test_gates_are_float32_products_whether_recorded_or_not(family, halved):
    model = halved(family)
    routers = [router for _, router in named_routers(model)]
    for routing in (None, Recording()):
        with watched(*routers) as seen:
            routed(model, routing, input_ids=TOKENS)
        for router, (args, output) in zip(routers, seen, strict=True):
            hidden = args[0].reshape(-1, args[0].shape[-1]).float()
            assert output[0].dtype == torch.float32
            torch.testing.assert_close(output[0], F.linear(hidden, router.weight.float()), atol=1e-6, rtol=0)


def test_experts_compute_in_bfloat16_too(halved):
    model = halved("qwen3_moe")
    experts = model.model.layers[1].mlp.experts
    with watched(experts) as seen:
        model(input_ids=TOKENS)
    (hidden, ids, gates), output = seen[0]
    exact = experts(hidden.float(), ids, gates.float())
    assert not torch.allclose(output.float(), exact, rtol=1e-5, atol=0)
    torch.testing.assert_close(output.float(), exact, atol=0.05, rtol=0.02)


@pytest.mark.parametrize("name", ["zinc-dense", "zinc-moe"])
def test_the_shipped_policies_say_nearly_the_same_and_route_nearly_the_same(name):
    policy = load_policy(name, MoleculeSpace(), None, seed=0)
    other = copy.deepcopy(policy)
    use_precision(other.model, "bfloat16")
    drawn = TorchRolloutEngine(policy).generate(RolloutRequest([BOS], 16, policy.codec.max_tokens, seed=0))
    with torch.no_grad():
        exact, rounded = (score(p, drawn, replay=p.routing is not None) for p in (policy, other))
    d = (rounded.logp - exact.logp)[exact.mask].double()
    assert 0 < float(d.abs().mean()) < 0.01 and float((d.exp() - d - 1).mean()) < 2e-4
    assert rounded.vocabulary_logp.dtype == torch.float32
    if policy.routing is not None:
        assert 0.98 < float(rounded.routing.overlap().nanmean()) <= 1


def test_recomputed_activations_are_rounded_as_they_were(halved):
    model = halved("qwen3_moe")

    def gradients():
        model.zero_grad()
        model(input_ids=TOKENS).logits.log_softmax(-1)[..., 3].sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    expected = gradients()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    assert all(torch.equal(a, b) for a, b in zip(gradients(), expected, strict=True))


def test_a_deep_copy_computes_as_its_model_does(halved):
    model = halved("qwen3_moe")
    assert torch.equal(copy.deepcopy(model)(input_ids=TOKENS).logits, model(input_ids=TOKENS).logits)


def test_a_forward_pass_that_fails_leaves_no_autocast_behind(halved):
    model = halved("qwen3")
    with pytest.raises(IndexError):
        model(input_ids=torch.tensor([[99]]))
    assert not torch.is_autocast_enabled("cpu")
    x = torch.rand(2, 2)
    assert (x @ x).dtype == torch.float32


def test_float32_leaves_a_model_as_it_is():
    policy = load_policy("fresh", SequenceSpace(alphabet="dna", min_length=1, max_length=8), None, seed=0)
    expected = policy.model(input_ids=TOKENS).logits
    use_precision(policy.model, "float32")
    assert torch.equal(policy.model(input_ids=TOKENS).logits, expected)
