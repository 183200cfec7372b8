"""DAPO's soft overlong punishment: a generation that comes near the limit pays for how near it came.

    r = −penalty · clip((l − soft) / (hard − soft), 0, 1)        at the last of l tokens

(Yu et al. 2025, arXiv:2503.14476, section 3.4, where hard is L_max and hard − soft is L_cache. There it is added to the
reward before the group's baseline is taken; here to the coefficient, after.)
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from aliquot.trainer.shaping.base import Shaping


class Overlong(Shaping):
    """A cost that rises with length, from nothing at `soft` tokens to `penalty` at `hard`."""

    type: Literal["overlong"] = "overlong"
    soft: int = Field(ge=0)
    """Tokens that cost nothing."""
    hard: int = Field(ge=1)
    """Tokens from which on the whole penalty is due."""
    penalty: float = Field(default=1.0, ge=0)
    """In units of the advantage."""

    @model_validator(mode="after")
    def _ordered(self):
        if not self.soft < self.hard:
            raise ValueError(f"`soft` must be below `hard`, not {self.soft} and {self.hard}: lower the one")
        return self

    def rewards(self, tokens: Tensor, mask: Tensor) -> Tensor:
        lengths = mask.sum(-1, keepdim=True)
        cost = self.penalty * ((lengths - self.soft) / (self.hard - self.soft)).clamp(0.0, 1.0)
        last = mask & (mask.cumsum(-1) == lengths)
        return torch.where(last, -cost, 0.0)
