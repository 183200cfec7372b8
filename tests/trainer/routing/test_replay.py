"""Replayed routing is the model's own routing with the recorded experts, in value and in gradient."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor

from aliquot.domain import StopReason, Trajectory, VersionSpan
from aliquot.trainer.policies import Dense, build_model
from aliquot.trainer.routing import (
    Recording,
    Replay,
    RoutingError,
    RoutingRecord,
    RoutingShape,
    moe_layers,
    routed,
    routing_shape,
)

BATCH, TIME, VOCABULARY, EXPERTS, TOP_K = 3, 9, 20, 8, 2
every_family = pytest.mark.parametrize("family", ["qwen3_moe", "mixtral", "olmoe", "deepseek_v3"])


@pytest.fixture
def tiny(tiny_model):
    return lambda family: tiny_model(family, VOCABULARY)


def tokens() -> Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, TIME), generator=torch.Generator().manual_seed(1))


def gradients(model, logits: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    (logits.log_softmax(-1)[..., 3] * torch.linspace(-1, 1, TIME)).sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def own_ids(model) -> Tensor:
    recording = Recording()
    routed(model, recording, input_ids=tokens())
    return recording.ids().unflatten(0, (BATCH, TIME))


def foreign_ids(layers: int) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    scores = torch.rand(BATCH, TIME, layers, EXPERTS, generator=generator)
    return scores.topk(TOP_K, dim=-1).indices


def everywhere() -> Tensor:
    return torch.ones(BATCH, TIME, dtype=torch.bool)


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@every_family
def test_replaying_a_models_own_choices_changes_no_bit(family, tiny):
    model = tiny(family)
    native = model(input_ids=tokens()).logits
    expected = gradients(model, native)
    replay = Replay(own_ids(model), everywhere())
    logits = routed(model, replay, input_ids=tokens()).logits
    assert torch.equal(logits, native)
    assert same(gradients(model, logits), expected)
    assert torch.equal(replay.overlap(), torch.ones_like(replay.overlap()))


@every_family
def test_foreign_experts_are_used_and_the_router_learns_from_them(family, tiny):
    model = tiny(family)
    shape = routing_shape(model)
    native = model(input_ids=tokens()).logits
    replay = Replay(foreign_ids(shape.layers), everywhere())
    logits = routed(model, replay, input_ids=tokens()).logits
    assert not torch.allclose(logits, native, atol=1e-3)
    routers = [g for name, g in gradients(model, logits).items() if name.endswith("gate.weight")]
    assert len(routers) == shape.layers and all(g.abs().max() > 0 for g in routers)
    assert 0 < float(replay.overlap().mean()) < 1
    assert 0 < float(replay.gate_mass().mean()) < 1


@every_family
def test_rows_without_a_recording_are_routed_natively(family, tiny):
    model = tiny(family)
    native = model(input_ids=tokens()).logits
    recorded = everywhere()
    recorded[1] = False
    replay = Replay(foreign_ids(routing_shape(model).layers), recorded)
    logits = routed(model, replay, input_ids=tokens()).logits
    torch.testing.assert_close(logits[1], native[1], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(logits[0], native[0], atol=1e-3)
    assert bool(replay.overlap()[1].isnan().all()) and not bool(replay.overlap()[0].isnan().any())


@every_family
def test_recomputed_activations_get_the_routing_of_their_own_forward_pass(family, tiny):
    """Another replay and a native pass run between forward and backward; neither may leak into the recomputation."""
    model = tiny(family)
    replay = Replay(foreign_ids(routing_shape(model).layers), everywhere())
    expected = gradients(model, routed(model, replay, input_ids=tokens()).logits)
    other = Replay(own_ids(model), everywhere())
    for reentrant in (False, True):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
        model.enable_input_require_grads()
        logits = routed(model, replay, input_ids=tokens()).logits
        with torch.no_grad():
            routed(model, other, input_ids=tokens())
            model(input_ids=tokens())
        assert same(gradients(model, logits), expected)


def partly() -> Tensor:
    """bool [batch, time]: a sequence wholly recorded, one with a gap and a lost end, one without a recording."""
    recorded = everywhere()
    recorded[1, 2:5] = recorded[1, 7:] = False
    recorded[2] = False
    return recorded


def used_experts(model, routing) -> list[Tensor]:
    """int64 [batch, time, top-k] that each MoE block was given, in order of the layers."""
    gates = [module for name, module in model.named_modules() if name.endswith("mlp.gate")]
    used: list[Tensor] = []
    hooks = [gate.register_forward_hook(lambda *call: used.append(call[2][2])) for gate in gates]
    routed(model, routing, input_ids=tokens())
    for hook in hooks:
        hook.remove()
    return [ids.unflatten(0, (BATCH, TIME)) for ids in used]


@every_family
def test_each_token_uses_its_recording_or_its_routers_own_choice(family, tiny):
    model = tiny(family)
    replay = Replay(foreign_ids(routing_shape(model).layers), partly())
    for layer, used in enumerate(used_experts(model, replay)):
        native = replay.live[layer].unflatten(0, (BATCH, TIME))
        assert torch.equal(used[partly()], replay.recorded_ids[:, :, layer][partly()])
        assert torch.equal(used[~partly()], native[~partly()])
        assert not torch.equal(used, native)
    assert torch.equal(replay.overlap().isnan().all(-1), ~partly())


@every_family
def test_a_replay_with_gaps_is_recomputed_as_it_was(family, tiny):
    model = tiny(family)
    ids = foreign_ids(routing_shape(model).layers)
    expected = gradients(model, routed(model, Replay(ids, partly()), input_ids=tokens()).logits)
    assert not same(gradients(model, routed(model, Replay(ids, everywhere()), input_ids=tokens()).logits), expected)
    for reentrant in (False, True):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
        model.enable_input_require_grads()
        replay = Replay(ids, partly())
        logits = routed(model, replay, input_ids=tokens()).logits
        before = replay.overlap()
        assert same(gradients(model, logits), expected)
        torch.testing.assert_close(replay.overlap(), before, atol=0, rtol=0, equal_nan=True)


def test_records_with_gaps_and_of_any_length_become_one_replay():
    shape = RoutingShape(layers=1, top_k=2, experts=4)
    ids = np.array([[[0, 1]], [[3, 3]], [[2, 3]]], dtype=np.uint8)
    gap = RoutingRecord(ids, shape, tokens=4, recorded=np.array([True, False, True]))
    replay = Replay.of_records([gap, None, RoutingRecord(ids[:1], shape, tokens=2)], shape, time=4)
    assert replay.recorded.int().tolist() == [[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    assert replay.recorded_ids[0, :, 0].tolist() == [[0, 1], [0, 0], [2, 3], [0, 0]]


def test_dense_layers_of_a_mixed_model_are_told_from_moe_layers(tiny):
    assert moe_layers(tiny("deepseek_v3")) == (False, True, True)
    assert moe_layers(tiny("mixtral")) == (True, True, True)


def test_a_recording_of_all_decoder_layers_replays_on_a_mixed_model(tiny):
    """As vLLM returns it: dense layers hold zeros."""
    model = tiny("deepseek_v3")
    shape, own = routing_shape(model), own_ids(model)
    records = []
    for row in own.numpy().astype(np.uint8):
        everything = np.zeros((TIME, 3, TOP_K), dtype=np.uint8)
        everything[:, 1:] = row
        records.append(RoutingRecord.of_all_layers(everything, moe_layers(model), shape, TIME + 1))
    replay = Replay.of_records(records, shape, TIME)
    assert torch.equal(replay.recorded_ids, own) and bool(replay.recorded.all())
    assert torch.equal(routed(model, replay, input_ids=tokens()).logits, model(input_ids=tokens()).logits)


def test_a_second_forward_pass_forgets_the_first(tiny):
    model, recording = tiny("qwen3_moe"), Recording()
    routed(model, recording, input_ids=tokens())
    routed(model, recording, input_ids=tokens()[:1])
    assert torch.equal(recording.ids(), own_ids(model)[0])


def test_the_gradient_under_replay_is_that_of_finite_differences(tiny):
    model = tiny("qwen3_moe").double()
    model.set_experts_implementation("eager")  # the default one has no float64 kernel
    replay = Replay(foreign_ids(3), everywhere())
    weight = model.model.layers[1].mlp.gate.weight

    def loss() -> Tensor:
        return routed(model, replay, input_ids=tokens()).logits.double().log_softmax(-1)[..., 3].sum()

    model.zero_grad()
    loss().backward()
    place = divmod(int(weight.grad.abs().argmax()), weight.shape[1])
    analytic, step = float(weight.grad[place]), 1e-4
    with torch.no_grad():
        weight[place] += step
        above = loss()
        weight[place] -= 2 * step
        below = loss()
    assert float(above - below) / (2 * step) == pytest.approx(analytic, rel=5e-3)


def test_overlap_and_gate_mass_against_a_count_by_hand(tiny):
    model = tiny("qwen3_moe")
    replay = Replay(foreign_ids(3), everywhere())
    with torch.no_grad():
        output = routed(model, replay, input_ids=tokens(), output_router_logits=True)
    logits = output.router_logits[1].reshape(BATCH, TIME, EXPERTS)[2, 4].double()
    chosen = set(logits.topk(TOP_K).indices.tolist())
    recorded = replay.recorded_ids[2, 4, 1].tolist()
    probabilities = logits.exp() / logits.exp().sum()
    assert float(replay.overlap()[2, 4, 1]) == len(chosen & set(recorded)) / TOP_K
    assert float(replay.gate_mass()[2, 4, 1]) == pytest.approx(sum(float(probabilities[i]) for i in recorded), abs=1e-6)


def test_a_deep_copy_listens_on_its_own(tiny):
    model = tiny("qwen3_moe")
    own = own_ids(model)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(own_ids(twin), own)


def test_trajectories_become_a_replay_and_marked_ones_stay_native(tiny):
    shape = routing_shape(tiny("qwen3_moe"))

    def trajectory(generated: int, experts: bool) -> Trajectory:
        ids = np.tile(np.arange(TOP_K, dtype=np.uint8), (generated, shape.layers, 1)) if experts else None
        return Trajectory(
            prompt=[1], tokens=[3] * generated, logprobs=np.full(generated, -1.0, np.float32),
            versions=(VersionSpan(version=0, start=0, end=generated),), experts=ids, engine="test", dtype="float32",
            stop=StopReason.LENGTH,
        )  # fmt: skip

    replay = Replay.of(
        [trajectory(4, True), trajectory(2, True), trajectory(3, False), trajectory(1, True)], shape, [3]
    )
    assert replay.recorded.tolist() == [[True] * 4, [True] * 2 + [False] * 2, [False] * 4, [False] * 4]
    gap = Replay.of([trajectory(3, True).model_copy(update={"recorded": np.array([True, False, True])})], shape)
    assert gap.recorded.tolist() == [[True, False, True]]
    with pytest.raises(RoutingError, match="twice|zero"):
        bad = trajectory(2, True).model_copy(update={"experts": np.ones((2, 3, 2), np.uint8)})
        Replay.of([bad], shape)


def test_a_dense_model_cannot_be_replayed():
    model = build_model(
        Dense(hidden_size=16, layers=1, heads=2, key_value_heads=1, feed_forward_size=16), VOCABULARY, 0
    )
    assert routing_shape(model) is None
    with pytest.raises(RoutingError, match="has no router"):
        routed(model, Recording(), input_ids=tokens())


def test_a_recording_of_another_size_is_refused(tiny):
    model = tiny("mixtral")
    with pytest.raises(RoutingError, match="MoE layer 0 routes"):
        routed(model, Replay(foreign_ids(3)[:, :-1], everywhere()[:, :-1]), input_ids=tokens())
