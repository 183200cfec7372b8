"""What a plugin author writes: one class, one pydantic config, one method.

    class LogP(PointwiseVerifier):
        name, version = "logp", "1"

        class Config(VerifierConfig):
            maximum: float = 5.0

        def verify(self, designs):
            for design in designs:
                value = crippen(design.value)
                yield Score(value, accepted=value <= self.config.maximum, reason="" if ... else "logP above maximum")

Three kinds, told apart by what they may remember:

* `PointwiseVerifier` judges each design by itself: batch = one by one, in any order; its verdicts may be cached.
* `SetVerifier` judges a design against those seen before (novelty, diversity). It has a memory, which the campaign
  saves and restores, and is never cached.
* `SlowVerifier` answers later (docking, quantum chemistry): `submit` returns tickets, `poll` says what is ready.

Whatever goes wrong in an author's code becomes a typed error of the item that did it, never a score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from aliquot.domain import Design


class VerifierConfig(BaseModel):
    """Base of a verifier's own configuration: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Needs(BaseModel):
    """What a verifier needs of its worker process."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    memory_mb: int = Field(default=2048, ge=64)
    """Address space of one worker, in MiB."""
    seconds: float = Field(default=10.0, gt=0)
    """Longest time one design may take, in seconds."""
    startup_seconds: float = Field(default=60.0, gt=0)
    """Longest time the import and `__init__` may take, in seconds."""


@dataclass(frozen=True)
class Score:
    """What an author returns for one design."""

    score: float
    """In the verifier's own units; must be finite."""
    accepted: bool = True
    reason: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Further named results (JSON values)."""


class Verifier(ABC):
    """What every verifier declares."""

    name: ClassVar[str]
    version: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]] = ("molecule", "conditions", "sequence")
    """Design kinds it can judge."""
    deterministic: ClassVar[bool] = True
    cost: ClassVar[float] = 0.0
    """Money per design, in the campaign's currency."""
    needs: ClassVar[Needs] = Needs()
    Config: ClassVar[type[VerifierConfig]] = VerifierConfig

    def __init__(self, config: VerifierConfig):
        self.config: Any = config


class PointwiseVerifier(Verifier):
    """Judges each design by itself."""

    @abstractmethod
    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        """One `Score` for each design, in order."""


class SetVerifier(Verifier):
    """Judges designs against a memory of those seen before."""

    deterministic: ClassVar[bool] = True

    @abstractmethod
    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        """One `Score` for each design, in order; the memory grows as it goes."""

    @abstractmethod
    def state(self) -> Any:
        """The memory as a JSON value, for the campaign to save."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Take a memory that `state` gave."""


class SlowVerifier(Verifier):
    """Judges later. Both calls return quickly."""

    @abstractmethod
    def submit(self, designs: Sequence[Design]) -> Sequence[str]:
        """A ticket for each design; the same design may get the same ticket."""

    @abstractmethod
    def poll(self, tickets: Sequence[str]) -> Mapping[str, Score]:
        """Scores of those tickets that are ready; the others are left out."""
