"""Router metrics and the balancing loss speak of native routing, also while other experts are replayed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

from aliquot.trainer.routing import (
    Replay,
    Routing,
    RoutingError,
    balance_loss,
    loads,
    routed,
    routing_metrics,
    routing_shape,
)

BATCH, TIME, VOCABULARY, EXPERTS, TOP_K = 3, 9, 20, 8, 2
every_family = pytest.mark.parametrize("family", ["qwen3_moe", "mixtral", "olmoe", "deepseek_v3"])


def tokens() -> Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, TIME), generator=torch.Generator().manual_seed(1))


def foreign(model) -> Replay:
    layers = routing_shape(model).layers
    scores = torch.rand(BATCH, TIME, layers, EXPERTS, generator=torch.Generator().manual_seed(2))
    recorded = torch.ones(BATCH, TIME, dtype=torch.bool)
    recorded[1] = False
    recorded[2, :4] = False
    return Replay(scores.topk(TOP_K, dim=-1).indices, recorded)


def real() -> Tensor:
    counted = torch.ones(BATCH, TIME, dtype=torch.bool)
    counted[0, 6:] = False
    return counted


@every_family
def test_under_replay_the_first_layer_says_what_it_says_natively(family, tiny_model):
    """No replayed expert stands before it, so its choices, logits and balancing loss must be the native ones."""
    model = tiny_model(family, VOCABULARY)
    native, replay = Routing(), foreign(model)
    routed(model, native, input_ids=tokens())
    routed(model, replay, input_ids=tokens())
    assert torch.equal(replay.live[0], native.live[0]) and torch.equal(replay.logits[0], native.logits[0])
    assert not torch.equal(replay.live[0], replay.replayed(0)[0])
    names = ("max_violation", "min_violation", "avg_violation", "dead_experts", "confidence")
    here, there = routing_metrics(replay, real()), routing_metrics(native, real())
    assert [here[f"router/layer0/{n}"] for n in names] == [there[f"router/layer0/{n}"] for n in names]


@every_family
def test_the_balancing_loss_under_replay_is_of_native_routing_and_reaches_every_router(family, tiny_model):
    """Against the library's own loss, which picks the top-k of the logits anew and knows nothing of the replay."""
    model, replay = tiny_model(family, VOCABULARY), None
    replay = foreign(model)
    logits = routed(model, replay, input_ids=tokens()).logits
    expected = [load_balancing_loss_func((x,), EXPERTS, TOP_K, real().long()) for _, x in sorted(replay.logits.items())]
    loss = balance_loss(replay, real())
    if family != "deepseek_v3":  # it selects by group and by sigmoid, the library's loss does not
        assert float(loss.detach()) == pytest.approx(float(sum(expected).detach()) / len(expected), rel=1e-5)
    (logits.log_softmax(-1)[..., 3].sum() * 0 + loss).backward()
    routers = [p.grad for name, p in model.named_parameters() if name.endswith("gate.weight")]
    assert len(routers) == len(replay.live) and all(g.abs().max() > 0 for g in routers)


def test_the_balancing_loss_is_the_same_under_activation_checkpointing(tiny_model):
    model = tiny_model("qwen3_moe", VOCABULARY)

    def gradients() -> dict[str, Tensor]:
        model.zero_grad()
        replay = foreign(model)
        logits = routed(model, replay, input_ids=tokens()).logits
        (logits.log_softmax(-1)[..., 3].sum() + balance_loss(replay, real())).backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    expected = gradients()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    found = gradients()
    assert expected.keys() == found.keys() and all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_balancing_loss_without_a_gradient_is_refused(tiny_model):
    model = tiny_model("qwen3_moe", VOCABULARY)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model.enable_input_require_grads()
    replay = foreign(model)
    routed(model, replay, input_ids=tokens())
    with pytest.raises(RoutingError, match="use_reentrant=False"):
        balance_loss(replay)


def by_hand() -> Replay:
    """Two MoE layers, four experts, top-2, one sequence of three tokens, of which the last is padding."""
    replay = Replay(
        torch.tensor([[[[0, 1], [1, 0]], [[2, 3], [1, 2]], [[0, 1], [0, 1]]]]), torch.tensor([[True, True, False]])
    )
    replay.live = {0: torch.tensor([[0, 1], [0, 1], [3, 2]]), 1: torch.tensor([[0, 1], [2, 3], [0, 1]])}
    row = torch.tensor([1.0, 2.0, 3.0, 4.0]).log()
    replay.logits = {0: row.repeat(3, 1), 1: torch.zeros(3, 4)}
    return replay


def test_metrics_against_a_count_by_hand():
    found = routing_metrics(by_hand(), torch.tensor([[True, True, False]]))
    expected = {
        "router/layer0/max_violation": 1.0,  # loads 2, 2, 0, 0 of mean 1
        "router/layer0/min_violation": -1.0,
        "router/layer0/avg_violation": 1.0,
        "router/layer0/dead_experts": 2.0,
        "router/layer0/confidence": 0.7,
        "router/layer0/overlap": 0.5,  # all of the first row, none of the second
        "router/layer0/gate_mass": 0.5,  # 0.3 and 0.7
        "router/layer1/max_violation": 0.0,
        "router/layer1/min_violation": 0.0,
        "router/layer1/avg_violation": 0.0,
        "router/layer1/dead_experts": 0.0,
        "router/layer1/confidence": 0.5,
        "router/layer1/overlap": 0.75,
        "router/layer1/gate_mass": 0.5,
        "router/max_violation": 0.5,
        "router/min_violation": -0.5,
        "router/avg_violation": 0.5,
        "router/dead_experts": 2.0,
        "router/confidence": 0.6,
        "router/overlap": 0.625,
        "router/gate_mass": 0.5,
    }
    assert found == pytest.approx(expected)


def test_loads_of_two_batches_add_up():
    first = loads(by_hand(), torch.tensor([[True, True, False]]))
    assert first.tolist() == [[2, 2, 0, 0], [1, 1, 1, 1]]
    assert (first + loads(by_hand())).tolist() == [[4, 4, 1, 1], [3, 3, 2, 2]]


def test_native_routing_has_no_overlap_to_speak_of(tiny_model):
    routing = Routing()
    routed(tiny_model("olmoe", VOCABULARY), routing, input_ids=tokens())
    assert not [name for name in routing_metrics(routing) if "overlap" in name or "gate_mass" in name]


def test_nothing_is_said_of_a_batch_without_tokens():
    assert routing_metrics(by_hand(), torch.zeros(1, 3, dtype=torch.bool)) == {}
