"""A cost for saying the same token over and over, the commonest way for a policy to fill its length.

    r = −penalty        at each token that is the (longest + 1)-th or a later one of a run of equal tokens

Chains of carbon are runs too: `longest` is to stand above what the designs really hold.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from aliquot.trainer.shaping.base import Shaping


class RepeatedToken(Shaping):
    """A cost for each token that makes a run longer than `longest`."""

    type: Literal["repeated_token"] = "repeated_token"
    longest: int = Field(default=12, ge=1)
    """Equal tokens in a row that cost nothing."""
    penalty: float = Field(default=0.1, ge=0)
    """For each token above that, in units of the advantage."""

    def rewards(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return -self.penalty * (run_positions(tokens, mask) > self.longest).float()


def run_positions(tokens: Tensor, mask: Tensor) -> Tensor:
    """Which one of its run of equal tokens each token is, from 1, int64 [batch, time]; 0 outside the mask.

    Args:
        tokens: int64 [batch, time]. mask: bool [batch, time].
    """
    begins = torch.ones_like(mask)
    begins[:, 1:] = (tokens[:, 1:] != tokens[:, :-1]) | ~mask[:, :-1]
    index = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
    begun = torch.where(begins, index, 0).cummax(-1).values
    return torch.where(mask, index - begun + 1, 0)
