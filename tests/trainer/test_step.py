"""One gradient: the same however the batch is cut, and what is taken back is taken back whatever stands in the way."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from aliquot.domain import SequenceSpace, Tier
from aliquot.domain.spaces import BOS
from aliquot.trainer.batch import Reused
from aliquot.trainer.config import LearningConfig, RoutingConfig
from aliquot.trainer.learning import DivergenceGauge
from aliquot.trainer.learning.members import Due, Member
from aliquot.trainer.policies import Dense, MoE, Policy, load_policy, score
from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine
from aliquot.trainer.step import gradient

SPACE = SequenceSpace(alphabet="dna", min_length=1, max_length=12)
SHAPES = {
    "dense": Dense(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=16, max_positions=16),
    "moe": MoE(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=8, experts=4, max_positions=16),
}
ROWS, BATCH = 10, 12
UNBOUND = 1e9
STRICT = {"masks": [{"type": "veto", "low": 1.0, "high": 1.0}]}
"""Keeps nothing that has moved."""
TIERS = {
    Tier.FRESH: {"fresh": 10.0, "moderate": 11.0, "old": 12.0},
    Tier.MODERATE: {"fresh": 1e-9, "moderate": 11.0, "old": 12.0},
    Tier.OLD: {"fresh": 1e-9, "moderate": 2e-9, "old": 12.0},
    Tier.ANCIENT: {"fresh": 1e-9, "moderate": 2e-9, "old": 3e-9},
}


class Stale:
    """A policy, the prior it is held to, and what an older version of it drew."""

    def __init__(self, kind: str):
        self.policy = load_policy("fresh", SPACE, SHAPES[kind], seed=0)
        self.reference = load_policy("fresh", SPACE, SHAPES[kind], seed=0)
        older = copy.deepcopy(self.policy)
        noise = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in older.model.parameters():
                parameter += 0.05 * torch.randn(parameter.shape, generator=noise)
            for parameter in self.reference.model.parameters():
                parameter += 0.02 * torch.randn(parameter.shape, generator=noise)
        engine = TorchRolloutEngine(older, version=3)
        self.drawn = engine.generate(RolloutRequest([BOS], ROWS, SPACE.codec().max_tokens, seed=5))

    def batch(self, **changes):
        """A first coefficient for each row, with `changes` of (due, member) by row number as `row3={"applied": …}`."""
        made = []
        for row, one in enumerate(self.drawn):
            said = {"coefficient": math.cos(2.0 * row), "taken_back": 0.0} | changes.get(f"row{row}", {})
            due = {name: said.pop(name) for name in ("coefficient", "taken_back")}
            said = {"value": 0.5} | said
            made.append((Due(row // 5, Member(row + 1, row + 1, one.version, 0.0, **said), **due), one))
        return made

    def learn(self, batch, reused=(), **learning):
        """(what `gradient` gives, gradients of the parameters)."""
        plain = {"batch_size": BATCH, "max_gradient_norm": UNBOUND, "routing": {"balance": 0.0}}
        config = LearningConfig.model_validate(plain | learning)
        self.policy.model.zero_grad()
        found = gradient(self.policy, self.reference, DivergenceGauge(), batch, reused, config)
        return found, gradients(self.policy)

    def scored(self, one):
        replay = {"replay": True, "least_overlap": RoutingConfig().least_overlap} if one.experts is not None else {}
        return score(self.policy, [one], **replay)

    def pulled(self, trajectories, coefficients, cap=2.0):
        """−(1/B) Σ c min(π/μ, cap) ∇ log π, each row alone; 1 in place of the ratio where μ is unknown."""
        self.policy.model.zero_grad()
        for one, c in zip(trajectories, coefficients, strict=True):
            s = self.scored(one)
            ratio = (s.logp - s.logmu).detach().exp().clamp(max=cap) if one.engine != "none" else 1.0
            (-c / BATCH * (ratio * s.logp * s.mask).sum()).backward()
        return gradients(self.policy)


def gradients(policy: Policy) -> list[torch.Tensor]:
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in policy.model.parameters()]


def close(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    largest = max(float(tensor.abs().max()) for tensor in expected)
    assert largest > 1e-4
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5 * largest, rtol=1e-3)


@pytest.fixture(scope="module")
def stale():
    made = {kind: Stale(kind) for kind in SHAPES}
    return made.__getitem__


every_kind = pytest.mark.parametrize("kind", SHAPES)
every_loss = pytest.mark.parametrize(
    "learning",
    [
        {},
        {"loss": {"type": "ppo", "clip_high": 0.02, "clip_low": 0.02}, "revisions": "wait"},
        {"loss": {"type": "ppo", "ratio": "behaviour"}, "correction": {"type": "none"}, "revisions": "wait"},
        {"masks": [{"type": "m2po", "tau": 1e-4}]},
        {"shaping": [{"type": "step_penalty"}], "anchor": {"type": "none"}},
    ],
    ids=["reinforce", "ppo at old", "ppo at behaviour", "m2po", "shaped"],
)


@every_loss
@every_kind
def test_a_batch_in_many_pieces_has_the_gradient_of_one_piece(kind, learning, stale, monkeypatch):
    stale = stale(kind)
    learning = {"anchor": {"type": "kl", "coefficient": 0.3}, "routing": {"balance": 0.3}} | learning
    batch = stale.batch(row2={"coefficient": -0.4, "applied": 0.4}, row5={"taken_back": -0.3})
    monkeypatch.setattr("aliquot.trainer.policies.chunks.CHUNK", 10**6)
    one, expected = stale.learn(batch, **learning)
    monkeypatch.setattr("aliquot.trainer.policies.chunks.CHUNK", 0)
    many, found = stale.learn(batch, micro_batch_tokens=20, **learning)
    close(found, expected)
    assert [(x.applied, x.masked, x.tier) for x in many.learned] == [(x.applied, x.masked, x.tier) for x in one.learned]
    same = {name for name in one.metrics if not name.startswith("router/")}
    assert {name: many.metrics[name] for name in same} == pytest.approx(
        {name: one.metrics[name] for name in same}, abs=1e-4, rel=1e-3
    )


@every_kind
def test_it_is_the_truncated_policy_gradient_and_the_pull_of_the_anchor(kind, stale):
    stale, beta = stale(kind), 0.3
    batch = stale.batch()
    learning = {"anchor": {"type": "kl", "coefficient": beta}, "correction": {"type": "tis", "cap": 1.2}}
    _, found = stale.learn(batch, tiers=TIERS[Tier.FRESH], **learning)
    expected = stale.pulled(stale.drawn, [due.coefficient for due, _ in batch], cap=1.2)
    stale.policy.model.zero_grad()
    for one in stale.drawn:
        ours = stale.scored(one)
        p, q = ours.vocabulary_logp, score(stale.reference, [one]).vocabulary_logp.detach()
        legal = torch.isfinite(p)
        kl = torch.where(legal, p.exp() * (p.masked_fill(~legal, 0) - q.masked_fill(~legal, 0)), 0.0).sum(-1)
        (beta / BATCH * (kl * ours.mask).sum()).backward()
    close(found, [a + b for a, b in zip(expected, gradients(stale.policy), strict=True)])


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("masks", [{}, STRICT], ids=["no mask", "a mask of everything"])
@pytest.mark.parametrize("loss", [{}, {"loss": {"type": "ppo"}, "revisions": "wait"}], ids=["reinforce", "ppo"])
def test_what_was_applied_is_taken_back_whatever_the_tier_the_mask_and_the_loss(tier, masks, loss, stale):
    stale = stale("dense")
    none = {f"row{row}": {"coefficient": 0.0} for row in range(ROWS)}
    back = {"row1": {"coefficient": -0.7, "applied": 0.7}, "row4": {"coefficient": 0.5, "applied": -0.5}}
    again = {"row8": {"coefficient": 0.0, "taken_back": -0.6}}
    batch = stale.batch(**(none | back | again))
    made, found = stale.learn(batch, tiers=TIERS[tier], anchor={"type": "none"}, **masks, **loss)
    assert {x.tier for x in made.learned} == {tier}
    assert [x.applied for x in made.learned] == pytest.approx([0, -0.7, 0, 0, 0.5, 0, 0, 0, 0, 0])
    assert all(x.masked == 0 for x in made.learned)
    close(found, stale.pulled([stale.drawn[row] for row in (1, 4, 8)], [-0.7, 0.5, -0.6]))


def test_first_coefficients_of_what_is_ancient_or_masked_are_recorded_as_masked_and_teach_nothing(stale):
    stale = stale("dense")
    batch = stale.batch(row1={"coefficient": -0.9, "applied": 0.7})
    for held_back in ({"tiers": TIERS[Tier.ANCIENT]}, STRICT):
        made, found = stale.learn(batch, anchor={"type": "none"}, **held_back)
        assert made.learned[1].applied == pytest.approx(-0.7) and made.learned[1].masked == pytest.approx(-0.2)
        for row in set(range(ROWS)) - {1}:
            assert made.learned[row].applied == 0.0 and made.learned[row].reason
            assert made.learned[row].masked == pytest.approx(batch[row][0].coefficient)
        close(found, stale.pulled([stale.drawn[1]], [-0.7]))


@every_kind
def test_what_no_policy_drew_gives_nothing_but_what_is_taken_back_of_it(kind, stale):
    stale = stale(kind)
    changes = {"row3": {"coefficient": 0.8, "taken_back": -0.5, "value": None}}
    batch = stale.batch(**changes)
    written = batch[3][1].model_copy(update={"engine": "none", "experts": None})
    batch[3] = (batch[3][0], written)
    made, found = stale.learn(batch, anchor={"type": "none"}, tiers=TIERS[Tier.FRESH])
    assert made.learned[3].tier is None
    assert (made.learned[3].applied, made.learned[3].masked) == (0.0, 0.8)
    coefficients = [due.coefficient for due, _ in batch]
    coefficients[3] = -0.5
    close(found, stale.pulled([one for _, one in batch], coefficients))


def test_what_is_reused_pulls_with_its_own_coefficient(stale):
    stale = stale("dense")
    batch = stale.batch()[:4]
    written = stale.drawn[7].model_copy(update={"engine": "none"})
    reused = [Reused("imitation", 9, Member(99, None, None, 0.0, value=0.9), written, 0.6, None)]
    made, found = stale.learn(batch, reused, anchor={"type": "none"}, tiers=TIERS[Tier.FRESH])
    assert len(made.learned) == 4 and made.metrics["reused"] == 1.0
    coefficients = [due.coefficient for due, _ in batch]
    close(found, stale.pulled([*stale.drawn[:4], written], [*coefficients, 0.6]))


def test_the_gradient_is_no_longer_than_the_greatest_norm(stale):
    stale = stale("dense")
    free, _ = stale.learn(stale.batch())
    bound = free.metrics["gradient_norm"] / 3
    made, found = stale.learn(stale.batch(), max_gradient_norm=bound)
    assert made.metrics["gradient_norm"] == pytest.approx(free.metrics["gradient_norm"], rel=1e-5)
    assert math.sqrt(sum(float((tensor**2).sum()) for tensor in found)) == pytest.approx(bound, rel=1e-4)


def test_the_learning_rate_shrinks_with_the_root_of_how_full_the_batch_is():
    fresh = Stale("dense")
    engine = TorchRolloutEngine(fresh.policy)  # on policy: all weights are one
    fresh.drawn = engine.generate(RolloutRequest([BOS], ROWS, SPACE.codec().max_tokens, seed=5))
    for rows in (3, ROWS):
        made, _ = fresh.learn(fresh.batch()[:rows])
        assert made.scale == pytest.approx(math.sqrt(rows / BATCH), rel=1e-4)


@every_loss
@every_kind
def test_every_metric_is_finite_and_has_its_name(kind, learning, stale):
    made, _ = stale(kind).learn(stale(kind).batch(), **learning)
    names = set(
        """kl_k1 kl_k3 log_ratio_mean log_ratio_max chi2 chi2_sequence ess_token ess_sequence extreme_fraction
        kl_entropy_ratio weight_mean truncated_positive truncated_negative masked_positive masked_negative entropy
        clipped_positive clipped_negative loss gradient_norm ess masked_fraction coefficient_mean_abs length drift
        reused""".split()
    )
    assert names <= made.metrics.keys()
    extra = made.metrics.keys() - names
    assert {name for name in extra if not name.startswith("router/")} <= {"anchor_kl"}
    assert any(name.startswith("router/") for name in extra) == (kind == "moe")
    assert all(math.isfinite(value) for value in made.metrics.values())
