"""DAPO: clip-higher, and every token of the batch counts alike.

    L = (1 / Σᵢ lᵢ) Σᵢ Σₜ ℓᵢₜ        ℓ as in `ppo`, with 1 − 0.2 ≤ r ≤ 1 + 0.28

The wider upper bound lets improbable tokens grow, which holds entropy up (Yu et al. 2025, arXiv:2503.14476, sections
3.1 and 3.3). Of DAPO's other parts, the overlong punishment is in `aliquot.trainer.shaping`, and which prompts are
drawn is not a loss's affair.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from aliquot.trainer.losses.aggregation import Aggregation
from aliquot.trainer.losses.ppo import ClippedLoss


class DAPO(ClippedLoss):
    """PPO's surrogate with clip-higher and a mean over the tokens of the batch."""

    type: Literal["dapo"] = "dapo"
    clip_high: float = Field(default=0.28, gt=0)
    """The ratio is clipped above 1 plus this, where the advantage is positive."""
    aggregation: Aggregation = "token"
    """How tokens become one number: the mean over the tokens of the batch."""
