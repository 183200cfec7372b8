"""A campaign, what it wants, what it may spend, and all that happened in it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import UniqueConstraint
from sqlmodel import Field

from aliquot.ledger.tables.base import Row, json_column


class CampaignRow(Row, table=True):
    __tablename__ = "campaign"

    id: int = Field(default=None, primary_key=True)
    name: str
    spec: dict[str, Any] = json_column()
    """The campaign as submitted, every default filled in."""
    state: str = "draft"
    version: int = 0
    """Counts moves; every move is a compare-and-set on (state, version)."""
    reason: str = ""
    """Why it is in this state, for a person."""
    objective_version: int = 1
    clock: float
    """Lab time up to which it has lived; a virtual clock goes on from here."""
    lab_cursor: str = ""
    """Where in the lab's deliveries it stands."""
    created_at: float


class ObjectiveRow(Row, table=True):
    __tablename__ = "objective"
    __table_args__ = (UniqueConstraint("campaign_id", "version"),)

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    version: int
    spec: dict[str, Any] = json_column()
    created_at: float


class BudgetRow(Row, table=True):
    """One line of a campaign's budget; reserved + spent never exceed the limit."""

    __tablename__ = "budget"

    campaign_id: int = Field(foreign_key="campaign.id", primary_key=True)
    unit: str = Field(primary_key=True)
    """`experiments`, `money`, `hours`, …"""
    limit: float
    reserved: float = 0.0
    spent: float = 0.0


class BudgetEntryRow(Row, table=True):
    """Reserve when selected, settle when dispatched, refund when it never was. Amounts are what moved."""

    __tablename__ = "budget_entry"
    __table_args__ = (UniqueConstraint("experiment_id", "unit", "kind"),)

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    experiment_id: int = Field(foreign_key="experiment.id")
    unit: str
    kind: str
    amount: float
    created_at: float


class EventRow(Row, table=True):
    """What happened, gapless within a campaign."""

    __tablename__ = "event"
    __table_args__ = (UniqueConstraint("campaign_id", "sequence"),)

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    sequence: int
    at: float
    kind: str
    data: dict[str, Any] = json_column()
