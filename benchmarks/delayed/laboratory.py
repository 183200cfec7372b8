"""A laboratory whose clock counts calls: each call is answered so many calls later, in two parts, or never.

With λ calls in flight on average, a whole answer takes a log-normal number of calls of mean λ, its first part a third
of that; some calls are never answered. What a call meets follows from the seed and its number alone, so that the arms
of a comparison meet the same. Without delay both parts come at once.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

import numpy as np

from benchmarks.delayed.tasks import FIRST, Task, noisy

NOISE = 0.05
"""Standard deviation of a measurement's error, as a fraction of the value."""
DROPOUT = 0.1
"""Share of calls that never answer."""
SPREAD = 0.5
"""Standard deviation of the logarithm of the time a call takes."""
FIRST_PART = 1 / 3
"""When the first assay is back, as a fraction of that time."""


@dataclass(frozen=True)
class Answer:
    """What is known of one design."""

    key: str
    reward: float
    last: bool
    at: float
    """Clock when it came."""


@dataclass
class Laboratory:
    """Takes designs, gives answers when their time has come."""

    task: Task
    in_flight: int
    seed: int
    scores: list[float] = field(default_factory=list)
    """True score of each call, NaN of one that never answers."""
    _waiting: list[tuple[float, int, Answer]] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return len(self.scores)

    def call(self, key: str, smiles: str) -> None:
        """Ask for one design."""
        random, began = np.random.default_rng([self.seed, self.calls]), self.calls
        lost = random.random() < DROPOUT
        took = self._took(random)
        true = self.task.measured(smiles)
        self.scores.append(math.nan if lost else self.task.score(true))
        if lost:
            return
        found = noisy(true, NOISE, random)
        if self.in_flight:
            first = self.task.score({FIRST: found[FIRST]})
            self._later(Answer(key, first, False, began + FIRST_PART * took))
        self._later(Answer(key, self.task.score(found), True, began + took))

    def answers(self) -> list[Answer]:
        """All that has come since the last time, in its order."""
        found = []
        while self._waiting and self._waiting[0][0] <= self.calls:
            found.append(heapq.heappop(self._waiting)[2])
        return found

    def _took(self, random: np.random.Generator) -> float:
        if not self.in_flight:
            return 0.0
        return float(random.lognormal(math.log(self.in_flight) - SPREAD**2 / 2, SPREAD))

    def _later(self, answer: Answer) -> None:
        heapq.heappush(self._waiting, (answer.at, 2 * self.calls + answer.last, answer))
