"""Dr.GRPO: the clipped surrogate over a constant.

    L = (1 / (B · horizon)) Σᵢ Σₜ ℓᵢₜ        ℓ as in `ppo`

GRPO's mean over the tokens of each sequence makes a long failure cheaper than a short one, and its division by the
group's standard deviation makes easy and hard prompts count more than the others (Liu et al. 2025, arXiv:2503.20783,
section 3.1). Here the first is gone. The second belongs to the advantage, which is nowhere divided by the standard
deviation of its own group.
"""

from __future__ import annotations

from typing import Literal

from aliquot.trainer.losses.aggregation import Aggregation
from aliquot.trainer.losses.ppo import ClippedLoss


class DrGRPO(ClippedLoss):
    """PPO's surrogate, summed over tokens and divided by a constant."""

    type: Literal["dr_grpo"] = "dr_grpo"
    aggregation: Aggregation = "constant"
    """How tokens become one number: their sum over that of a full batch of longest generations."""
