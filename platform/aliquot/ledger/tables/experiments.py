"""What the laboratory was asked, and what it answered."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Index, UniqueConstraint
from sqlmodel import Field

from aliquot.ledger.tables.base import Row, json_column


class ExperimentRow(Row, table=True):
    __tablename__ = "experiment"
    __table_args__ = (
        Index("ix_experiment_campaign_id_state", "campaign_id", "state"),
        Index("ix_experiment_campaign_id_design_key", "campaign_id", "design_key"),
    )

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    number: int
    """1, 2, 3, … within the campaign."""
    design_key: str = Field(foreign_key="design.key")
    lab: str
    assays: list[str] = json_column()
    state: str = "selected"
    version: int = 0
    outcome: str | None = None
    reason: str = ""
    selected_at: float
    dispatched_at: float | None = None
    ended_at: float | None = None
    expires_at: float | None = None
    """When the campaign stops waiting."""


class AttemptRow(Row, table=True):
    """One dispatch. Written before the lab is called, so a crash between the two is known."""

    __tablename__ = "attempt"
    __table_args__ = (UniqueConstraint("key"), UniqueConstraint("experiment_id", "number"))

    id: int = Field(default=None, primary_key=True)
    experiment_id: int = Field(foreign_key="experiment.id")
    number: int
    key: str
    """Idempotency key that the lab sees."""
    started_at: float
    outcome: str | None = None
    note: str = ""


class InboxRow(Row, table=True):
    """Every delivery of a lab, as it came. Stored in the transaction that applies it."""

    __tablename__ = "inbox"
    __table_args__ = (UniqueConstraint("campaign_id", "lab", "delivery_id"),)

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    lab: str
    delivery_id: str
    body: dict[str, Any] = json_column()
    state: str
    """`applied` or `quarantined`."""
    note: str = ""
    received_at: float


class MeasurementRow(Row, table=True):
    __tablename__ = "measurement"
    __table_args__ = (UniqueConstraint("experiment_id", "assay", "replicate", "revision"),)

    id: int = Field(default=None, primary_key=True)
    experiment_id: int = Field(foreign_key="experiment.id")
    inbox_id: int = Field(foreign_key="inbox.id")
    assay: str
    replicate: int
    revision: int
    value: float | None = None
    unit: str
    standard_error: float | None = None
    quality: str
    retracted: bool = False
    late: bool = False
    """Came after its experiment had ended for the campaign."""
    measured_at: float
    received_at: float
