"""Truncated importance sampling: how much a sample drawn by the behaviour policy μ counts under the current policy π.

Source: Ionides, Truncated Importance Sampling (J. Comput. Graph. Stat. 17, 295, 2008); as used for the gap between a
rollout engine and a trainer by Yao et al. 2025 ("Your efficient RL framework secretly brings you off-policy RL
training"). Weights are detached: they scale a gradient and have none of their own.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from aliquot.domain import Noun


class CorrectionConfig(Noun):
    """min(π/μ, cap), per token or per sequence."""

    type: Literal["tis"] = "tis"
    level: Literal["token", "sequence"] = "token"
    """`token`: biased by what a prefix's ratio would say, low variance. `sequence`: unbiased but for the truncation."""
    cap: float = Field(default=2.0, ge=1.0)


def truncated_weights(logp: Tensor, logmu: Tensor, mask: Tensor, config: CorrectionConfig) -> Tensor:
    """min(π/μ, cap), zero outside the mask, detached.

    Args:
        logp: log π, float32 [batch, time].
        logmu: log μ, float32 [batch, time].
        mask: true where a token was generated, bool [batch, time].

    Returns:
        float32 [batch, time]; at sequence level every token of a row has the row's weight.
    """
    log_ratio = torch.where(mask, logp.detach() - logmu, 0.0)
    if config.level == "sequence":
        log_ratio = log_ratio.sum(-1, keepdim=True).expand_as(log_ratio)
    return torch.where(mask, log_ratio.clamp(-20.0, 20.0).exp().clamp(max=config.cap), 0.0)
