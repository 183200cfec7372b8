"""The unclipped policy-gradient term by which coefficients are learned, and un-learned.

    L = −(1/B) Σᵢ cᵢ Σₜ sg(wᵢₜ) log π(yᵢₜ | yᵢ,<ₜ)

Linear in the coefficient c, and B is the size of a full batch whatever this one holds: learning c₁ and later c₂ at the
same parameters is learning c₁ + c₂, which is what lets a revised reward be learned as a difference. No clipping and no
normalisation inside the group may stand here.
(Williams 1992, REINFORCE; weights as in `aliquot.trainer.correction`.)
"""

from __future__ import annotations

from torch import Tensor


def policy_gradient(logp: Tensor, weights: Tensor, coefficients: Tensor, batch_size: int) -> Tensor:
    """Scalar loss.

    Args:
        logp: log π of generated tokens, float32 [batch, time], zero outside the generation.
        weights: detached importance weights, float32 [batch, time], zero outside the generation.
        coefficients: what each sequence's log-probability is multiplied by, float32 [batch].
        batch_size: B.
    """
    return -(coefficients.unsqueeze(-1) * weights * logp).sum() / batch_size
