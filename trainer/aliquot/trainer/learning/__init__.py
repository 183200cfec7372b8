"""The learning rule for late, partial and revised rewards: values, advantages, coefficients, tiers."""

from aliquot.trainer.learning.tiers import DivergenceGauge, TierConfig, split_coefficient
from aliquot.trainer.learning.values import BaselineConfig, advantages, doubly_robust, shrunk

__all__ = [
    "BaselineConfig", "DivergenceGauge", "TierConfig", "advantages", "doubly_robust", "shrunk", "split_coefficient",
]  # fmt: skip
