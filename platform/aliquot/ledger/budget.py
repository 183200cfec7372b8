"""Budget by double entry: reserve when selected, settle when the lab takes it, refund when it never does.

`reserve` is one conditional UPDATE, so that however many ask at once, reserved + spent never exceeds the limit.
"""

from __future__ import annotations

from sqlalchemy import update
from sqlmodel import Session, col, select

from aliquot.domain import AliquotError
from aliquot.ledger.tables import BudgetEntryRow, BudgetRow


class BudgetExhausted(AliquotError):
    """The budget does not hold so much; nothing was reserved."""


def require(session: Session, campaign_id: int, amounts: dict[str, float]) -> None:
    """Look, inside a write transaction, whether the budget holds `amounts`; writes nothing.

    Raises:
        BudgetExhausted: a line cannot hold it.
    """
    for unit, amount in amounts.items():
        line = session.get(BudgetRow, (campaign_id, unit), populate_existing=True)
        if line is not None and line.reserved + line.spent + amount > line.limit + 1e-9:
            raise BudgetExhausted(f"{amount:g} {unit} asked, {line.limit - line.reserved - line.spent:g} left")


def reserve(session: Session, campaign_id: int, experiment_id: int, amounts: dict[str, float], at: float) -> None:
    """Set `amounts` aside, by unit, for one experiment. Units without a budget line are not limited.

    Raises:
        BudgetExhausted: a line cannot hold it; the caller's transaction must be rolled back.
    """
    for unit, amount in amounts.items():
        line = session.get(BudgetRow, (campaign_id, unit))
        if line is not None:
            statement = (
                update(BudgetRow)
                .where(
                    col(BudgetRow.campaign_id) == campaign_id,
                    col(BudgetRow.unit) == unit,
                    col(BudgetRow.reserved) + col(BudgetRow.spent) + amount <= col(BudgetRow.limit) + 1e-9,
                )
                .values(reserved=col(BudgetRow.reserved) + amount)
                .execution_options(synchronize_session=False)
            )
            if session.execute(statement).rowcount != 1:  # type: ignore[attr-defined]
                left = line.limit - line.reserved - line.spent
                raise BudgetExhausted(f"{amount:g} {unit} asked for experiment {experiment_id}, {left:g} left")
            session.expire(line)
        _enter(session, campaign_id, experiment_id, unit, "reserve", amount, at)


def settle(session: Session, campaign_id: int, experiment_id: int, at: float) -> None:
    """What was reserved for the experiment is spent. Doing it again does nothing."""
    _close(session, campaign_id, experiment_id, "settle", at)


def refund(session: Session, campaign_id: int, experiment_id: int, at: float) -> None:
    """What was reserved for the experiment is free again. Doing it again does nothing."""
    _close(session, campaign_id, experiment_id, "refund", at)


def _close(session: Session, campaign_id: int, experiment_id: int, kind: str, at: float) -> None:
    entries = session.exec(select(BudgetEntryRow).where(BudgetEntryRow.experiment_id == experiment_id)).all()
    closed = {entry.unit for entry in entries if entry.kind != "reserve"}
    for entry in entries:
        if entry.kind != "reserve" or entry.unit in closed:
            continue
        line = session.get(BudgetRow, (campaign_id, entry.unit))
        if line is not None:
            line.reserved -= entry.amount
            line.spent += entry.amount if kind == "settle" else 0.0
            session.add(line)
        _enter(session, campaign_id, experiment_id, entry.unit, kind, entry.amount, at)


def _enter(session: Session, campaign_id: int, experiment_id: int, unit: str, kind: str, amount: float, at: float):
    entry = BudgetEntryRow(
        campaign_id=campaign_id, experiment_id=experiment_id, unit=unit, kind=kind, amount=amount, created_at=at
    )
    session.add(entry)
    session.flush()
