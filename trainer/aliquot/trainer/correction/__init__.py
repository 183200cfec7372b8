"""Importance weights, masks and diagnostics: pure functions of log-probabilities, and the configs that choose them."""

from aliquot.trainer.correction.diagnostics import diagnose, effective_sample_size, mismatch
from aliquot.trainer.correction.masks import Geometric, MaskConfig, OffPolicy, Product, SecondMoment, Veto
from aliquot.trainer.correction.weights import (
    CorrectionConfig,
    IcePop,
    KPop,
    Truncated,
    Uncorrected,
    Untruncated,
)

__all__ = [
    "CorrectionConfig", "Geometric", "IcePop", "KPop", "MaskConfig", "OffPolicy", "Product", "SecondMoment",
    "Truncated", "Uncorrected", "Untruncated", "Veto", "diagnose", "effective_sample_size", "mismatch",
]  # fmt: skip
