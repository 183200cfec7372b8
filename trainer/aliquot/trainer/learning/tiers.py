"""Age is divergence, not a count of versions; and nothing once learned is ever kept from being un-learned.

A tier is a property of the pair (behaviour version, current policy), measured as the per-token KL of a sample of that
pair and never by one outcome's own ratio, which would select outcomes. Tiers decide over *first* coefficients only:
the part of a coefficient that takes back what was applied always goes through.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from aliquot.domain import Noun, Tier
from aliquot.trainer.correction import MaskConfig, OffPolicy


class TierConfig(Noun):
    """Upper limits of KL(μ‖π) in nats per token; beyond the last a sample is ancient."""

    fresh: float = Field(default=0.02, gt=0)
    moderate: float = Field(default=0.15, gt=0)
    old: float = Field(default=0.6, gt=0)
    old_mask: MaskConfig = OffPolicy()
    """What is held back of first coefficients of old samples: by default, negative ones that the policy has left."""

    @model_validator(mode="after")
    def _ordered(self):
        if not self.fresh < self.moderate < self.old:
            raise ValueError("limits must rise: fresh < moderate < old")
        return self

    def tier(self, divergence: float) -> Tier:
        limits = ((self.fresh, Tier.FRESH), (self.moderate, Tier.MODERATE), (self.old, Tier.OLD))
        return next((tier for limit, tier in limits if divergence <= limit), Tier.ANCIENT)


class DivergenceGauge:
    """Per-token KL(μ‖π) of each behaviour version against the current policy, from the samples trained on lately.

    Old readings fade by half with every new one of the same version. A version without a reading takes that of the
    nearest version, and without any, 0.
    """

    def __init__(self) -> None:
        self.readings: dict[int, tuple[float, float]] = {}
        """(Σ k3, tokens), faded, by behaviour version."""

    def read(self, version: int, k3_sum: float, tokens: float) -> None:
        """Take the sums over all samples of one version in a batch."""
        total, count = self.readings.get(version, (0.0, 0.0))
        self.readings[version] = (0.5 * total + k3_sum, 0.5 * count + tokens)

    def reading(self, version: int) -> float | None:
        """Nats per token of a version's own samples; None when there were none."""
        total, count = self.readings.get(version, (0.0, 0.0))
        return total / count if count else None

    def of(self, version: int, own_k3: float = 0.0, own_tokens: float = 0.0) -> float:
        """Nats per token of a version, without what one sample itself brought to its last reading."""
        for nearest in sorted(self.readings, key=lambda v: (abs(v - version), v)):
            total, count = self.readings[nearest]
            if nearest == version:
                total, count = total - own_k3, count - own_tokens
            if count > 0.5:
                return max(0.0, total / count)
        return 0.0


def split_coefficient(
    due: float, applied: float, masked: float, tier: Tier, replace: bool = False
) -> tuple[float, float, float, str]:
    """(to un-learn, to learn, to mask, why) of a coefficient that is due; the three add up to `due`.

    In this order: what opposes `applied`, up to its size, un-learns it and is always applied; what opposes `masked`,
    up to its size, cancels what was never applied; what is left is a first coefficient, over which the tier decides.

    Args:
        due: A* minus all that was applied and masked before on this branch.
        applied, masked: what was applied and masked before.
        replace: take back all that stands, applied and masked, and decide over the whole advantage anew.
    """
    unlearn = -applied if replace else _opposing(due, applied)
    cancel = -masked if replace else _opposing(due - unlearn, masked)
    first = due - unlearn - cancel
    if first and tier is Tier.ANCIENT:
        return unlearn, 0.0, cancel + first, "ancient: too far from the current policy"
    return unlearn, first, cancel, "takes back what was masked" if cancel else ""


def _opposing(due: float, standing: float) -> float:
    """The part of `due` that opposes `standing`, no larger than it."""
    if due * standing >= 0:
        return 0.0
    return due if abs(due) <= abs(standing) else -standing
