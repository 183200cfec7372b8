"""Which due coefficients a step takes: admit · select · evict, and four small policies behind the three verbs.

Only `drop_after`, what other trainers do, ever gives anything up, and says so in a disposition. Whatever the policy,
un-learning is never evicted: the book asks only about proposals of which nothing was applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from aliquot.domain import Noun


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a sampler may look at."""

    proposal_id: int
    round: int
    """Number of its group: when it was proposed."""
    age: int
    """Policy versions published since it was drawn."""


class _Sampler(Noun):
    def admit(self, candidate: Candidate, oldest_open: int) -> bool:
        """Whether it may be learned now, or waits.

        Args:
            candidate: what is due.
            oldest_open: the earliest round in which something is still to come back or to be learned.
        """
        return True

    def select(self, queue: Sequence[Candidate], size: int) -> list[Candidate]:
        """At most `size` of the admitted, in the order in which they are learned."""
        return sorted(queue, key=lambda one: (one.round, one.proposal_id))[:size]

    def evict(self, candidate: Candidate) -> str:
        """Why it will never be learned; empty for it will."""
        return ""


class FreshestFirst(_Sampler):
    """The newest proposals first: the least stale gradient of what is there."""

    type: Literal["freshest_first"] = "freshest_first"

    def select(self, queue: Sequence[Candidate], size: int) -> list[Candidate]:
        return sorted(queue, key=lambda one: (-one.round, one.proposal_id))[:size]


class OldestFirst(_Sampler):
    """The oldest proposals first: nothing waits longer than it must."""

    type: Literal["oldest_first"] = "oldest_first"


class Windowed(_Sampler):
    """No proposal is learned more than `rounds` ahead of the slowest one still open, so fast results cannot overtake
    slow ones by more than a window."""

    type: Literal["windowed"] = "windowed"
    rounds: int = Field(default=32, ge=1)

    def admit(self, candidate: Candidate, oldest_open: int) -> bool:
        return candidate.round < oldest_open + self.rounds


class DropAfter(FreshestFirst):
    """Gives up what is older than `versions` policy versions, as other trainers do. Kept for comparison: it never
    learns from experiments that are slower than that."""

    type: Literal["drop_after"] = "drop_after"  # type: ignore[assignment]
    versions: int = Field(default=8, ge=0)

    def evict(self, candidate: Candidate) -> str:
        return (
            f"dropped: {candidate.age} versions old, more than {self.versions}" if candidate.age > self.versions else ""
        )


SamplerConfig = Annotated[FreshestFirst | OldestFirst | Windowed | DropAfter, Field(discriminator="type")]
