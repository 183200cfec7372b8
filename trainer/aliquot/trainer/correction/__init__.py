"""Importance weights and their diagnostics, as pure functions of log-probabilities."""

from aliquot.trainer.correction.diagnostics import effective_sample_size, mismatch
from aliquot.trainer.correction.weights import CorrectionConfig, truncated_weights

__all__ = ["CorrectionConfig", "effective_sample_size", "mismatch", "truncated_weights"]
