"""DPPO: trust is measured in probability, not in its ratio.

    ℓ = w (−k r A + penalty · (log r)²)        r = π/μ, not detached
    k = 0 where A > 0 and π − μ > mask_high, or A ≤ 0 and π − μ < −mask_low; else 1

|π − μ| is the total variation between π and μ on the event "this token": a bound on it holds back large moves of
probable tokens and leaves improbable ones free, whose ratios say little (Qi et al. 2026, "Rethinking the trust region
in LLM reinforcement learning", arXiv:2602.04879, binary TV). A token that is masked keeps its penalty, the squared
log-ratio, which draws it back to μ; the form and both bounds are those of prime-rl.

Not revisable: the mask depends on the coefficient's sign, and the penalty is paid at every application.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from aliquot.trainer.losses.aggregation import Aggregation
from aliquot.trainer.losses.base import Loss, LossInputs


def outside_trust(logp: Tensor, logmu: Tensor, advantages: Tensor, mask_low: float, mask_high: float) -> Tensor:
    """bool [batch, time]: where the advantage pushes π(token) further from μ(token) than the bounds allow.

    Args:
        logp, logmu, advantages: float32 [batch, time].
        mask_low, mask_high: how far a probability may fall and rise.
    """
    shift = logp.detach().exp() - logmu.exp()
    return torch.where(advantages > 0, shift > mask_high, shift < -mask_low)


class DPPO(Loss):
    """The policy gradient with π/μ, masked by the move in probability, with a pull back to μ."""

    type: Literal["dppo"] = "dppo"
    mask_low: float = Field(default=0.2, gt=0, le=1)
    """A token that lost more probability than this, with no positive advantage, is masked."""
    mask_high: float = Field(default=0.2, gt=0, le=1)
    """A token that gained more probability than this, with a positive advantage, is masked."""
    penalty: float = Field(default=1e-3, ge=0)
    """Coefficient of the squared log-ratio."""
    aggregation: Aggregation = "token"
    """How tokens become one number: the mean over the tokens of the batch."""

    @property
    def anchored_at(self) -> Literal["behaviour"]:
        return "behaviour"

    def __call__(self, inputs: LossInputs) -> tuple[Tensor, dict[str, float]]:
        log_ratio, advantages = inputs.log_ratio("behaviour"), inputs.advantages
        masked = outside_trust(inputs.logp, inputs.logmu, advantages, self.mask_low, self.mask_high)
        term = torch.where(masked, 0.0, -log_ratio.exp() * advantages) + self.penalty * log_ratio**2
        return inputs.aggregate(inputs.weights * term, self.aggregation), inputs.clipped_fractions(masked)
