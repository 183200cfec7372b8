"""PPO's clipped surrogate, which is also GRPO's.

    ℓ = −w min(r A, clip(r, 1 − low, 1 + high) A)        r = π/π_old, or π/μ with the bypass

(Schulman et al. 2017, arXiv:1707.06347, eq. 7; aggregated by sequence as in GRPO, Shao et al. 2024, arXiv:2402.03300,
eq. 3; clip-higher is high > low: Yu et al. 2025, arXiv:2503.14476.) The dual clip bounds the other side of a negative
advantage, whose surrogate falls without end as r grows: max(min(…), c A) for A < 0 (Ye et al. 2020, arXiv:1912.09729,
eq. 5).

Not revisable: which tokens are clipped depends on the coefficient's sign.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from aliquot.trainer.losses.aggregation import Aggregation
from aliquot.trainer.losses.base import Denominator, Loss, LossInputs


def clipped_surrogate(
    log_ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float, dual_clip: float | None = None
) -> tuple[Tensor, Tensor]:
    """(surrogate to be raised, float32; whether it is clipped and so has no gradient, bool), both [batch, time].

    Args:
        log_ratio: log r with gradient, float32 [batch, time].
        advantages: float32 [batch, time].
        clip_low, clip_high: how far r may go below and above 1.
        dual_clip: c > 1; None for no bound.
    """
    ratio, negative = log_ratio.exp(), advantages < 0
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(1 - clip_low, 1 + clip_high) * advantages)
    clipped = torch.where(negative, ratio < 1 - clip_low, ratio > 1 + clip_high)
    if dual_clip is not None:
        surrogate = torch.where(negative, torch.maximum(surrogate, dual_clip * advantages), surrogate)
        clipped |= negative & (ratio > dual_clip)
    return surrogate, clipped


class ClippedLoss(Loss):
    """What the losses with PPO's surrogate share."""

    ratio: Denominator = "old"
    """What π is divided by: `old` is π_old, recomputed by the trainer; `behaviour` is μ, the bypass."""
    clip_low: float = Field(default=0.2, gt=0, le=1)
    """The ratio is clipped below 1 minus this, where the advantage is negative."""
    clip_high: float = Field(default=0.2, gt=0)
    """The ratio is clipped above 1 plus this, where the advantage is positive."""
    dual_clip: float | None = Field(default=None, gt=1)
    """Bound of the ratio where the advantage is negative; usually 3."""

    @property
    def anchored_at(self) -> Denominator:
        return self.ratio

    def __call__(self, inputs: LossInputs) -> tuple[Tensor, dict[str, float]]:
        surrogate, clipped = clipped_surrogate(
            inputs.log_ratio(self.ratio), inputs.advantages, self.clip_low, self.clip_high, self.dual_clip
        )
        return inputs.aggregate(-inputs.weights * surrogate, self.aggregation), inputs.clipped_fractions(clipped)


class PPO(ClippedLoss):
    """The clipped surrogate of PPO and GRPO."""

    type: Literal["ppo"] = "ppo"
    aggregation: Aggregation = "sequence"
    """How tokens become one number: the mean over sequences of each one's mean, as in GRPO."""
