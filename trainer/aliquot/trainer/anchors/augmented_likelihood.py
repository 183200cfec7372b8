"""REINVENT's augmented likelihood: the policy's log-likelihood is drawn to the prior's, raised by the reward.

    L = (1/B) Σᵢ (log π_ref(yᵢ) + σ Rᵢ − log π(yᵢ))²        over the rows that have a reward

(Olivecrona et al. 2017, J. Cheminform. 9, 48.) The target is not a normalised distribution, so π cannot reach it for
every sequence at once; σ says how many nats a perfect reward is worth against the prior.

It learns from rewards by itself, beside the coefficients: what it learned of a reward that is revised later stays.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from aliquot.trainer.anchors.base import Anchor, AnchorInputs


class AugmentedLikelihood(Anchor):
    """(log prior + σ reward − log π)², mean over sequences, times `coefficient`."""

    type: Literal["augmented_likelihood"] = "augmented_likelihood"
    sigma: float = Field(default=128.0, ge=0)
    """Nats that a reward of 1 is worth; 128 in Saturn, 500 in the REINVENT of the PMO benchmark."""
    coefficient: float = Field(default=1.0, ge=0)

    revisable: ClassVar[bool] = False

    def __call__(self, inputs: AnchorInputs) -> tuple[Tensor, dict[str, float]]:
        gap = augmented_likelihood(
            inputs.logp, inputs.reference_logp, inputs.mask, inputs.values, self.sigma, inputs.batch_size
        )
        return self.coefficient * gap, {"anchor_augmented": float(gap.detach())}


def augmented_likelihood(
    logp: Tensor, reference_logp: Tensor, mask: Tensor, values: Tensor, sigma: float, batch_size: int
) -> Tensor:
    """Summed squared gaps in nats² divided by B; scalar with gradient through the first argument.

    Args:
        logp, reference_logp: log-probabilities of the chosen tokens, float32 [batch, time].
        mask: bool [batch, time], true where a token was generated.
        values: R in [0, 1], float32 [batch]; a row with NaN adds nothing.
        sigma: σ.
        batch_size: B, the size of a full batch whatever this one holds.
    """
    known = ~torch.isnan(values)
    prior = torch.where(mask, reference_logp - logp, 0.0).sum(-1)
    gap = prior + sigma * values.nan_to_num(nan=0.0)
    return torch.where(known, gap**2, 0.0).sum() / batch_size
