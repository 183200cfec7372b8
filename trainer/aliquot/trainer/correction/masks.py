"""Which first coefficients may be learned at all: whole sequences, or the tokens that are furthest off.

With d = log π − log μ of each generated token, r = eᵈ and c the coefficient of its sequence, a mask keeps

| type         | keeps                                                      | source |
| ------------ | ---------------------------------------------------------- | ------ |
| `geometric`  | a sequence with low ≤ exp(mean d) ≤ high                   | verl, SkyRL |
| `product`    | a sequence with low ≤ exp(Σd) ≤ high                       | SkyRL |
| `veto`       | a sequence with low ≤ r ≤ high in every token              | SkyRL |
| `off_policy` | a sequence unless c < 0 and mean(−d) > gap                 | DeepSeek-V3.2, arXiv 2512.02556, eq. 9 |
| `m2po`       | a token unless c·d > 0 and its d² lifts their mean too far | M2PO, arXiv 2510.01161, algorithm 1 |

`off_policy` and `m2po` look at the sign of c: stale failures are the dangerous ones, and a token that has moved against
its coefficient needs no trust region. A mask is asked about *first* coefficients only. What takes back a coefficient
already applied is never handed to one: nothing may suppress un-learning.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from aliquot.domain import Noun
from aliquot.trainer.correction.weights import log_ratio


class Geometric(Noun):
    """Keep a sequence whose geometric mean ratio is within bounds; length does not matter.

    The defaults are SkyRL's, for the gap between a rollout engine and a trainer of the same version. Stale samples of a
    lab want far wider ones.
    """

    type: Literal["geometric"] = "geometric"
    low: float = Field(default=0.99, gt=0, le=1)
    high: float = Field(default=1.01, ge=1)

    def keep(self, logp: Tensor, logmu: Tensor, mask: Tensor, coefficients: Tensor) -> Tensor:
        return geometric(logp, logmu, mask, self.low, self.high)


class Product(Noun):
    """Keep a sequence whose whole ratio is within bounds; long ones leave them sooner."""

    type: Literal["product"] = "product"
    low: float = Field(default=0.5, gt=0, le=1)
    high: float = Field(default=2.0, ge=1)

    def keep(self, logp: Tensor, logmu: Tensor, mask: Tensor, coefficients: Tensor) -> Tensor:
        return product(logp, logmu, mask, self.low, self.high)


class Veto(Noun):
    """Drop a sequence when the ratio of any of its tokens is out of bounds: numerical garbage."""

    type: Literal["veto"] = "veto"
    low: float = Field(default=1e-4, gt=0, le=1)
    high: float = Field(default=100.0, ge=1)

    def keep(self, logp: Tensor, logmu: Tensor, mask: Tensor, coefficients: Tensor) -> Tensor:
        return veto(logp, logmu, mask, self.low, self.high)


class OffPolicy(Noun):
    """Drop a sequence with a negative coefficient that the policy has left already."""

    type: Literal["off_policy"] = "off_policy"
    gap: float = Field(default=0.5, gt=0)
    """Of mean(log μ − log π), nats per token. DeepSeek-V3.2 gives no value; 0.5 is TRL's."""

    def keep(self, logp: Tensor, logmu: Tensor, mask: Tensor, coefficients: Tensor) -> Tensor:
        return off_policy(logp, logmu, mask, coefficients, self.gap)


class SecondMoment(Noun):
    """Drop the tokens of a batch that lift the second moment of the log-ratio above `tau`, the largest first."""

    type: Literal["m2po"] = "m2po"
    tau: float = Field(default=0.04, gt=0)
    """Of mean d², nats²."""

    def keep(self, logp: Tensor, logmu: Tensor, mask: Tensor, coefficients: Tensor) -> Tensor:
        return second_moment(logp, logmu, mask, coefficients, self.tau)


MaskConfig = Annotated[Geometric | Product | Veto | OffPolicy | SecondMoment, Field(discriminator="type")]
"""One of the masks. Each has `keep(logp, logmu, mask, coefficients)` → bool [batch, time], false outside the mask;
coefficients are float [batch], and none of them un-learns."""


def geometric(logp: Tensor, logmu: Tensor, mask: Tensor, low: float, high: float) -> Tensor:
    """Sequences with low ≤ exp(mean d) ≤ high. Log-probabilities and mask as in `log_ratio`."""
    mean = _mean(log_ratio(logp, logmu, mask), mask).exp()
    return mask & ((mean >= low) & (mean <= high)).unsqueeze(-1)


def product(logp: Tensor, logmu: Tensor, mask: Tensor, low: float, high: float) -> Tensor:
    """Sequences with low ≤ exp(Σd) ≤ high."""
    whole = log_ratio(logp, logmu, mask).sum(-1).exp()
    return mask & ((whole >= low) & (whole <= high)).unsqueeze(-1)


def veto(logp: Tensor, logmu: Tensor, mask: Tensor, low: float, high: float) -> Tensor:
    """Sequences with low ≤ r ≤ high in every token."""
    ratio = log_ratio(logp, logmu, mask).exp()
    return mask & ((ratio >= low) & (ratio <= high)).all(-1, keepdim=True)


def off_policy(logp: Tensor, logmu: Tensor, mask: Tensor, coefficients: Tensor, gap: float) -> Tensor:
    """Sequences unless c < 0 and mean(log μ − log π) > gap."""
    left = _mean(-log_ratio(logp, logmu, mask), mask) > gap
    return mask & ~(left & (coefficients < 0)).unsqueeze(-1)


def second_moment(logp: Tensor, logmu: Tensor, mask: Tensor, coefficients: Tensor, tau: float) -> Tensor:
    """Tokens unless their d² is among the fewest, largest, without which the batch's mean d² is at most tau.

    Mean and choice are over tokens with c·d > 0 alone, those that a clipped loss would hold back: a coefficient that
    pushes π further from μ. (AReaL's variant takes all tokens.)
    """
    d = log_ratio(logp, logmu, mask)
    pushed = mask & (coefficients.sign().unsqueeze(-1) * d > 0)
    squares, order = (d[pushed].double() ** 2).sort()
    means = squares.cumsum(0) / torch.arange(1, len(squares) + 1, device=d.device)
    kept = torch.empty_like(pushed[pushed])
    kept[order] = means <= tau  # means of the smallest rise with their number, so a prefix is kept
    keep = mask.clone()
    keep[pushed] = kept
    return keep


def _mean(d: Tensor, mask: Tensor) -> Tensor:
    """Mean over a row's tokens, [batch]; 0 for a row without any."""
    return d.sum(-1) / mask.sum(-1).clamp(min=1)
