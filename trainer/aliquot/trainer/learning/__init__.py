"""The learning rule for late, partial and revised rewards: values, advantages, coefficients, tiers."""

from aliquot.trainer.learning.advantage import BaselineConfig, advantages, doubly_robust
from aliquot.trainer.learning.tiers import DivergenceGauge, TierConfig, split_coefficient

__all__ = ["BaselineConfig", "DivergenceGauge", "TierConfig", "advantages", "doubly_robust", "split_coefficient"]
