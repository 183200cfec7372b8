"""What every loss is given and what it promises.

A loss is a pure function of one batch: no parameter of a model, no memory, no ledger. It descends, so what has a
positive coefficient becomes more probable. Corrections stand outside: each loss multiplies its tokens by the weights
that it is given and asks no more of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from aliquot.domain import Noun
from aliquot.trainer.losses.aggregation import CONSTANT, Aggregation, aggregate

Denominator = Literal["old", "behaviour"]
"""π_old, recomputed by the trainer before its first pass over a batch; or μ, which drew the tokens: the bypass, without
a second pass."""

LARGEST_LOG_RATIO = 20.0


@dataclass(frozen=True)
class LossInputs:
    """One batch."""

    logp: Tensor
    """log π with gradient, float32 [batch, time]; 0 outside the mask."""
    logmu: Tensor
    """log μ of the behaviour policy, float32 [batch, time]."""
    logold: Tensor
    """log π_old, recomputed before the first pass over this batch, or log μ when bypassed; float32 [batch, time]."""
    mask: Tensor
    """bool [batch, time], true where a token was generated."""
    weights: Tensor
    """Detached importance weights times masks, from `correction`; float32 [batch, time]. They weigh π_old against μ for
    a loss whose ratio is π/π_old, π against μ for one without a ratio, and are masks alone for one whose ratio is
    π/μ."""
    coefficients: Tensor
    """What each row is worth (its advantage, or the part of it that is due), float32 [batch]."""
    groups: Tensor
    """Which prompt group each row belongs to, int64 [batch]."""
    batch_size: int
    """B of a full batch."""
    horizon: int
    """Longest generation that the space allows, tokens."""
    shaping: Tensor | None = None
    """Additions to the coefficient, token by token, float32 [batch, time]; at a row's first application only."""

    @property
    def advantages(self) -> Tensor:
        """Coefficient of each token, float32 [batch, time]."""
        spread = self.coefficients.unsqueeze(-1).expand_as(self.logp)
        return spread if self.shaping is None else spread + self.shaping

    def log_ratio(self, denominator: Denominator) -> Tensor:
        """log π/π_old or log π/μ, float32 [batch, time], within ±20; 0 outside the mask."""
        below = self.logmu if denominator == "behaviour" else self.logold
        return torch.where(self.mask, self.logp - below, 0.0).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)

    def aggregate(self, per_token: Tensor, how: Aggregation) -> Tensor:
        """One number of float32 [batch, time], as `aggregation` defines it."""
        return aggregate(per_token, self.mask, self.groups, how, self.batch_size, self.horizon)

    def clipped_fractions(self, clipped: Tensor) -> dict[str, float]:
        """`clipped_positive` and `clipped_negative`: of the tokens whose advantage has that sign, the share in
        `clipped`, bool [batch, time]; 0 where there is none."""
        sides = {"clipped_positive": self.advantages > 0, "clipped_negative": self.advantages < 0}
        shares = {}
        for name, side in sides.items():
            tokens = int((side & self.mask).sum())
            shares[name] = int((clipped & side & self.mask).sum()) / tokens if tokens else 0.0
        return shares


class Loss(Noun, ABC):
    """Base of the losses. One that gives `type` a default can be named in a config."""

    type: str
    aggregation: Aggregation
    """How tokens become one number."""

    linear: ClassVar[bool] = False
    """Whether what a token adds to the loss is its coefficient times something that does not depend on it."""

    @property
    @abstractmethod
    def anchored_at(self) -> Denominator | None:
        """Where the denominator of this loss's ratio stands; None without a ratio."""

    @property
    def revisable(self) -> bool:
        """Whether learning c₁ and then c₂, in any company and at the same parameters, is learning c₁ + c₂."""
        return self.linear and self.aggregation in CONSTANT

    @abstractmethod
    def __call__(self, inputs: LossInputs) -> tuple[Tensor, dict[str, float]]:
        """The scalar to descend, and metrics; `clipped_positive` and `clipped_negative` are always among them."""
