"""A campaign of eight experiments, written into the ledger by hand, so that every number of it is known."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from aliquot.clock import EPOCH, HOUR
from aliquot.domain import Design
from aliquot.ledger import (
    BudgetRow,
    CampaignRow,
    DesignRow,
    DispositionRow,
    ExperimentRow,
    GroupRow,
    InboxRow,
    Ledger,
    LineageRow,
    MeasurementRow,
    PolicyVersionRow,
    ProposalRow,
    RewardRow,
    TrainerStatusRow,
    TrajectoryRow,
    VerdictRow,
    record,
)

SMILES = ("CCO", "CCN", "c1ccccc1C", "c1ccccc1O", "CCCl", "c1ccccc1N", "CCS", "CCBr")
SPEC = {
    "name": "By hand",
    "seed": 5,
    "space": {"type": "molecule"},
    "objective": {
        "targets": [
            {"assay": "potency", "desirability": {"type": "ramp", "low": 4.0, "high": 8.0}},
            {"assay": "solubility", "desirability": {"type": "ramp", "low": -6.0, "high": -2.0}},
        ]
    },
    "budget": {"experiments": 10},
}
STATES = {
    # number: (state, outcome, reason, hours to the end)
    1: ("completed", "measured", "", 30),
    2: ("running", None, "", None),
    3: ("failed", "lab_failure", "precipitated", 12),
    4: ("expired", "timed_out", "no last word within 100 hours", 100),
    5: ("completed", "measured", "", 20),
    6: ("running", None, "", None),
    7: ("running", None, "", None),
    8: ("ready", None, "", None),
}
MEASUREMENTS = (
    # experiment, assay, replicate, revision, value, standard error, retracted, hours
    (1, "potency", 0, 0, 6.0, 0.3, False, 10),
    (1, "potency", 1, 0, 7.0, 0.4, False, 30),
    (1, "solubility", 0, 0, -3.0, 0.2, False, 8),
    (2, "potency", 0, 0, 5.0, None, False, 11),
    (5, "potency", 0, 0, 9.0, 0.3, False, 15),
    (5, "solubility", 0, 0, -2.0, 0.2, False, 20),
    (5, "potency", 0, 1, 7.0, 0.3, False, 40),
    (6, "potency", 0, 0, 8.0, 0.3, False, 16),
    (6, "solubility", 0, 0, -4.0, 0.2, False, 18),
    (6, "potency", 0, 1, None, None, True, 50),
)
REWARDS = {
    # experiment: (status, value, uncertainty, completeness), oldest first
    1: [("pending", 0.5, 0.2, 0.0), ("final", (0.625 * 0.75) ** 0.5, 0.03, 1.0)],
    2: [("pending", 0.5, 0.2, 0.0), ("partial", 0.4, 0.1, 0.5)],
    3: [("final", 0.0, None, 1.0)],
    4: [("pending", 0.3, 0.2, 0.0)],
    5: [("final", 1.0, 0.05, 1.0), ("revised", 0.75**0.5, 0.05, 1.0)],
    6: [("final", 0.95, 0.05, 1.0), ("partial", 0.45, 0.2, 0.5)],
    7: [("pending", None, None, 0.0)],
    8: [("pending", None, None, 0.0)],
}


@pytest.fixture(scope="session")
def by_hand(tmp_path_factory) -> Iterator[tuple[Ledger, int]]:
    """(ledger, campaign id), to be read only. Rounds 1 to 4 hold experiments (1, 2), (3, 4), (5, 6), (7, 8)."""
    ledger = Ledger(tmp_path_factory.mktemp("by-hand") / "ledger.db")
    with ledger.write() as session:
        campaign = CampaignRow(name="By hand", spec=SPEC, state="paused", clock=EPOCH + 120 * HOUR, created_at=EPOCH)
        session.add(campaign)
        session.flush()
        assert campaign.id is not None
        _fill(session, campaign.id)
    yield ledger, campaign.id
    ledger.close()


@pytest.fixture
def by_hand_copy(by_hand, tmp_path) -> Iterator[tuple[Ledger, int]]:
    """The same, to be written to."""
    original, campaign_id = by_hand
    with sqlite3.connect(original.path) as source, sqlite3.connect(tmp_path / "ledger.db") as copy:
        source.backup(copy)
    source.close()
    copy.close()
    ledger = Ledger(tmp_path / "ledger.db")
    yield ledger, campaign_id
    ledger.close()


def _fill(session, campaign: int) -> None:
    def add(row):
        session.add(row)
        session.flush()
        return row

    add(BudgetRow(campaign_id=campaign, unit="experiments", limit=10, reserved=1, spent=7))
    add(BudgetRow(campaign_id=campaign, unit="money", limit=1000, spent=350))
    root = add(LineageRow(campaign_id=campaign, reason="start", created_at=EPOCH))
    version = add(
        PolicyVersionRow(campaign_id=campaign, lineage_id=root.id, step=0, weights="0.safetensors", created_at=EPOCH)
    )
    proposals, designs = {}, {}
    for number in range(1, 5):
        source = "person" if number == 4 else "fresh"
        group = add(GroupRow(campaign_id=campaign, number=number, source=source, created_at=EPOCH + number * HOUR))
        common = {"campaign_id": campaign, "group_id": group.id, "created_at": group.created_at}
        for position, experiment in enumerate((2 * number - 1, 2 * number)):
            design = Design(kind="molecule", value=SMILES[experiment - 1])
            designs[experiment] = design
            add(DesignRow(key=design.key, kind=design.kind, value=design.value))
            trajectory = add(TrajectoryRow(campaign_id=campaign, digest="-", policy_version=version.id, tokens=3))
            state, outcome, reason, hours = STATES[experiment]
            sent = None if state == "ready" else EPOCH + 2 * HOUR
            row = add(
                ExperimentRow(
                    campaign_id=campaign, number=experiment, design_key=design.key, lab="bench",
                    assays=["potency", "solubility"], state=state, outcome=outcome, reason=reason,
                    selected_at=EPOCH + HOUR, dispatched_at=sent, ended_at=hours and EPOCH + hours * HOUR,
                )
            )  # fmt: skip
            proposals[experiment] = add(
                ProposalRow(
                    **common, position=position, trajectory_id=trajectory.id, design_key=design.key, text=design.text,
                    state="selected", experiment_id=row.id, selection_probability=0.25, predicted_mean=0.5,
                    predicted_sd=0.2,
                )
            )  # fmt: skip
        if number in (1, 4):
            for position in range(2, 3 if number == 1 else 4):
                lost = {"state": "invalid", "outcome": "invalid_design", "reason": "'C(' is not a valid SMILES"}
                row = add(ProposalRow(**common, position=position, text="C(", **lost))
                add(_reward(campaign, row, 0, ("final", 0.0, 0.0, 1.0)))
        if number == 3:
            key = designs[1].key
            refused = {"state": "refused", "outcome": "refused_by_verifier", "design_key": key, "text": "CCO"}
            row = add(ProposalRow(**common, position=2, **refused))
            add(_reward(campaign, row, 0, ("final", 0.0, 0.0, 1.0)))
            verdict = {"verifier": "size", "plugin_version": "1", "digest": "-", "score": 3.0, "accepted": False}
            verdict |= {"reason": "3 heavy atoms, below 5", "details": {}, "controls": [], "seconds": 0, "cost": 0}
            add(VerdictRow(campaign_id=campaign, design_key=key, created_at=EPOCH, **verdict))
        if number == 4:
            again = {"state": "credited", "design_key": designs[1].key, "text": "CCO", "selection_probability": 1.0}
            add(ProposalRow(**common, position=4, experiment_id=proposals[1].experiment_id, **again))
    inbox = add(
        InboxRow(campaign_id=campaign, lab="bench", delivery_id="1", body={}, state="applied", received_at=EPOCH)
    )
    for experiment, assay, replicate, revision, value, error, retracted, hours in MEASUREMENTS:
        unit, at = {"potency": "pIC50", "solubility": "logS"}[assay], EPOCH + hours * HOUR
        add(
            MeasurementRow(
                experiment_id=proposals[experiment].experiment_id, inbox_id=inbox.id, assay=assay, replicate=replicate,
                revision=revision, value=value, unit=unit, standard_error=error, quality="good", retracted=retracted,
                measured_at=at, received_at=at,
            )
        )  # fmt: skip
    rewards = {}
    for experiment, revisions in REWARDS.items():
        for revision, what in enumerate(revisions):
            rewards[experiment] = add(_reward(campaign, proposals[experiment], revision, what))
    branch = add(LineageRow(campaign_id=campaign, parent_id=root.id, fork_step=2, reason="crash", created_at=EPOCH))
    done = ((root, 1, "fresh", 1.0, 0.0, ""), (root, 2, "fresh", -0.5, 0.0, ""), (root, 3, "old", 9.0, 0.0, ""))
    done += ((branch, 3, "ancient", 0.25, -0.75, "too far"), (branch, 4, None, 0.0, 0.1, "below tolerance"))
    for lineage, step, tier, applied, masked, reason in done:
        add(
            DispositionRow(
                proposal_id=proposals[1].id, reward_id=rewards[1].id, lineage_id=lineage.id, step=step, tier=tier,
                applied=applied, masked=masked, reason=reason, created_at=EPOCH,
            )
        )  # fmt: skip
    add(TrainerStatusRow(campaign_id=campaign, step=4, backlog=2, metrics={"ess": 0.9}))
    for step in range(1, 5):
        record(session, campaign, EPOCH, "trained", step=step, kl_k3=0.01 * step, ess=0.9, entropy=1.0)


def _reward(campaign: int, proposal, revision: int, what) -> RewardRow:
    status, value, uncertainty, completeness = what
    return RewardRow(
        campaign_id=campaign, proposal_id=proposal.id, objective_version=1, revision=revision, status=status,
        value=value, uncertainty=uncertainty, completeness=completeness, created_at=EPOCH,
    )  # fmt: skip
