"""The same cost for every token: of two sequences that are worth the same, the shorter is to win.

r = −penalty        at each token
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from aliquot.trainer.shaping.base import Shaping


class StepPenalty(Shaping):
    """A cost for each token."""

    type: Literal["step_penalty"] = "step_penalty"
    penalty: float = Field(default=0.01, ge=0)
    """For each token, in units of the advantage."""

    def rewards(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return torch.full(mask.shape, -self.penalty, device=mask.device)
