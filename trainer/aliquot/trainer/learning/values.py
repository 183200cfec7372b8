"""What a proposal is worth, so that the facts that happen to be in give no bias.

Three corrections, in this order:

* A measured reward R with standard error u is shrunk toward the mean m that the surrogate gave it before, with its
  spread τ: (τ² R + u² m) / (τ² + u²), the posterior mean of two normal beliefs. A noisy result counts for less because
  it *says* less, not through a weight on its gradient, which would depend on the design.
* The lab saw it with probability s, and what it said is back by now with probability F(age). The value is the augmented
  inverse-propensity estimate R̂ + min(1/(s F), bound) (R − R̂) (Robins, Rotnitzky and Zhao, J. Am. Stat. Assoc. 89, 846,
  1994). Untruncated, its mean over selection and return is R whatever R̂ is, as long as R̂ was fixed before the
  selection, which is how the ledger keeps it. F rises to 1 with age, so what a slow sibling is owed becomes due later.
* A group's values become advantages against a baseline that never sees the proposal's own outcome: the mean of its
  siblings, shrunk toward a prior m, b = (κ m + Σ_{j≠i} Vⱼ) / (κ + n − 1). m and the scale are those of the other
  groups, frozen at the group's first use. κ = 0 is leave-one-out (Kool et al. 2019).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from aliquot.domain import Noun


class BaselineConfig(Noun):
    """What a proposal is compared with."""

    type: Literal["posterior", "leave_one_out"] = "posterior"
    strength: float = Field(default=4.0, gt=0)
    """κ: how many siblings the frozen prior counts for; only for `posterior`."""
    scale: Literal["running", "group_std", "none"] = "running"
    """What advantages are divided by, frozen at a group's first use. `running`: the spread of the last few hundred
    values. `group_std`: the group's own, as in GRPO; only with `revisions: wait`, since it moves with every sibling's
    result. `none`: nothing."""

    @property
    def kappa(self) -> float:
        return self.strength if self.type == "posterior" else 0.0


def shrunk(reward: float, error: float | None, mean: float | None, spread: float | None) -> float:
    """The posterior mean of a reward with standard error `error` under the belief `mean` ± `spread`.

    The reward itself where the error or the belief is not known, or both are exact.
    """
    if error is None or mean is None or spread is None or error == 0:
        return reward
    return (spread**2 * reward + error**2 * mean) / (spread**2 + error**2)


def doubly_robust(reward: float, predicted: float, probability: float, bound: float) -> float:
    """R̂ + min(1/p, bound) (R − R̂) of a proposal that was observed with probability p.

    Raises:
        ValueError: the probability is not in (0, 1].
    """
    if not 0 < probability <= 1:
        raise ValueError(f"a selected proposal has a selection probability in (0, 1], not {probability}")
    return predicted + min(1.0 / probability, bound) * (reward - predicted)


def advantages(values: np.ndarray, prior: float, scale: float, kappa: float) -> np.ndarray:
    """(V − b) / scale for each proposal of one group.

    Args:
        values: V, float64 [group]; NaN where nothing is known yet.
        prior: m, frozen at the group's first use.
        scale: positive, frozen at the group's first use.
        kappa: κ ≥ 0.

    Returns:
        float64 [group]; 0 where V is NaN, and where there is nothing to compare with (no sibling and κ = 0).
    """
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    others = known.sum() - known
    weight = kappa + others
    baseline = (kappa * prior + filled.sum() - filled) / np.where(weight > 0, weight, 1.0)
    return np.where(known & (weight > 0), (filled - baseline) / scale, 0.0)


@dataclass
class RunningValue:
    """Mean and spread of values over the last few hundred, from which a group's scale and prior are frozen."""

    mean: float = 0.0
    square: float = 0.0
    weight: float = 0.0
    count: int = 0
    decay: float = 0.995

    def add(self, value: float) -> None:
        self.mean = self.decay * self.mean + (1 - self.decay) * value
        self.square = self.decay * self.square + (1 - self.decay) * value * value
        self.weight = self.decay * self.weight + (1 - self.decay)
        self.count += 1

    def without(self, own: Sequence[tuple[int, float]]) -> tuple[float, float]:
        """(mean, spread) as they would be had some values never been added; (0, 0) when no others were.

        Args:
            own: (what `count` was after it was added, value) of each.
        """
        shares = [(1 - self.decay) * self.decay ** (self.count - index) for index, _ in own]
        weight = self.weight - sum(shares)
        if weight < 1e-9:
            return 0.0, 0.0
        mean = (self.mean - sum(share * value for share, (_, value) in zip(shares, own, strict=True))) / weight
        square = (self.square - sum(share * value**2 for share, (_, value) in zip(shares, own, strict=True))) / weight
        return mean, math.sqrt(max(0.0, square - mean**2))

    @property
    def average(self) -> float:
        return self.mean / self.weight if self.weight else 0.0

    @property
    def deviation(self) -> float:
        return math.sqrt(max(0.0, self.square / self.weight - self.average**2)) if self.weight else 0.0
