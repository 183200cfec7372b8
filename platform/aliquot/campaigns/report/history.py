"""What the page tells beyond the rows of the experiments, read from the ledger: training, delays, what went wrong."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from sqlmodel import Session, col, func, select

from aliquot.clock import HOUR
from aliquot.domain import RULES, ExperimentState, Outcome, RewardRule, Tier
from aliquot.ledger import (
    DispositionRow,
    EventRow,
    ExperimentRow,
    InboxRow,
    MeasurementRow,
    ProposalRow,
    VerdictRow,
)
from aliquot.ledger import lineages as branches

TAUGHT = {
    RewardRule.OBJECTIVE: "the objective's value",
    RewardRule.FLOOR: "the objective's floor",
    RewardRule.FAILURE_VALUE: "the assay's failure value",
    RewardRule.MISSING: "no value of its own: what came counts, the rest is imputed or missing, never zero",
}


class Trouble(NamedTuple):
    """One kind of thing that did not give a result."""

    what: str
    why: str
    """An example, where there were several."""
    number: int
    taught: str
    """What the policy was taught by it."""


def trained(session: Session, campaign_id: int) -> dict[str, list[float]]:
    """Metrics of every training step, in the order they happened; a step without a metric has NaN."""
    query = select(EventRow.data).where(EventRow.campaign_id == campaign_id, EventRow.kind == "trained")
    steps = session.exec(query.order_by(col(EventRow.sequence))).all()
    names = dict.fromkeys(name for data in steps for name in data)
    return {name: [_number(data.get(name)) for data in steps] for name in names}


def delays(session: Session, campaign_id: int) -> dict[str, list[float]]:
    """Hours from dispatch to the last first word of each assay, by assay; corrections are not counted."""
    query = (
        select(MeasurementRow.assay, func.max(MeasurementRow.received_at) - ExperimentRow.dispatched_at)
        .join(ExperimentRow)
        .where(ExperimentRow.campaign_id == campaign_id, MeasurementRow.revision == 0)
        .where(col(ExperimentRow.dispatched_at).is_not(None))
        .group_by(col(MeasurementRow.experiment_id), col(MeasurementRow.assay))
    )
    hours: dict[str, list[float]] = defaultdict(list)
    for assay, seconds in session.exec(query):
        hours[assay].append(seconds / HOUR)
    return dict(hours)


def tiers(session: Session, campaign_id: int) -> tuple[list[int], dict[str, list[int]]]:
    """(steps, dispositions of each step by tier) on the branch the campaign lives on."""
    lineage = branches.newest(session, campaign_id)
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for one, limit in branches.branch(session, lineage) if lineage else []:
        query = select(DispositionRow.step, DispositionRow.tier, func.count()).where(DispositionRow.lineage_id == one)
        if limit is not None:
            query = query.where(DispositionRow.step <= limit)
        for step, tier, count in session.exec(query.group_by(DispositionRow.step, DispositionRow.tier)):  # type: ignore[arg-type]
            counts[step][tier or "unused"] += count
    steps = sorted(counts)
    return steps, {str(tier): [counts[step][tier] for step in steps] for tier in [*Tier, "unused"]}


def troubles(session: Session, campaign_id: int) -> list[Trouble]:
    """Experiments, proposals, designs and deliveries that did not become a result; the most frequent first."""
    found: list[Trouble] = []
    experiments = select(ExperimentRow.outcome, ExperimentRow.state, func.min(ExperimentRow.reason), func.count())
    experiments = experiments.where(
        ExperimentRow.campaign_id == campaign_id,
        col(ExperimentRow.state).in_([s for s in ExperimentState if s.terminal]),
        func.coalesce(ExperimentRow.outcome, "") != Outcome.MEASURED,
    )
    for outcome, state, reason, count in session.exec(experiments.group_by(ExperimentRow.outcome, ExperimentRow.state)):
        found.append(Trouble(f"experiment {state}", _why(outcome, reason), count, _taught(outcome)))
    proposals = select(ProposalRow.outcome, ProposalRow.state, func.min(ProposalRow.reason), func.count()).where(
        ProposalRow.campaign_id == campaign_id, col(ProposalRow.state).in_(("invalid", "undecided"))
    )
    for outcome, state, reason, count in session.exec(proposals.group_by(ProposalRow.outcome, ProposalRow.state)):
        found.append(Trouble(f"proposal {state}", _why(outcome, reason), count, _taught(outcome)))
    refusals = select(VerdictRow.verifier, func.min(VerdictRow.reason), func.count()).where(
        VerdictRow.campaign_id == campaign_id, col(VerdictRow.accepted).is_(False)
    )
    for verifier, reason, count in session.exec(refusals.group_by(VerdictRow.verifier)):
        found.append(Trouble(f"design refused by {verifier}", reason, count, _taught(Outcome.REFUSED_BY_VERIFIER)))
    inbox = select(func.min(InboxRow.note), func.count()).where(
        InboxRow.campaign_id == campaign_id, InboxRow.state == "quarantined"
    )
    for note, count in session.exec(inbox.group_by(InboxRow.state)):
        found.append(Trouble("delivery set aside", note, count, "nothing yet: it is kept as it came"))
    errors = select(EventRow.data).where(EventRow.campaign_id == campaign_id, EventRow.kind == "lab_error")
    told = [str(data.get("message", "")) for data in session.exec(errors.order_by(col(EventRow.id)))]
    if told:
        found.append(Trouble("lab error", told[-1], len(told), "nothing"))
    return sorted(found, key=lambda trouble: (-trouble.number, trouble.what))


def _why(outcome: str | None, reason: str) -> str:
    said = (outcome or "").replace("_", " ")
    return f"{said}: {reason}" if said and reason else said or reason


def _taught(outcome: str | None) -> str:
    return TAUGHT[RULES[Outcome(outcome)] if outcome else RewardRule.MISSING]


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")
