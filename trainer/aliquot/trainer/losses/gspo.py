"""GSPO: one ratio for a whole sequence, the geometric mean of its tokens' ratios.

    sᵢ  = exp((1/lᵢ) Σₜ log rᵢₜ)        r = π/π_old, or π/μ with the bypass
    sᵢₜ = sg(sᵢ) · π(yᵢₜ) / sg(π(yᵢₜ))        the same value; each token keeps a gradient of its own
    ℓᵢₜ = −w min(sᵢₜ A, clip(sᵢₜ, 1 − low, 1 + high) A)

(Zheng et al. 2025, arXiv:2507.18071, eq. 5, 7 and 13 to 14; the clipping range 3e-4 and 4e-4 is that of section 5.1: a
mean of log-ratios moves far less than one of them.) A sequence is clipped as a whole, unless shaping gives its tokens
advantages of different signs. Not revisable, as `ppo`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from aliquot.trainer.losses.aggregation import Aggregation
from aliquot.trainer.losses.base import Denominator, Loss, LossInputs
from aliquot.trainer.losses.ppo import clipped_surrogate


def sequence_log_ratio(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """log sᵢₜ, float32 [batch, time]: the row's mean of `log_ratio`, with the gradient of the token's own.

    Args:
        log_ratio: log r with gradient, float32 [batch, time], 0 outside the mask.
        mask: bool [batch, time].
    """
    mean = log_ratio.detach().sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    return mean + log_ratio - log_ratio.detach()


class GSPO(Loss):
    """PPO's surrogate on the ratio of whole sequences."""

    type: Literal["gspo"] = "gspo"
    ratio: Denominator = "old"
    """What π is divided by: `old` is π_old, recomputed by the trainer; `behaviour` is μ, the bypass."""
    clip_low: float = Field(default=3e-4, gt=0, le=1)
    """The sequence's ratio is clipped below 1 minus this, where the advantage is negative."""
    clip_high: float = Field(default=4e-4, gt=0)
    """The sequence's ratio is clipped above 1 plus this, where the advantage is positive."""
    aggregation: Aggregation = "sequence"
    """How tokens become one number: the mean over sequences of each one's mean."""

    @property
    def anchored_at(self) -> Denominator:
        return self.ratio

    def __call__(self, inputs: LossInputs) -> tuple[Tensor, dict[str, float]]:
        log_ratio = sequence_log_ratio(inputs.log_ratio(self.ratio), inputs.mask)
        surrogate, clipped = clipped_surrogate(log_ratio, inputs.advantages, self.clip_low, self.clip_high)
        return inputs.aggregate(-inputs.weights * surrogate, self.aggregation), inputs.clipped_fractions(clipped)
