"""Monitors of what the policy proposes: is it still valid, still various, still of the same size?"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from aliquot.trainer.monitors.base import Action, DriftMonitor, Judgement, Reading, above, below, worst
from aliquot.trainer.monitors.memory import Memory


class ModeCollapse(DriftMonitor):
    """The newest proposals are copies of each other, or of one scaffold."""

    meaning: ClassVar[str] = (
        "the policy writes the same things again and again, and experiments are spent on them. Roll back, hold it to "
        "the prior (`learning.anchor`), or add a `diversity` verifier."
    )
    action: Action = Action.LOWER_LEARNING_RATE
    first: int = Field(default=6, ge=4)
    duplicates: float = Field(default=0.4, gt=0, le=1)
    """Rise of `duplicate_share`."""
    scaffolds: float = Field(default=0.4, gt=0, le=1)
    """Rise of `scaffold_share`."""

    def judge(self, reading: Reading, memory: Memory) -> Judgement | None:
        rises = {"duplicate_share": self.duplicates, "scaffold_share": self.scaffolds}
        found = [(name, seen) for name in rises if (seen := self.drift(name, reading, memory))]
        return worst([above(name, seen, rises[name]) for name, seen in found])


class ValidityDrift(DriftMonitor):
    """Fewer of the newest proposals name a design than at the beginning."""

    meaning: ClassVar[str] = (
        "the policy forgets how to write a design. Roll back, lower the learning rate, or hold it to the prior "
        "(`learning.anchor`)."
    )
    action: Action = Action.ROLL_BACK
    first: int = Field(default=6, ge=4)
    fall: float = Field(default=0.2, gt=0, le=1)
    """Of `validity`."""

    def judge(self, reading: Reading, memory: Memory) -> Judgement | None:
        seen = self.drift("validity", reading, memory)
        return below("validity", seen, self.fall) if seen else None


class SizeDrift(DriftMonitor):
    """Designs grow or shrink much, which is the cheapest way to please many a scoring function."""

    meaning: ClassVar[str] = (
        "designs become much larger or smaller than they were: the reward may be paying for size. Look at the newest "
        "ones, and add a target or a verifier that weighs it."
    )
    first: int = Field(default=6, ge=4)
    fraction: float = Field(default=0.4, gt=0)
    """Of the size at the beginning."""

    def judge(self, reading: Reading, memory: Memory) -> Judgement | None:
        seen = self.drift("size", reading, memory)
        if seen is None:
            return None
        side = above if seen.value > seen.centre else below
        return side("size", seen, self.fraction * seen.centre)
