"""Experiments, their attempts and their measurements."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from aliquot.domain.base import Noun


class CampaignState(StrEnum):
    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    EXHAUSTED = "exhausted"
    CANCELLED = "cancelled"
    FAILED = "failed"
    BLOCKED = "blocked"


class ExperimentState(StrEnum):
    SELECTED = "selected"
    AWAITING_APPROVAL = "awaiting_approval"
    READY = "ready"
    DISPATCHING = "dispatching"
    RUNNING = "running"
    UNCERTAIN = "uncertain"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def terminal(self) -> bool:
        return self in (self.COMPLETED, self.FAILED, self.CANCELLED, self.EXPIRED)


class Quality(StrEnum):
    """The lab's own word on a measurement."""

    GOOD = "good"
    SUSPECT = "suspect"
    FAILED = "failed"
    """The chemistry failed and the lab says so (outcome `lab_failure`)."""


class Measurement(Noun):
    """One value of one assay, one replicate. A higher revision replaces a lower one; a retraction takes it back."""

    assay: str
    replicate: int = Field(default=0, ge=0, lt=2**31)
    revision: int = Field(default=0, ge=0, lt=2**31)
    value: float | None = Field(default=None, ge=-1e100, le=1e100)
    """In `unit`; None only when retracted or failed."""
    unit: str
    standard_error: float | None = Field(default=None, ge=0, le=1e100)
    """One standard deviation of the value, in `unit`, as the lab knows it."""
    quality: Quality = Quality.GOOD
    retracted: bool = False
    measured_at: float
    """Lab clock, Unix seconds."""

    @model_validator(mode="after")
    def _value_or_reason(self):
        if self.value is None and not self.retracted and self.quality is not Quality.FAILED:
            raise ValueError("a measurement without a value is retracted or of quality `failed`")
        return self


class Attempt(Noun):
    """One dispatch of an experiment to a lab, under its own idempotency key."""

    key: str
    number: int = Field(ge=1)
    started_at: float
    """Lab clock, Unix seconds."""
