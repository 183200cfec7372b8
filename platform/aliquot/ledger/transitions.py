"""State machines as one table of allowed moves, and the only function that moves.

Every move is a compare-and-set on (id, state, version) and writes its event in the same transaction: two movers
cannot both win, and no move goes unrecorded.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import update
from sqlalchemy.orm.attributes import set_committed_value
from sqlmodel import Session

from aliquot.domain import AliquotError
from aliquot.ledger.events import record
from aliquot.ledger.tables import CampaignRow, ExperimentRow, ProposalRow

Moves = dict[str, frozenset[str]]


def _moves(**table: str) -> Moves:
    return {state: frozenset(targets.split()) for state, targets in table.items()}


MOVES: dict[type, Moves] = {
    CampaignRow: _moves(
        draft="running cancelled failed",
        running="paused completed exhausted cancelled failed blocked",
        paused="running cancelled failed",
        blocked="running cancelled failed",
        completed="",
        exhausted="running",  # its budget was extended
        cancelled="",
        failed="running cancelled",  # resumed after the cause was mended, or given up
    ),
    ProposalRow: _moves(
        proposed="invalid judging refused verified undecided",
        judging="refused verified undecided",  # a slow verifier has a ticket
        undecided="refused verified",
        verified="selected passed_over credited",
        invalid="",
        refused="",
        selected="",
        passed_over="credited",  # its design was chosen later
        credited="",
    ),
    ExperimentRow: _moves(
        selected="awaiting_approval ready cancelled",
        awaiting_approval="ready cancelled expired",
        ready="dispatching cancelled expired",
        dispatching="running uncertain failed expired",
        running="completed failed cancelled expired uncertain",
        uncertain="running completed failed cancelled expired ready",
        completed="",
        failed="ready",
        cancelled="",
        expired="completed failed cancelled",  # a late terminal word of the lab
    ),
}


class StaleTransition(AliquotError):
    """Somebody else moved it first, or the move is not in the table. Nothing was written."""


def move(session: Session, row: CampaignRow | ExperimentRow | ProposalRow, to: str, at: float, **changes: Any) -> None:
    """Move `row` to state `to` and set `changes` on it, or raise.

    Args:
        session: inside a write transaction.
        row: as it was read, in this session or another; it is brought up to date.
        at: lab time, Unix seconds, for the event.

    Raises:
        StaleTransition: the move is not allowed from the row's state, or the row has moved since it was read.
    """
    kind = type(row)
    if to not in MOVES[kind][row.state]:
        allowed = ", ".join(sorted(MOVES[kind][row.state])) or "nothing: it is final"
        raise StaleTransition(f"{row.__tablename__} {row.id} cannot go from {row.state} to {to}; allowed: {allowed}")
    before = row.state
    statement = (
        update(kind)
        .where(kind.id == row.id, kind.state == before, kind.version == row.version)  # type: ignore[arg-type]
        .values(state=to, version=row.version + 1, **changes)
        .execution_options(synchronize_session=False)
    )
    if session.execute(statement).rowcount != 1:  # type: ignore[attr-defined]
        raise StaleTransition(f"{row.__tablename__} {row.id} is no longer in state {before}")
    for name, value in {"state": to, "version": row.version + 1, **changes}.items():
        set_committed_value(row, name, value)
    if kind is not ProposalRow:  # a proposal's path stands in its row; thousands of events would say it again
        campaign = row.id if kind is CampaignRow else row.campaign_id  # type: ignore[union-attr]
        what = {"id": row.id, "from": before, "to": to} | {
            k: v for k, v in changes.items() if k in ("outcome", "reason")
        }
        record(session, campaign, at, f"{row.__tablename__}_{to}", **what)  # type: ignore[arg-type]
