"""From rewards to advantages, so that the facts that happen to be in give no bias.

The value of a proposal that the lab might have seen with probability s, predicted R̂ before its result, is

    V = R̂ + 1[selected] · min(1/s, bound) · (R − R̂)

(augmented inverse-propensity estimate: Robins, Rotnitzky and Zhao, J. Am. Stat. Assoc. 89, 846, 1994). Untruncated,
its mean over the selection is R whatever R̂ is, as long as R̂ was fixed before the selection, which is how the ledger
keeps it.

The baseline of a proposal never sees its own outcome: it is the mean of its siblings' values, shrunk toward a prior m
that was frozen at the group's first use, b = (κ m + Σ_{j≠i} Vⱼ) / (κ + n − 1). κ = 0 is leave-one-out (Kool et al.
2019).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from aliquot.domain import Noun


class BaselineConfig(Noun):
    """What a proposal is compared with."""

    type: Literal["posterior", "leave_one_out"] = "posterior"
    strength: float = Field(default=4.0, gt=0)
    """κ: how many siblings the frozen prior counts for; only for `posterior`."""

    @property
    def kappa(self) -> float:
        return self.strength if self.type == "posterior" else 0.0


def doubly_robust(reward: float, predicted: float, probability: float, bound: float) -> float:
    """R̂ + min(1/s, bound) (R − R̂) of a selected proposal.

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
