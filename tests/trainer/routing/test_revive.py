"""A dead expert is given work again, by a change of its own rows and of no other."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from aliquot.trainer.routing import Recording, Replay, Routing, RoutingError, loads, revive, routed, to_revive
from aliquot.trainer.routing.measures import dead_experts

BATCH, TIME, VOCABULARY, DEAD = 16, 12, 20, 5
every_family = pytest.mark.parametrize("family", ["qwen3_moe", "mixtral", "olmoe", "deepseek_v3"])


def tokens() -> Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, TIME), generator=torch.Generator().manual_seed(1))


def counts(model) -> Tensor:
    routing = Routing()
    with torch.no_grad():
        routed(model, routing, input_ids=tokens())
    return loads(routing)


@pytest.fixture
def ailing(tiny_model):
    """A model whose expert 5 of MoE layer 1 is dead.

    Its row of the router is zero. The other rows stand in pairs of opposite sign, so three of them are positive
    whatever the token, and two are chosen.
    """

    def make(family: str):
        model = tiny_model(family, VOCABULARY, **({"n_group": 1, "topk_group": 1} if family == "deepseek_v3" else {}))
        gate = [module for name, module in model.named_modules() if name.endswith("mlp.gate")][1]
        with torch.no_grad():
            gate.weight[[1, 3, 6]] = -gate.weight[[0, 2, 4]]
            gate.weight[DEAD] = 0.0
            if family == "deepseek_v3":
                gate.e_score_correction_bias[DEAD] = -0.1
        assert dead_experts(counts(model)[1]) == [DEAD]
        return model

    return make


@every_family
def test_a_dead_expert_works_again(family, ailing):
    model = ailing(family)
    (pair,) = to_revive(counts(model)[1])
    assert pair == (DEAD, int(counts(model)[1].argmax()))
    revive(model, 1, *pair)
    after = counts(model)[1]
    assert dead_experts(after) == [] and int(after[DEAD]) > int(after.sum()) / 40


@every_family
def test_only_the_rows_that_are_named_change(family, ailing):
    model = ailing(family)
    before = copy.deepcopy(model.state_dict())
    changed = revive(model, 1, DEAD, 2)
    assert (changed.layer, changed.expert, changed.source) == (1, DEAD, 2)
    assert {name.rpartition(".")[2] for name in changed.tensors} >= {"weight", "gate_up_proj", "down_proj"}
    assert ("e_score_correction_bias" in {n.rpartition(".")[2] for n in changed.tensors}) == (family == "deepseek_v3")
    for name, tensor in model.state_dict().items():
        if name not in changed.tensors:
            assert torch.equal(tensor, before[name]), name
            continue
        others = [row for row in range(len(tensor)) if row != DEAD]
        assert torch.equal(tensor[others], before[name][others]), name


def test_the_copy_differs_from_its_source_by_the_noise_that_was_asked_for(ailing):
    model = ailing("qwen3_moe")
    changed = revive(model, 1, DEAD, 2, noise=0.05)
    for name in changed.tensors:
        tensor = model.state_dict()[name]
        relative = (tensor[DEAD] - tensor[2]).square().mean().sqrt() / tensor[2].square().mean().sqrt()
        assert float(relative) == pytest.approx(0.05, rel=0.5)


def test_the_same_arguments_make_the_same_change(ailing):
    one, two, three = ailing("mixtral"), ailing("mixtral"), ailing("mixtral")
    for model, seed in ((one, 3), (two, 3), (three, 4)):
        revive(model, 1, DEAD, 2, seed=seed)
    equal = [torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True)]
    assert all(equal)
    assert not torch.equal(one.model.layers[1].mlp.gate.weight, three.model.layers[1].mlp.gate.weight)


def test_what_was_recorded_before_is_scored_as_before(ailing):
    """Its recording does not name the dead expert, and the weights of those it names are renormalised."""
    model, recording = ailing("qwen3_moe"), Recording()
    with torch.no_grad():
        before = routed(model, recording, input_ids=tokens()).logits
        replay = Replay(recording.ids().unflatten(0, (BATCH, TIME)), torch.ones(BATCH, TIME, dtype=torch.bool))
        revive(model, 1, DEAD, 2)
        torch.testing.assert_close(routed(model, replay, input_ids=tokens()).logits, before, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(model(input_ids=tokens()).logits, before, atol=1e-2)


def test_each_dead_expert_copies_a_busy_one_of_its_own():
    assert to_revive(torch.tensor([0, 400, 100, 0, 300])) == [(0, 1), (3, 4)]
    assert to_revive(torch.tensor([10, 10, 10])) == []
    assert to_revive(torch.tensor([0, 0, 0, 9])) == [(0, 3)]


@pytest.mark.parametrize(
    ("layer", "dead", "busiest", "message"),
    [(3, 0, 1, "no MoE layer 3"), (0, 2, 2, "two different ones"), (0, 2, 8, "two different ones")],
)
def test_what_is_not_there_cannot_be_revived(layer, dead, busiest, message, tiny_model):
    with pytest.raises(RoutingError, match=message):
        revive(tiny_model("qwen3_moe", VOCABULARY), layer, dead, busiest)
