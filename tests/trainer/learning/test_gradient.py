"""What is learned, not only what is booked: on a policy whose gradient is an exact sum, the update that any order of
revisions leads to, at fixed parameters, is the gradient of the final advantages.

Coefficients come from the coefficient book, as in a campaign; each batch of them goes through the loss and the
correction; what the whole history applied is compared with the exact gradient, over many groups.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aliquot.domain import Tier
from aliquot.ledger import ProposalRow, RewardRow
from aliquot.trainer.config import LearningConfig
from aliquot.trainer.correction import Untruncated
from aliquot.trainer.learning import split_coefficient
from aliquot.trainer.learning.book import CoefficientBook
from aliquot.trainer.losses import LOSSES, LossInputs, Reinforce
from benchmarks.enumerable import STEPS, enumerable, log_probabilities

GROUP, GROUPS, WRONG = 4, 1_500, 4.5
"""Standard errors that one of 84 components may be off by chance: 1 in 1,700 at 4.5."""
WORLD = enumerable(0.3)
REWARDS = (WORLD.advantages - WORLD.advantages.min()).numpy()
"""The same advantages, as rewards that are not negative."""
CONFIG = {"tolerance": 0.0, "correction": {"type": "untruncated"}, "baseline": {"scale": "none"}}
CONSTANT = ({"aggregation": "sequence_sum"}, {"aggregation": "constant"})
REVISABLE = [
    loss
    for cls in LOSSES.members().values()
    for options in CONSTANT
    if (loss := cls.model_validate(options)).revisable and loss.anchored_at != "old"
]


class Campaign:
    """Facts for a coefficient book without a ledger, and every coefficient that was applied."""

    def __init__(self, **config):
        self.config = LearningConfig.model_validate(CONFIG | config)
        self.book = CoefficientBook(1, self.config)
        self.random = np.random.default_rng(0)
        self.sequences = WORLD.sample(GROUPS * GROUP, torch.Generator().manual_seed(0)).numpy()
        self.rewards_told = 0
        self.applied: list[tuple[int, float]] = []
        """(proposal, coefficient) of every step, in order."""

    def tell(self, proposal: int, value: float | None, status: str = "final", **selection) -> None:
        self.book.hear([self.fact(proposal, value, status, **selection)])

    def fact(self, proposal: int, value: float | None, status: str = "final", at: float = 1.0, **selection):
        row = ProposalRow(
            id=proposal + 1, campaign_id=1, group_id=proposal // GROUP, position=0, trajectory_id=1, text="x",
            **{"state": "selected", "created_at": 0.0} | selection,
        )  # fmt: skip
        self.rewards_told += 1
        reward = RewardRow(
            id=self.rewards_told, campaign_id=1, proposal_id=proposal + 1, objective_version=1, revision=0,
            status=status, value=value, completeness=1.0, created_at=at,
        )  # fmt: skip
        return reward, row, proposal // GROUP, None

    def learn(self, tiers=(Tier.FRESH,)) -> None:
        """A step takes all that is due."""
        for due in list(self.book._due.values()):
            member, tier = due.member, tiers[self.random.integers(len(tiers))]
            unlearn, first, masked, _ = split_coefficient(due.coefficient, member.applied, member.masked, tier)
            self.applied.append((member.proposal_id - 1, unlearn + first))
            self.book.learned(due, unlearn + first, masked)

    def gradients(self, loss) -> np.ndarray:
        """What the history applied, of each group, float64 [groups, parameters], at fixed parameters."""
        proposals, coefficients = (np.array(column) for column in zip(*self.applied, strict=True))
        per_sequence = per_coefficient(loss)
        sums = np.zeros((GROUPS, per_sequence.shape[1]))
        np.add.at(sums, proposals // GROUP, coefficients[:, None] * per_sequence[self.sequences[proposals]])
        return sums / GROUP


def per_coefficient(loss) -> np.ndarray:
    """−∂loss/∂θ of each sequence learned alone with coefficient 1, by autograd through loss and correction."""
    scale = 1.0 if loss.aggregation == "sequence_sum" else STEPS
    rows = []
    for sequence in range(len(REWARDS)):
        logits = WORLD.logits.clone().requires_grad_()
        logp = log_probabilities(logits)[[sequence]]
        one = slice(sequence, sequence + 1)
        logmu, mask = WORLD.logmu[one], WORLD.mask[one]
        weights = Untruncated().weights(logp, logmu, mask) if loss.anchored_at is None else mask.double()
        inputs = LossInputs(
            logp=logp, logmu=logmu, logold=logmu, mask=mask, weights=weights, coefficients=torch.ones(1).double(),
            groups=torch.zeros(1, dtype=torch.int64), batch_size=1, horizon=STEPS,
        )  # fmt: skip
        loss(inputs)[0].backward()
        rows.append(-scale * logits.grad.flatten().numpy())
    return np.array(rows)


def wanted(loss) -> np.ndarray:
    """The gradient of the final advantages under a loss: its expectation over μ, by enumeration."""
    centred = REWARDS - float(WORLD.probability @ torch.tensor(REWARDS))
    if loss.anchored_at is None:
        return WORLD.gradient.numpy()  # untruncated sequence weights: the exact one
    return (WORLD.drawn.numpy() * centred) @ per_coefficient(loss)


def errors(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """How many standard errors each component of the mean over groups is off, where enough groups speak of it for
    their mean to be normal."""
    often = (found != 0).sum(0) >= 200
    found, exact = found[:, often], exact[often]
    assert often.sum() >= 30
    spread = found.std(0, ddof=1) / np.sqrt(len(found))
    return np.abs(found.mean(0) - exact) / np.maximum(spread, 1e-12)


def revisions(campaign: Campaign, tiers=(Tier.FRESH,)) -> None:
    """Every proposal gets wrong values, retractions and repetitions first, in any order, and the right one last."""
    random = campaign.random
    last = list(random.permutation(GROUPS * GROUP))
    early = [int(p) for p in random.permutation(np.repeat(last, 2))]
    for count, proposal in enumerate(early):
        value = None if random.random() < 0.2 else float(random.uniform(0, 1))
        campaign.tell(proposal, value, "partial")
        if count % 600 == 0:
            campaign.learn(tiers)
    for count, proposal in enumerate(last):
        campaign.tell(int(proposal), float(REWARDS[campaign.sequences[proposal]]))
        if count % 600 == 0:
            campaign.learn(tiers)
    campaign.learn(tiers)


def test_there_is_more_than_one_loss_for_revisable_rewards():
    assert {"reinforce", "aipo"} <= {loss.type for loss in REVISABLE}


@pytest.fixture(scope="module")
def revised() -> Campaign:
    campaign = Campaign()
    revisions(campaign)
    return campaign


@pytest.mark.parametrize("loss", [one for one in REVISABLE if one.anchored_at is None], ids=str)
def test_any_order_of_revisions_leads_to_the_gradient_of_the_final_advantages(revised, loss):
    assert errors(revised.gradients(loss), wanted(loss)).max() < WRONG
    assert errors(revised.gradients(loss), 1.5 * wanted(loss)).max() > WRONG  # the test can fail


def test_what_was_learned_early_and_left_standing_would_be_seen(revised):
    first = {}
    for proposal, coefficient in revised.applied:
        first.setdefault(proposal, coefficient)
    stale = Campaign()
    stale.applied = list(first.items())  # the first value of each, never corrected
    assert errors(stale.gradients(Reinforce()), WORLD.gradient.numpy()).max() > WRONG


def test_books_balance_whatever_tiers_hold_back():
    campaign = Campaign()
    revisions(campaign, tiers=tuple(Tier))
    for group_id, group in campaign.book.groups.items():
        for member, advantage in zip(group.members.values(), campaign.book.advantages(group_id), strict=True):
            assert member.applied + member.masked == pytest.approx(advantage, abs=1e-9)
            assert member.applied == 0.0 or member.applied * advantage > -1e-9


def selected(campaign: Campaign) -> None:
    """The lab is shown what a wrong surrogate likes, with a floor of exploration; the rest keeps its prediction."""
    for proposal, sequence in enumerate(campaign.sequences):
        truth = float(REWARDS[sequence])
        predicted = 0.2 + 0.5 * (sequence % 3 == 0)  # knows nothing of the truth
        chance = 0.9 if predicted > 0.5 else 0.3
        seen = campaign.random.random() < chance
        facts = {"selection_probability": chance, "predicted_mean": predicted}
        campaign.tell(proposal, predicted, "pending", state="selected" if seen else "passed_over", **facts)
        if seen:
            campaign.tell(proposal, truth, state="selected", **facts)
        if proposal % 600 == 0:
            campaign.learn()
    campaign.learn()


def test_with_selection_the_doubly_robust_value_is_unbiased_and_the_naive_one_is_not():
    robust, naive = Campaign(selection="doubly_robust"), Campaign(selection="none")
    selected(robust)
    selected(naive)
    exact = WORLD.gradient.numpy()
    assert errors(robust.gradients(Reinforce()), exact).max() < WRONG
    assert errors(naive.gradients(Reinforce()), exact).max() > 2 * WRONG


def test_results_that_are_back_stand_for_those_still_out_when_that_is_corrected_for():
    """Proposals of any age, results that take about ten days: what is back by now is the faster part."""
    off = {}
    for censoring in ("inverse_propensity", "none"):
        campaign = Campaign(censoring=censoring, max_inverse_probability=20.0)
        took = campaign.random.exponential(10.0, GROUPS * GROUP)
        ages = campaign.random.uniform(4.0, 20.0, GROUPS * GROUP)
        facts = []
        for proposal, (sequence, time, age) in enumerate(zip(campaign.sequences, took, ages, strict=True)):
            known = {"selection_probability": 1.0, "predicted_mean": 0.2, "created_at": -age}
            facts.append(campaign.fact(proposal, 0.2, "pending", **known))
            if time <= age:
                facts.append(campaign.fact(proposal, float(REWARDS[sequence]), at=time - age, **known))
        campaign.book.hear(facts)
        values = np.array([campaign.book.value(member) for _, member in campaign.book.members()])
        wrong = values - REWARDS[campaign.sequences]
        off[censoring] = abs(wrong.mean()) / (wrong.std() / np.sqrt(len(wrong)))
    assert off["inverse_propensity"] < 3.5
    assert off["none"] > 10
