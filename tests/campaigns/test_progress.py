from __future__ import annotations

import pytest

from aliquot.campaigns.progress import progress


def test_every_experiment_is_counted_in_exactly_one_place(by_hand):
    counts = progress(*by_hand).experiments
    assert counts.model_dump() == {
        "budget": 10, "waiting": 1, "out": 1, "partly_back": 2, "back": 2, "failed": 1, "given_up": 1,
    }  # fmt: skip
    assert counts.total == 8


def test_the_best_is_the_newest_reward_of_a_whole_design_not_one_that_was_revised_or_taken_back(by_hand):
    best = progress(*by_hand).best
    assert (best.experiment, best.design) == (5, "CCCl")
    assert best.value == pytest.approx(0.8660254, abs=1e-6)  # not the 1.0 before its revision, nor 6's retracted 0.95


def test_proposals_budget_and_times_are_what_the_ledger_holds(by_hand):
    now = progress(*by_hand)
    assert now.proposals.model_dump() == {"total": 13, "invalid": 3, "refused": 1, "selected": 8}
    assert [(b.unit, b.limit, b.reserved, b.spent) for b in now.budget] == [
        ("experiments", 10, 1, 7),
        ("money", 1000, 0, 350),
    ]
    assert now.elapsed_seconds == 120 * 3600
    assert (now.state, now.trainer_step, now.backlog, now.metrics) == ("paused", 4, 2, {"ess": 0.9})


def test_what_an_abandoned_branch_did_is_not_counted(by_hand):
    assert progress(*by_hand).dispositions == {"fresh": 2, "moderate": 0, "old": 0, "ancient": 1, "unused": 1}


def test_a_campaign_that_is_not_there_is_said_to_be_missing(by_hand):
    with pytest.raises(LookupError, match="no campaign 9; it has 1"):
        progress(by_hand[0], 9)
