"""CISPO: the ratio is a truncated weight, and no token loses its gradient.

    ℓ = −w sg(min(r, max_ratio)) A log π        r = π/π_old, or π/μ with the bypass

(MiniMax 2025, arXiv:2506.13585, section 3.1, without a lower bound, as there.) `max_ratio` is the bound itself: where
others write it as 1 + ε, the 5.0 of ScaleRL (Khatri et al. 2025, arXiv:2510.13786) is ε = 4.

Linear in the coefficient, and so revisable when the normaliser is constant; the paper's is not.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from aliquot.trainer.losses.aggregation import Aggregation
from aliquot.trainer.losses.base import Denominator, Loss, LossInputs


def truncated_policy_gradient(
    logp: Tensor, log_ratio: Tensor, advantages: Tensor, max_ratio: float
) -> tuple[Tensor, Tensor]:
    """(−sg(min(r, max_ratio)) A log π, float32; whether r was truncated, bool), both [batch, time].

    Args:
        logp: log π with gradient, float32 [batch, time].
        log_ratio: log r, float32 [batch, time]; its gradient is not used.
        advantages: float32 [batch, time].
        max_ratio: bound of r.
    """
    ratio = log_ratio.detach().exp()
    return -ratio.clamp(max=max_ratio) * advantages * logp, ratio > max_ratio


class CISPO(Loss):
    """The policy gradient with a truncated ratio for a weight."""

    type: Literal["cispo"] = "cispo"
    ratio: Denominator = "old"
    """What π is divided by: `old` is π_old, recomputed by the trainer; `behaviour` is μ, the bypass."""
    max_ratio: float = Field(default=5.0, ge=1)
    """Bound of the ratio."""
    aggregation: Aggregation = "token"
    """How tokens become one number: the mean over the tokens of the batch. With `sequence_sum` or `constant` the loss
    is revisable."""

    linear = True

    @property
    def anchored_at(self) -> Denominator:
        return self.ratio

    def __call__(self, inputs: LossInputs) -> tuple[Tensor, dict[str, float]]:
        terms, truncated = truncated_policy_gradient(
            inputs.logp, inputs.log_ratio(self.ratio), inputs.advantages, self.max_ratio
        )
        return inputs.aggregate(inputs.weights * terms, self.aggregation), inputs.clipped_fractions(truncated)
