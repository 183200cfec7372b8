"""What a monitor asks for is done: a gradient thrown away, a roll-back that learns again what it abandoned, a pause."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from sqlmodel import select

from aliquot.domain import CampaignState
from aliquot.ledger import CampaignRow, EventRow, LineageRow
from aliquot.trainer import loop
from aliquot.trainer.monitors import Action, Alarm
from tests.trainer.test_loop import Campaign

VALUES = [0.1, 0.9, 0.2, 0.3, 0.1, 0.2]


def alarm(action: Action, since: int) -> Alarm:
    return Alarm(
        monitor="test", action=action, step=since, since=since, metric="kl_k3", value=1.0, limit=0.1, message="too far"
    )


def events(campaign: Campaign, kind: str) -> list[dict]:
    with campaign.ledger.read() as session:
        return [event.data for event in session.exec(select(EventRow).where(EventRow.kind == kind))]


@pytest.fixture
def campaign(tmp_path):
    torch.set_num_threads(1)
    campaign = Campaign(tmp_path)
    with campaign.ledger.write() as session:
        session.get(CampaignRow, 1).state = CampaignState.RUNNING
    yield campaign
    campaign.trainer.close()
    campaign.ledger.close()


def spoiled(times: int):
    """`gradient`, of which the first so many are not finite."""
    real, left = loop.gradient, [times]

    def gradient(*arguments):
        found = real(*arguments)
        if left[0] > 0:
            left[0] -= 1
            return replace(found, metrics=found.metrics | {"gradient_norm": math.nan})
        return found

    return gradient


def test_a_gradient_that_is_not_finite_is_thrown_away_and_what_was_due_stays_due(campaign, monkeypatch):
    ids = campaign.propose(1, VALUES)
    before = campaign.weights()
    monkeypatch.setattr(loop, "gradient", spoiled(1))
    campaign.trainer.step()
    assert campaign.trainer.step_number == 0 and campaign.sums() == {}
    assert all(torch.equal(a, b) for a, b in zip(before.values(), campaign.weights().values(), strict=True))
    assert [one["action"] for one in events(campaign, "alarm")] == ["skip_step"]
    campaign.trainer.run_pending()
    campaign.trainer.finish()
    assert sorted(campaign.sums()) == ids


def test_a_batch_whose_gradient_was_thrown_away_waits_until_others_have_moved_the_policy(campaign, monkeypatch):
    first, second = campaign.propose(1, VALUES), campaign.propose(2, VALUES)
    monkeypatch.setattr(loop, "gradient", spoiled(1))
    thrown = set(campaign_due(campaign))
    campaign.trainer.step()
    campaign.trainer.step()
    learned = set(campaign.sums())
    assert learned and not learned & thrown
    campaign.trainer.run_pending()
    assert set(campaign.sums()) == {*first, *second}


def campaign_due(campaign: Campaign) -> list[int]:
    with campaign.ledger.read() as session:
        campaign.trainer.book.follow(session, 5.0)
    return [due.member.proposal_id for due in campaign.trainer.book.take()[0]]


def test_monitors_are_given_all_that_they_judge_by_of_every_step(campaign, monkeypatch):
    readings: dict[str, list[dict]] = {"before": [], "after": []}
    watch = campaign.trainer.state.watch

    def spy(phase):
        real = getattr(watch, phase)
        monkeypatch.setattr(
            watch, phase, lambda step, reading: readings[phase].append(dict(reading)) or real(step, reading)
        )

    spy("before")
    spy("after")
    campaign.propose(1, VALUES)
    steps = campaign.trainer.run_pending()
    assert len(readings["before"]) == len(readings["after"]) == steps > 1
    for reading in readings["before"]:
        assert {"due", "coefficient_mean_abs", "gradient_norm", "loss"} <= reading.keys() and reading["due"] >= 1
    assert 0 <= readings["before"][0]["kl_fresh"] < 1e-6  # drawn from the very weights that score it
    assert "kl_fresh" not in readings["before"][1]  # a version older by now
    assert all({"entropy", "ess_token", "kl_k3", "due"} <= reading.keys() for reading in readings["after"])


def test_what_a_step_gives_up_without_a_batch_is_watched_too(tmp_path, monkeypatch):
    torch.set_num_threads(1)
    campaign = Campaign(tmp_path, sampler={"type": "drop_after", "versions": 0})
    campaign.propose(1, VALUES)
    assert campaign.trainer.step() is not None
    seen: list[dict] = []
    monkeypatch.setattr(campaign.trainer.state.watch, "after", lambda step, reading: seen.append(dict(reading)) or [])
    campaign.trainer.run_pending()
    assert seen and seen[0]["due"] == 0
    campaign.trainer.close()
    campaign.ledger.close()


def test_gradients_that_stay_broken_end_in_a_pause_and_not_in_a_circle(campaign, monkeypatch):
    campaign.propose(1, VALUES)
    monkeypatch.setattr(loop, "gradient", spoiled(10_000))
    assert campaign.trainer.run_pending() < 50
    with campaign.ledger.read() as session:
        row = session.get(CampaignRow, 1)
        assert row.state == CampaignState.PAUSED and "gradient" in row.reason
    actions = [one["action"] for one in events(campaign, "alarm")]
    assert "roll_back" in actions and actions[-1] == "pause"
    assert campaign.trainer.step() is None


def test_a_roll_back_forks_before_the_trouble_and_learns_again_what_came_after(campaign, monkeypatch):
    campaign.propose(1, VALUES)
    campaign.trainer.run_pending()
    campaign.trainer.save()
    good, kept, step = campaign.weights(), campaign.sums(), campaign.trainer.step_number
    campaign.propose(2, [0.5, 0.1, 0.9, 0.3, 0.1, 0.2])
    raised = [alarm(Action.ROLL_BACK, step + 1)]
    monkeypatch.setattr(campaign.trainer.state.watch, "after", lambda *_: [raised.pop()] if raised else [])
    campaign.trainer.step()
    assert campaign.trainer.step_number == step and campaign.sums() == kept
    assert all(torch.equal(a, b) for a, b in zip(good.values(), campaign.weights().values(), strict=True))
    with campaign.ledger.read() as session:
        branch = session.exec(select(LineageRow).order_by(LineageRow.id)).all()[-1]
        assert (branch.parent_id, branch.fork_step, branch.reason) == (1, step, "too far")
    campaign.trainer.run_pending()
    campaign.trainer.finish()
    assert len(campaign.sums()) == 12


def test_a_roll_back_from_before_every_checkpoint_goes_back_to_the_prior(campaign, monkeypatch):
    prior = {name: x.clone() for name, x in campaign.trainer.state.reference.model.state_dict().items()}
    campaign.propose(1, VALUES)
    raised = [alarm(Action.ROLL_BACK, 1)]
    monkeypatch.setattr(campaign.trainer.state.watch, "after", lambda *_: [raised.pop()] if raised else [])
    campaign.trainer.step()
    assert campaign.trainer.step_number == 0
    assert all(torch.equal(x, campaign.weights()[name]) for name, x in prior.items())
    campaign.trainer.run_pending()
    campaign.trainer.finish()
    assert len(campaign.sums()) == 6


def test_what_was_learned_lately_is_worth_a_checkpoint_that_is_kept(campaign):
    campaign.propose(1, [0.8, 0.9, 0.7, 0.9, 0.8, 0.9])
    campaign.trainer.run_pending()
    campaign.trainer.save()
    best = campaign.trainer.step_number
    for number in range(2, 9):
        campaign.propose(number, [0.1, 0.2, 0.1, 0.3, 0.2, 0.1])
        campaign.trainer.run_pending()
        campaign.trainer.save()
    names = [path.name for path in (campaign.folder / "checkpoints").iterdir()]
    assert len(names) == 4 and any(f"-step-{best}-value-" in name for name in names)
