"""The anchor that keeps a chemistry policy from collapsing: KL to a frozen reference, over the whole vocabulary.

    K = (1/B) Σᵢ Σₜ KL(π(· | yᵢ,<ₜ) ‖ π_ref(· | yᵢ,<ₜ))

Exact per position, not a one-sample estimate, since the vocabularies here are small.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from aliquot.trainer.anchors.base import Anchor, AnchorInputs


class KLAnchor(Anchor):
    """KL(π‖reference), summed over tokens, mean over sequences, times `coefficient`."""

    type: Literal["kl"] = "kl"
    coefficient: float = Field(default=0.02, ge=0)

    def __call__(self, inputs: AnchorInputs) -> tuple[Tensor, dict[str, float]]:
        kl = kl_to_reference(inputs.vocabulary_logp, inputs.reference_vocabulary_logp, inputs.mask, inputs.batch_size)
        return self.coefficient * kl, {"anchor_kl": float(kl.detach())}


def kl_to_reference(logits_logp: Tensor, reference_logp: Tensor, mask: Tensor, batch_size: int) -> Tensor:
    """Summed KL in nats over all sequences, divided by B; scalar with gradient through the first argument.

    Args:
        logits_logp: log π over the vocabulary, float32 [batch, time, vocabulary]; −inf where a token is not legal.
        reference_logp: the same of the reference, no gradient.
        mask: bool [batch, time], true where a token was generated.
        batch_size: B, the size of a full batch, as in the policy gradient that it holds back.
    """
    legal = torch.isfinite(logits_logp) & torch.isfinite(reference_logp)
    logp, reference = logits_logp.masked_fill(~legal, 0.0), reference_logp.masked_fill(~legal, 0.0)
    kl = (logp.exp() * (logp - reference)).masked_fill(~legal, 0.0).sum(-1)
    return (kl * mask).sum() / batch_size
