"""What a monitor is: it judges one number of a reading against a limit, and raises when that happens too often.

A monitor is a config without state; what it remembers are plain numbers in a `Memory`, which a checkpoint holds. One
judgement beyond its limit is chance; an alarm needs `breaches` of the last `out_of` judgements (the run rules of
control charts: Western Electric 1956), and after one the monitor is silent for `cool_down` steps. What a reading does
not name is not judged.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from pydantic import Field, model_validator

from aliquot.domain import Noun
from aliquot.trainer.monitors.memory import Drift, Memory

Reading = Mapping[str, float]
"""One step's numbers by their stable names: the trainer's metrics, and what `NewestDesigns` says when it says anything.
Before the step they may be infinite or not numbers."""


class Action(StrEnum):
    """What an alarm asks of the trainer, the weakest first."""

    WARN = "warn"
    LOWER_LEARNING_RATE = "lower_learning_rate"
    SKIP_STEP = "skip_step"
    """Throw this gradient away; what was due stays due."""
    ROLL_BACK = "roll_back"
    """Fork at the newest checkpoint from before the trouble, and learn again what comes after it."""
    PAUSE = "pause"
    """Stop the campaign until a person has looked."""

    @property
    def strength(self) -> int:
        return list(Action).index(self)


class Alarm(Noun):
    """One monitor's word, as it stands in the event log."""

    monitor: str
    action: Action
    step: int
    since: int
    """The step of the first breach that counted: a checkpoint from before it is good."""
    metric: str
    value: float | None
    """None: not a number, or infinite."""
    limit: float | None
    """None: it had to be finite."""
    message: str
    """What it means, and what to do."""


@dataclass(frozen=True)
class Judgement:
    """One number against its limit."""

    metric: str
    value: float
    limit: float | None
    breach: bool


class Monitor(Noun, ABC):
    """Base of the monitors; a subclass judges."""

    before: ClassVar[bool] = False
    """Whether it judges a gradient before the step is taken, or what the step has left behind."""
    meaning: ClassVar[str]
    """What a breach means and what to do, for a person."""

    action: Action = Action.WARN
    breaches: int = Field(default=3, ge=1)
    out_of: int = Field(default=5, ge=1)
    cool_down: int = Field(default=50, ge=0)
    """Steps after an alarm in which there is no other."""

    @model_validator(mode="after")
    def _possible(self):
        if self.breaches > self.out_of:
            raise ValueError(f"{self.breaches} breaches out of {self.out_of} never come: lower `breaches`")
        if self.action is Action.SKIP_STEP and not self.before:
            raise ValueError("this monitor judges steps already taken, too late for `skip_step`: say `roll_back`")
        return self

    @abstractmethod
    def judge(self, reading: Reading, memory: Memory) -> Judgement | None:
        """This reading against the limit; None when it does not name what is judged, or the baseline is still short."""

    def watch(self, name: str, step: int, reading: Reading, memory: Memory) -> Alarm | None:
        """Judge, remember, and raise when it has happened too often."""
        judged = self.judge(reading, memory)
        if judged is None:
            return None
        memory.recent = [*memory.recent, (step, judged.breach)][-self.out_of :]
        breaches = [at for at, breach in memory.recent if breach]
        if not judged.breach or len(breaches) < self.breaches or step < memory.quiet_until:
            return None
        memory.recent, memory.quiet_until = [], step + self.cool_down
        limit = "" if judged.limit is None else f", its limit {judged.limit:.3g}"
        return Alarm(
            monitor=name, action=self.action, step=step, since=breaches[0], metric=judged.metric,
            value=judged.value if math.isfinite(judged.value) else None, limit=judged.limit,
            message=f"{judged.metric} is {judged.value:.3g}{limit}: {self.meaning}",
        )  # fmt: skip


class GradientMonitor(Monitor):
    """Base of those that judge a gradient before it is followed: one breach is enough to throw it away."""

    before: ClassVar[bool] = True
    action: Action = Action.SKIP_STEP
    breaches: int = 1
    out_of: int = 1
    cool_down: int = 0
    then: Action
    """What is asked for when skipping has not helped: the same batch gives the same gradient again."""


class DriftMonitor(Monitor):
    """Base of those that compare a smoothed series with the run's own beginning.

    Learning moves every series, so a limit lies where a movement matters or where chance does not reach, whichever is
    further.
    """

    first: int = Field(default=12, ge=4)
    """Readings that make the beginning; nothing is judged in them."""
    weight: float = Field(default=0.25, gt=0, le=1)
    """λ of the moving average: how much a new reading counts."""
    width: float = Field(default=3.0, ge=0)
    """L: standard deviations that are chance."""

    def drift(self, name: str, reading: Reading, memory: Memory) -> Drift | None:
        """The series of this name with this reading; None when there is none, or the beginning is still short."""
        value = known(reading, name)
        return memory.drift(name, value[0], self.first, self.weight, self.width) if value else None


def above(name: str, seen: Drift, rise: float) -> Judgement:
    """A breach when the series has risen by more than matters and more than chance."""
    limit = seen.centre + max(rise, seen.noise)
    return Judgement(name, seen.value, limit, seen.value > limit)


def below(name: str, seen: Drift, fall: float) -> Judgement:
    """A breach when the series has fallen by more than matters and more than chance."""
    limit = seen.centre - max(fall, seen.noise)
    return Judgement(name, seen.value, limit, seen.value < limit)


def known(reading: Reading, *names: str) -> list[float] | None:
    """The values under these names; None unless all are there and finite."""
    values = [reading.get(name, math.nan) for name in names]
    return values if all(map(math.isfinite, values)) else None


def worst(judgements: list[Judgement]) -> Judgement | None:
    """A breach, if one of them is; otherwise any; None of none."""
    return max(judgements, key=lambda one: one.breach, default=None)
