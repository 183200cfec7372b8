"""How much a sample drawn by the behaviour policy μ counts under the current policy π.

With d = log π − log μ of each generated token and r = eᵈ, the weight of a token is

| type          | weight                                  | source |
| ------------- | --------------------------------------- | ------ |
| `tis`         | min(r, cap), or min(Πr, cap) of its row | Ionides 2008, "Truncated Importance Sampling" |
| `icepop`      | r inside [low, high], else 0            | Ring-1T, arXiv 2510.18855 |
| `kpop`        | r while the binary KLs ≤ bound, else 0  | Guo et al. 2026, ringtech.notion.site/kpop |
| `untruncated` | r, or Πr of its row                     | textbook: unbiased per sequence, of unbounded variance |
| `none`        | 1                                       | what a trainer does that takes its samples for its own |

Token-level `tis` is the weight of AIPO (LlamaRL, arXiv 2505.24034) too: one-sided, and μ the sampler that truly drew.

A weight is a constant to the gradient, zero outside the mask, and its log-ratio is held within ±20. Results have the
dtype of the log-probabilities, float32 at least. No weight may be stacked on a loss whose own ratio is anchored at μ.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from aliquot.domain import Noun

Level = Literal["token", "sequence"]
LIMIT = 20.0
"""Of |log-ratio|, nats: e²⁰ is 5 · 10⁸."""
LEAST_PROBABILITY = 1e-6
"""Probabilities stay this far from 0 and 1 in a binary KL: a float32 log-softmax does not tell 1 − p finer."""


class Truncated(Noun):
    """min(π/μ, cap), per token or per sequence; at token level the weight of AIPO."""

    type: Literal["tis"] = "tis"
    level: Level = "token"
    """`token`: biased by what a prefix's ratio would say, low variance. `sequence`: unbiased but for the truncation."""
    cap: float = Field(default=2.0, ge=1.0)
    """The largest weight."""

    def weights(self, logp: Tensor, logmu: Tensor, mask: Tensor) -> Tensor:
        return tis(logp, logmu, mask, self.level, self.cap)

    def truncated(self, logp: Tensor, logmu: Tensor, mask: Tensor) -> Tensor:
        return importance(logp, logmu, mask, self.level) > self.cap


class IcePop(Noun):
    """π/μ of a token inside [low, high]; a token outside counts for nothing. Denominators do not change."""

    type: Literal["icepop"] = "icepop"
    low: float = Field(default=0.5, gt=0, le=1)
    """α: smallest ratio that counts."""
    high: float = Field(default=5.0, ge=1)
    """β: largest ratio that counts."""

    def weights(self, logp: Tensor, logmu: Tensor, mask: Tensor) -> Tensor:
        return icepop(logp, logmu, mask, self.low, self.high)

    def truncated(self, logp: Tensor, logmu: Tensor, mask: Tensor) -> Tensor:
        return mask & (self.weights(logp, logmu, mask) == 0)


class KPop(Noun):
    """π/μ of a token, zero when the binary KL of the event "this token" exceeds `bound` in either direction.

    Wide in ratio for rare tokens and tight for likely ones, where a ratio's bounds see nothing.
    """

    type: Literal["kpop"] = "kpop"
    bound: float = Field(default=0.1, gt=0)
    """φ: nats."""

    def weights(self, logp: Tensor, logmu: Tensor, mask: Tensor) -> Tensor:
        return kpop(logp, logmu, mask, self.bound)

    def truncated(self, logp: Tensor, logmu: Tensor, mask: Tensor) -> Tensor:
        return mask & (self.weights(logp, logmu, mask) == 0)


class Untruncated(Noun):
    """π/μ whole, per token or per sequence. For study: its variance grows with the exponential of the divergence."""

    type: Literal["untruncated"] = "untruncated"
    level: Level = "sequence"
    """`sequence`: unbiased. `token`: biased by what a prefix's ratio would say."""

    def weights(self, logp: Tensor, logmu: Tensor, mask: Tensor) -> Tensor:
        return importance(logp, logmu, mask, self.level)

    def truncated(self, logp: Tensor, logmu: Tensor, mask: Tensor) -> Tensor:
        return torch.zeros_like(mask)


class Uncorrected(Noun):
    """Weight 1. For study, and for losses whose own ratio is anchored at μ."""

    type: Literal["none"] = "none"

    def weights(self, logp: Tensor, logmu: Tensor, mask: Tensor) -> Tensor:
        return mask.to(torch.promote_types(logp.dtype, torch.float32))

    def truncated(self, logp: Tensor, logmu: Tensor, mask: Tensor) -> Tensor:
        return torch.zeros_like(mask)


def _tis_unless_said(value: Any) -> Any:
    return {"type": "tis", **value} if isinstance(value, dict) else value


CorrectionConfig = Annotated[
    Truncated | IcePop | KPop | Untruncated | Uncorrected,
    Field(discriminator="type"),
    BeforeValidator(_tis_unless_said),
]
"""One of the corrections; `tis` when no `type` is given. Each has two methods over (logp, logmu, mask), each
[batch, time]: `weights`, and `truncated`, true where the weight is less than the full ratio because a bound was met."""


def log_ratio(logp: Tensor, logmu: Tensor, mask: Tensor) -> Tensor:
    """d = log π − log μ, detached, 0 outside the mask.

    Args:
        logp: log π of each generated token, [batch, time].
        logmu: log μ of the same tokens, [batch, time].
        mask: true where a token was generated, bool [batch, time].
    """
    dtype = torch.promote_types(logp.dtype, torch.float32)
    return torch.where(mask, logp.detach().to(dtype) - logmu.to(dtype), 0.0)


def importance(logp: Tensor, logmu: Tensor, mask: Tensor, level: Level) -> Tensor:
    """π/μ of each token, or of each token's whole row. Arguments as in `log_ratio`; 0 outside the mask."""
    d = log_ratio(logp, logmu, mask)
    if level == "sequence":
        d = d.sum(-1, keepdim=True).expand_as(d)
    return torch.where(mask, d.clamp(-LIMIT, LIMIT).exp(), 0.0)


def tis(logp: Tensor, logmu: Tensor, mask: Tensor, level: Level, cap: float) -> Tensor:
    """min(π/μ, cap). Arguments as in `log_ratio`."""
    return importance(logp, logmu, mask, level).clamp(max=cap)


def icepop(logp: Tensor, logmu: Tensor, mask: Tensor, low: float, high: float) -> Tensor:
    """r where low ≤ r ≤ high, else 0. Arguments as in `log_ratio`."""
    ratio = importance(logp, logmu, mask, "token")
    return torch.where((ratio >= low) & (ratio <= high), ratio, 0.0)


def kpop(logp: Tensor, logmu: Tensor, mask: Tensor, bound: float) -> Tensor:
    """r where neither binary KL exceeds `bound`, else 0. Arguments as in `log_ratio`."""
    divergence = torch.maximum(binary_kl(logp.detach(), logmu), binary_kl(logmu, logp.detach()))
    return torch.where(divergence <= bound, importance(logp, logmu, mask, "token"), 0.0)


def binary_kl(logp: Tensor, logq: Tensor) -> Tensor:
    """p log(p/q) + (1−p) log((1−p)/(1−q)), nats, float64: KL of the event "this token", given its log-probabilities."""
    p, q = (x.double().exp().clamp(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY) for x in (logp, logq))
    return p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
