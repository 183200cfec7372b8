"""Branches of checkpoints, and what a branch has consumed.

A lineage keeps its parent's steps up to `fork_step`. What was consumed on a branch is therefore exactly: its own
dispositions, its parent's up to `fork_step`, its grandparent's up to the smaller of the two forks, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, case, func, or_
from sqlmodel import Session, col, select

from aliquot.ledger.events import record
from aliquot.ledger.tables import CheckpointRow, DispositionRow, GroupUseRow, LineageRow, PolicyVersionRow, ReuseRow

Branch = list[tuple[int, int | None]]
"""(lineage id, last step kept or None for all), newest first."""


def start(session: Session, campaign_id: int, at: float) -> LineageRow:
    """The root of a campaign's tree."""
    row = LineageRow(campaign_id=campaign_id, reason="start", created_at=at)
    session.add(row)
    session.flush()
    return row


def fork(session: Session, parent: LineageRow, step: int, reason: str, at: float) -> LineageRow:
    """A new branch that keeps `parent` up to `step`; what came after is abandoned, and will be learned again."""
    row = LineageRow(campaign_id=parent.campaign_id, parent_id=parent.id, fork_step=step, reason=reason, created_at=at)
    session.add(row)
    session.flush()
    record(
        session, parent.campaign_id, at, "lineage_forked", parent=parent.id, lineage=row.id, step=step, reason=reason
    )
    return row


def newest(session: Session, campaign_id: int) -> LineageRow | None:
    """The branch a campaign lives on."""
    query = select(LineageRow).where(LineageRow.campaign_id == campaign_id).order_by(col(LineageRow.id).desc())
    return session.exec(query).first()


def branch(session: Session, lineage: LineageRow) -> Branch:
    """The chain from a lineage to the root, with the steps that count of each."""
    chain: Branch = []
    limit: int | None = None
    current: LineageRow | None = lineage
    while current is not None:
        chain.append((current.id, limit))  # type: ignore[arg-type]
        if current.parent_id is not None:
            limit = current.fork_step if limit is None else min(limit, current.fork_step)
        current = session.get(LineageRow, current.parent_id) if current.parent_id else None
    return chain


def _within(chain: Branch, lineage_id, step):
    return or_(*[
        lineage_id == one if limit is None else and_(lineage_id == one, step <= limit) for one, limit in chain
    ])  # fmt: skip


def consumed(session: Session, chain: Branch) -> Sequence[tuple[int, float, float, int]]:
    """(proposal id, Σ applied, Σ masked, newest reward id) of every proposal with dispositions on the branch."""
    query = (
        select(
            DispositionRow.proposal_id,
            func.sum(DispositionRow.applied),
            func.sum(DispositionRow.masked),
            func.max(DispositionRow.reward_id),
        )
        .where(_within(chain, col(DispositionRow.lineage_id), col(DispositionRow.step)))
        .group_by(col(DispositionRow.proposal_id))
    )
    return session.exec(query).all()


def reused(session: Session, chain: Branch) -> dict[int, tuple[float, int]]:
    """(Σ coefficients, number of times) by proposal id, of what was learned on the branch by reuse."""
    once = case((col(ReuseRow.kind) == "taken_back", 0), else_=1)
    query = (
        select(ReuseRow.proposal_id, func.sum(ReuseRow.coefficient), func.sum(once))
        .where(_within(chain, col(ReuseRow.lineage_id), col(ReuseRow.step)))
        .group_by(col(ReuseRow.proposal_id))
    )
    return {proposal: (coefficient, times) for proposal, coefficient, times in session.exec(query)}


def frozen(session: Session, chain: Branch) -> dict[int, tuple[float, float]]:
    """(scale, baseline) frozen at first use, by group id."""
    query = select(GroupUseRow).where(_within(chain, col(GroupUseRow.lineage_id), col(GroupUseRow.step)))
    return {row.group_id: (row.scale, row.baseline) for row in session.exec(query)}


def checkpoints(session: Session, chain: Branch) -> Sequence[CheckpointRow]:
    """The checkpoints whose steps all count on the branch, newest first."""
    query = (
        select(CheckpointRow)
        .where(_within(chain, col(CheckpointRow.lineage_id), col(CheckpointRow.step)))
        .order_by(col(CheckpointRow.step).desc(), col(CheckpointRow.id).desc())
    )
    return session.exec(query).all()


def newest_version(session: Session, campaign_id: int) -> PolicyVersionRow | None:
    """The newest published weights."""
    query = (
        select(PolicyVersionRow)
        .where(PolicyVersionRow.campaign_id == campaign_id)
        .order_by(col(PolicyVersionRow.id).desc())
    )
    return session.exec(query).first()
