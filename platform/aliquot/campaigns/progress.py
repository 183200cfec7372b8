"""How a campaign stands, in one short read transaction: all counting is done by the database.

What the four questions of the page need: is it all right, what is the best so far, what is it waiting for, does it
need me. The best is taken over complete designs only; a value that was partly imputed is not a result.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

from pydantic import JsonValue
from sqlmodel import Session, col, func, select

from aliquot.domain import Design, ExperimentState, Noun, RewardStatus, Tier
from aliquot.ledger import (
    BudgetRow,
    CampaignRow,
    DesignRow,
    DispositionRow,
    ExperimentRow,
    Ledger,
    MeasurementRow,
    ProposalRow,
    RewardRow,
    TrainerStatusRow,
)
from aliquot.ledger import lineages as branches

WHOLE = (RewardStatus.FINAL, RewardStatus.REVISED)
"""Reward states in which every target of the objective is known."""
AT_LAB = (ExperimentState.DISPATCHING, ExperimentState.RUNNING, ExperimentState.UNCERTAIN)


class ExperimentCounts(Noun):
    """Every experiment in exactly one place."""

    budget: int
    """How many the campaign may do."""
    waiting: int
    """Selected, and not yet at the lab."""
    out: int
    """At the lab, nothing heard of."""
    partly_back: int
    """At the lab, with at least one measurement."""
    back: int
    failed: int
    given_up: int
    """Expired or cancelled: no longer waited for."""

    @property
    def total(self) -> int:
        return self.waiting + self.out + self.partly_back + self.back + self.failed + self.given_up


class Best(Noun):
    """The best design that is known whole."""

    value: float
    uncertainty: float | None
    design: str
    experiment: int
    """Its number within the campaign."""


class BudgetLine(Noun):
    unit: str
    limit: float
    reserved: float
    spent: float


class ProposalCounts(Noun):
    total: int
    invalid: int
    refused: int
    selected: int


class Progress(Noun):
    """How a campaign stands."""

    name: str
    state: str
    reason: str
    lab_time: float
    """Lab clock, Unix seconds."""
    elapsed_seconds: float
    """Lab time since the campaign was made."""
    experiments: ExperimentCounts
    best: Best | None
    budget: tuple[BudgetLine, ...]
    policy_version: int | None
    """The newest published one."""
    trainer_step: int
    backlog: int
    """Proposals whose coefficient is still to be learned."""
    dispositions: dict[str, int]
    """On the branch the campaign lives on, by tier; `unused`: those without one."""
    proposals: ProposalCounts
    metrics: dict[str, JsonValue]
    """Of the trainer's last step."""


def progress(ledger: Ledger, campaign_id: int) -> Progress:
    """How a campaign stands now.

    Raises:
        LookupError: the ledger has no such campaign.
    """
    with ledger.read() as session:
        campaign = campaign_row(session, campaign_id)
        lines = session.exec(select(BudgetRow).where(BudgetRow.campaign_id == campaign_id).order_by(BudgetRow.unit))
        version = branches.newest_version(session, campaign_id)
        trainer = session.get(TrainerStatusRow, campaign_id)
        tiers = dict.fromkeys([*Tier, "unused"], 0)
        for entry in dispositions(session, campaign_id):
            tiers[entry.tier or "unused"] += entry.number
        return Progress(
            name=campaign.name,
            state=campaign.state,
            reason=campaign.reason,
            lab_time=campaign.clock,
            elapsed_seconds=campaign.clock - campaign.created_at,
            experiments=_experiments(session, campaign),
            best=_best(session, campaign_id),
            budget=tuple(BudgetLine(unit=b.unit, limit=b.limit, reserved=b.reserved, spent=b.spent) for b in lines),
            policy_version=version.id if version else None,
            trainer_step=trainer.step if trainer else 0,
            backlog=trainer.backlog if trainer else 0,
            dispositions={str(tier): count for tier, count in tiers.items()},
            proposals=_proposals(session, campaign_id),
            metrics=trainer.metrics if trainer else {},
        )


def campaign_row(session: Session, campaign_id: int) -> CampaignRow:
    """Raises `LookupError` when there is none."""
    row = session.get(CampaignRow, campaign_id)
    if row is None:
        known = session.exec(select(CampaignRow.id).order_by(col(CampaignRow.id))).all()
        raise LookupError(f"the ledger has no campaign {campaign_id}; it has {', '.join(map(str, known)) or 'none'}")
    return row


