"""How long results take: so that the slow ones are neither missed nor starved.

`Latency` is the Kaplan–Meier estimate (J. Am. Stat. Assoc. 53, 457, 1958) of the chance that a result is back within a
time, from experiments that are back and from those still out. `starvation` is the Kolmogorov–Smirnov distance between
the completion times of what was learned and of what came back; near 0, slow results were learned like fast ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Latency:
    """A step function of time: P(back within t)."""

    times: np.ndarray
    """float64 [k], rising, in the unit of what it was made from."""
    chances: np.ndarray
    """float64 [k], at and after each time."""

    @classmethod
    def of(cls, durations: np.ndarray, returned: np.ndarray) -> Latency:
        """Product-limit estimate.

        Args:
            durations: float [n], time until the result came, or until now when it has not.
            returned: bool [n], whether it came.
        """
        times = np.unique(durations[returned])
        survival, chances = 1.0, []
        for time in times:
            at_risk, ends = (durations >= time).sum(), (durations[returned] == time).sum()
            survival *= 1 - ends / at_risk
            chances.append(1 - survival)
        return cls(times, np.array(chances))

    def within(self, time: float) -> float:
        """P(back within `time`); 0 before the first result ever seen."""
        place = int(np.searchsorted(self.times, time, side="right"))
        return float(self.chances[place - 1]) if place else 0.0

    def quantile(self, chance: float) -> float:
        """The time by which `chance` of all results that ever come are back; infinite when nothing came yet."""
        if not len(self.times):
            return float("inf")
        return float(self.times[np.searchsorted(self.chances, chance * self.chances[-1] - 1e-12)])


def starvation(times: np.ndarray, learned: np.ndarray, owed: np.ndarray) -> float:
    """Largest difference of the two weighted distributions of completion times, in [0, 1]; 0 when either is empty.

    Args:
        times: float [n], completion times.
        learned: float [n], Σ |coefficient applied| of each.
        owed: float [n], |advantage| of each: what would have been applied had nothing been held back.
    """
    if learned.sum() <= 0 or owed.sum() <= 0:
        return 0.0
    order = np.argsort(times, kind="stable")
    last = np.append(np.diff(times[order]) > 0, True)  # ties step together
    gap = np.cumsum(learned[order]) / learned.sum() - np.cumsum(owed[order]) / owed.sum()
    return float(np.abs(gap[last]).max())


def completion_metrics(times: np.ndarray, learned: np.ndarray, owed: np.ndarray) -> dict[str, float]:
    """`starvation`, and the 50 % and 90 % quantiles of completion time, of what was learned and of what came back.

    Arguments as in `starvation`, times in seconds; the quantiles are in hours. Empty when nothing came back yet.
    """
    if owed.sum() <= 0:
        return {}
    found = {"starvation": starvation(times, learned, owed)}
    for name, weights in (("learned", learned), ("returned", owed)):
        if weights.sum() > 0:
            order = np.argsort(times, kind="stable")
            share = np.cumsum(weights[order]) / weights.sum()
            for chance in (0.5, 0.9):
                at = times[order][np.searchsorted(share, chance - 1e-12)]
                found[f"completion_hours_{name}_p{round(100 * chance)}"] = float(at / 3600.0)
    return found
