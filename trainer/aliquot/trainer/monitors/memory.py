"""What a monitor remembers: plain numbers, so that a checkpoint can hold them and a resumed run judges as before.

A run is compared with its own beginning. The centre of the first readings is their median and their spread
1.4826 · MAD, the standard deviation of a normal sample that a few outliers do not move (Hampel, J. Am. Stat. Assoc. 69,
383, 1974). Later readings are smoothed, z ← λ x + (1 − λ) z from z = centre, and in a steady run z keeps within

    centre ± L · spread · √(λ / (2 − λ))

(EWMA chart: Roberts, Technometrics 1, 239, 1959; L and λ: Lucas and Saccucci, Technometrics 32, 1, 1990).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, NamedTuple


class Level(NamedTuple):
    """Where values lie."""

    centre: float
    spread: float


class Drift(NamedTuple):
    """A smoothed series against its beginning."""

    value: float
    centre: float
    noise: float
    """What chance moves the value by, L standard deviations."""


@dataclass
class Memory:
    """Of one monitor. Series are told apart by name."""

    recent: list[tuple[int, bool]] = field(default_factory=list)
    """(step, breach) of the last judgements."""
    quiet_until: int = 0
    series: dict[str, list[float]] = field(default_factory=dict)
    averages: dict[str, float] = field(default_factory=dict)

    def drift(self, name: str, value: float, first: int, weight: float, width: float) -> Drift | None:
        """Take a value in; None while it belongs to the `first` ones that the others are compared with.

        Args:
            weight: λ. width: L.
        """
        begun = self.series.setdefault(name, [])
        if len(begun) < first:
            begun.append(value)
            return None
        centre, spread = level(begun)
        smooth = self.averages.get(name, centre)
        self.averages[name] = smooth = weight * value + (1 - weight) * smooth
        return Drift(smooth, centre, width * spread * math.sqrt(weight / (2 - weight)))

    def keep(self, name: str, value: float, newest: int) -> None:
        """Take a value into a series of which only the newest are kept."""
        self.series[name] = [*self.series.get(name, []), value][-newest:]

    def state(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, state: dict[str, Any]) -> Memory:
        """What `state` gave."""
        return cls(**state | {"recent": [(step, breach) for step, breach in state["recent"]]})


def level(values: Sequence[float]) -> Level:
    """Median and 1.4826 · MAD of at least one value."""
    centre = median(values)
    return Level(centre, 1.4826 * median(abs(value - centre) for value in values))
