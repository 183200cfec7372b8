"""The event log: append-only, gapless within a campaign, written in the transaction of what it tells."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select
from sqlmodel import Session, col

from aliquot.ledger.tables import EventRow


def record(session: Session, campaign_id: int, at: float, kind: str, **data: Any) -> None:
    """Append an event. `data` holds JSON values; `at` is lab time, Unix seconds."""
    last = select(func.coalesce(func.max(EventRow.sequence), 0)).where(col(EventRow.campaign_id) == campaign_id)
    sequence = session.execute(last).scalar_one() + 1
    session.add(EventRow(campaign_id=campaign_id, sequence=sequence, at=at, kind=kind, data=data))
    session.flush()