def newest_rewards(campaign_id: int) -> Any:
    """Subquery of the ids of those rewards that hold: the newest of each proposal."""
    return (
        select(func.max(RewardRow.id)).where(RewardRow.campaign_id == campaign_id).group_by(col(RewardRow.proposal_id))
    )


class Disposed(NamedTuple):
    """What the trainer did, summed over the dispositions of one tier and reason."""

    tier: str | None
    reason: str
    number: int
    """How many dispositions."""
    applied: float
    masked: float
    applied_size: float
    """Σ |applied|: advantages of both signs cancel in the plain sum."""
    masked_size: float


def dispositions(session: Session, campaign_id: int) -> list[Disposed]:
    """By tier and reason, on the branch the campaign lives on: what an abandoned branch did was taken back."""
    lineage = branches.newest(session, campaign_id)
    found: dict[tuple[str | None, str], Disposed] = {}
    for one, limit in branches.branch(session, lineage) if lineage else []:
        columns = (col(DispositionRow.applied), col(DispositionRow.masked))
        sums = [func.count(), *map(func.sum, columns), *(func.sum(func.abs(column)) for column in columns)]
        query = select(DispositionRow.tier, DispositionRow.reason, *sums).where(DispositionRow.lineage_id == one)  # type: ignore[call-overload]
        if limit is not None:
            query = query.where(DispositionRow.step <= limit)
        for tier, reason, *numbers in session.exec(query.group_by(DispositionRow.tier, DispositionRow.reason)):
            before = found.get((tier, reason), Disposed(tier, reason, 0, 0.0, 0.0, 0.0, 0.0))[2:]
            found[tier, reason] = Disposed(tier, reason, *map(operator.add, before, numbers))
    return [found[key] for key in sorted(found, key=lambda key: (key[0] or "~", key[1]))]


def _experiments(session: Session, campaign: CampaignRow) -> ExperimentCounts:
    heard = select(MeasurementRow.id).where(MeasurementRow.experiment_id == ExperimentRow.id).exists()
    query = select(ExperimentRow.state, heard, func.count()).where(ExperimentRow.campaign_id == campaign.id)  # type: ignore[call-overload]
    counts = dict.fromkeys(("waiting", "out", "partly_back", "back", "failed", "given_up"), 0)
    for state, some, count in session.exec(query.group_by(ExperimentRow.state, heard)):
        counts[("partly_back" if some else "out") if state in AT_LAB else _PLACES[ExperimentState(state)]] += count
    return ExperimentCounts(budget=campaign.spec["budget"]["experiments"], **counts)


_PLACES = {
    ExperimentState.SELECTED: "waiting",
    ExperimentState.AWAITING_APPROVAL: "waiting",
    ExperimentState.READY: "waiting",
    ExperimentState.COMPLETED: "back",
    ExperimentState.FAILED: "failed",
    ExperimentState.CANCELLED: "given_up",
    ExperimentState.EXPIRED: "given_up",
}


def _best(session: Session, campaign_id: int) -> Best | None:
    query = (
        select(RewardRow, ExperimentRow.number, DesignRow)
        .join(ProposalRow, col(ProposalRow.id) == RewardRow.proposal_id)
        .join(ExperimentRow, col(ExperimentRow.id) == ProposalRow.experiment_id)
        .join(DesignRow, col(DesignRow.key) == ExperimentRow.design_key)
        .where(
            col(RewardRow.id).in_(newest_rewards(campaign_id)),
            col(RewardRow.status).in_(WHOLE),
            col(RewardRow.value).is_not(None),
        )
        .order_by(col(RewardRow.value).desc(), col(ExperimentRow.number))
    )
    found = session.exec(query.limit(1)).first()
    if found is None:
        return None
    reward, number, design = found
    text = Design(kind=design.kind, value=design.value).text
    return Best(value=reward.value, uncertainty=reward.uncertainty, design=text, experiment=number)


def _proposals(session: Session, campaign_id: int) -> ProposalCounts:
    query = select(ProposalRow.state, func.count()).where(ProposalRow.campaign_id == campaign_id)
    states = dict(session.exec(query.group_by(ProposalRow.state)).all())
    return ProposalCounts(
        total=sum(states.values()),
        invalid=states.get("invalid", 0),
        refused=states.get("refused", 0),
        selected=states.get("selected", 0),
    )
