"""REINFORCE: the unclipped policy-gradient term by which coefficients are learned, and un-learned.

    ℓᵢₜ = −Aᵢₜ sg(wᵢₜ) log π(yᵢₜ | yᵢ,<ₜ)

Linear in the coefficient. Summed over tokens and divided by B, the size of a full batch whatever this one holds,
learning c₁ and later c₂ at the same parameters is learning c₁ + c₂, which is what lets a revised reward be learned as a
difference. No clipping and no normalisation inside the group may stand here.
(Williams 1992; weights as in `aliquot.trainer.correction`.)
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from aliquot.trainer.losses.aggregation import Aggregation
from aliquot.trainer.losses.base import Loss, LossInputs


class Reinforce(Loss):
    """−A w log π."""

    type: Literal["reinforce"] = "reinforce"
    aggregation: Aggregation = "sequence_sum"
    """How tokens become one number; not revisable with `token`, `sequence` or `prompt`."""

    linear = True

    @property
    def anchored_at(self) -> None:
        return None

    def __call__(self, inputs: LossInputs) -> tuple[Tensor, dict[str, float]]:
        loss = inputs.aggregate(-inputs.advantages * inputs.weights * inputs.logp, self.aggregation)
        return loss, inputs.clipped_fractions(torch.zeros_like(inputs.mask))
