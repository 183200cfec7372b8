"""The contract between a campaign and a laboratory, simulated or real.

A lab is asked, never trusted: `submit` takes an idempotency key, and the same key twice is one execution; results come
when they come, in parts, more than once, out of order, revised or retracted, and each delivery carries an id so that
the inbox can tell a repetition from news. All times are lab clock, Unix seconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from aliquot.clock import Clock
from aliquot.domain import AliquotError, Design, Measurement, Noun, Outcome


class LabConfig(BaseModel):
    """Base of an adapter's own configuration: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class LabError(AliquotError):
    """The lab could not be asked, or said no for reasons of its own: an infrastructure error, never a result."""


class LabRefused(LabError):
    """The lab will not take this experiment, now or later, and says why."""


class Assay(Noun):
    """One thing the lab can measure."""

    name: str
    unit: str
    description: str = ""
    replicates: int = Field(default=1, ge=1)
    """Values it returns for one experiment."""
    typical_hours: float = Field(ge=0)
    """Median time from submission to the last replicate, hours."""


class Capabilities(Noun):
    """What the lab promises; the campaign's recovery depends on it."""

    idempotent_submit: bool
    """Submitting the same key again starts nothing new."""
    lookup: bool
    """`reconcile` can say whether a key was ever received."""
    cancel: bool = False
    partial_results: bool = False
    revisions: bool = False


class LabDescription(Noun):
    """What the lab is."""

    name: str
    assays: tuple[Assay, ...]
    kinds: tuple[str, ...]
    """Design kinds it can make or take."""
    capacity: int | None = Field(default=None, ge=1)
    """Experiments it works on at once; None: no limit."""
    capabilities: Capabilities


class Quote(Noun):
    """What one experiment would take."""

    experiments: int = 1
    money: float = Field(default=0.0, ge=0)
    """In the campaign's currency."""
    hours: float = Field(default=0.0, ge=0)
    """Typical time to the last result."""


class LabStatus(StrEnum):
    UNKNOWN = "unknown"
    """The lab never received this key."""
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Submission(Noun):
    """One experiment as the lab gets it."""

    key: str
    """Idempotency key of this attempt."""
    design: Design
    assays: tuple[str, ...]


class Delivery(Noun):
    """One message from the lab about one submission."""

    delivery_id: str
    """Unique per lab; a repeated id is a repeated message."""
    key: str
    measurements: tuple[Measurement, ...] = ()
    outcome: Outcome | None = None
    """Set when this ends the execution: measured, lab_failure, inconclusive, timed_out, cancelled."""
    note: str = ""
    sent_at: float
    """Lab clock, Unix seconds."""


class Page(Noun):
    """Deliveries after a cursor, and the cursor to ask with next."""

    deliveries: tuple[Delivery, ...]
    cursor: str


class Health(Noun):
    ok: bool
    message: str = ""


class LabAdapter(ABC):
    """One laboratory. Every method may raise `LabError`; nothing else may leave it."""

    name: ClassVar[str]
    version: ClassVar[str]
    Config: ClassVar[type[LabConfig]] = LabConfig

    def __init__(self, config: LabConfig, clock: Clock):
        self.config: Any = config
        self.clock = clock

    @abstractmethod
    def describe(self) -> LabDescription: ...

    @abstractmethod
    def quote(self, design: Design, assays: Sequence[str]) -> Quote: ...

    @abstractmethod
    def submit(self, submission: Submission) -> None:
        """Start it. Raises `LabRefused` when the lab will not have it."""

    @abstractmethod
    def status(self, key: str) -> LabStatus: ...

    @abstractmethod
    def results(self, since: str) -> Page:
        """Deliveries after the cursor (`""`: from the beginning) that the lab has sent by now."""

    @abstractmethod
    def cancel(self, key: str) -> LabStatus:
        """Ask to stop; the first terminal fact wins, so the answer may be `done`."""

    @abstractmethod
    def reconcile(self, keys: Sequence[str]) -> dict[str, LabStatus]:
        """What the lab knows of each key, for recovery after a crash of either side."""

    @abstractmethod
    def health(self) -> Health: ...

    def next_event_at(self) -> float | None:
        """When a simulated lab will next have something to say (Unix seconds); None: unknown or never."""
        return None

    def close(self) -> None:
        """Release what it holds."""
        return None
