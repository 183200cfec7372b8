"""AIPO: the policy gradient, corrected straight from the policy that sampled, and bounded on one side.

    ℓ = −w sg(min(π/μ, max_ratio)) A log π

Only what would make a sample count for more than `max_ratio` is cut; the authors suggest 2 to 10 (Wu et al. 2025,
LlamaRL, arXiv:2505.24034). No π_old, so no second pass. It is the term of CISPO with the ratio at μ,
and that of REINFORCE under token-level truncated importance sampling: the weights here hold masks alone.

Linear in the coefficient, and revisable with its own aggregation.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from aliquot.trainer.losses.aggregation import Aggregation
from aliquot.trainer.losses.base import Loss, LossInputs
from aliquot.trainer.losses.cispo import truncated_policy_gradient


class AIPO(Loss):
    """The policy gradient with min(π/μ, max_ratio) for a weight."""

    type: Literal["aipo"] = "aipo"
    max_ratio: float = Field(default=5.0, ge=1)
    """Bound of π/μ."""
    aggregation: Aggregation = "sequence_sum"
    """How tokens become one number; not revisable with `token`, `sequence` or `prompt`."""

    linear = True

    @property
    def anchored_at(self) -> Literal["behaviour"]:
        return "behaviour"

    def __call__(self, inputs: LossInputs) -> tuple[Tensor, dict[str, float]]:
        terms, truncated = truncated_policy_gradient(
            inputs.logp, inputs.log_ratio("behaviour"), inputs.advantages, self.max_ratio
        )
        return inputs.aggregate(inputs.weights * terms, self.aggregation), inputs.clipped_fractions(truncated)
