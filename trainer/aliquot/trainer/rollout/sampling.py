"""Drawing tokens: one stream of uniforms per sample, and the inverse of the cumulative distribution.

A sample's uniforms come from Philox keyed by (seed, index), so they do not depend on the batch it is drawn in. The
arithmetic of a batch may differ from that of a single row by rounding, in bfloat16 by more; only where a uniform falls
within that rounding of a boundary between two tokens can a draw differ.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from aliquot.domain import Sampling


def uniforms(seed: int, index: int, count: int) -> Tensor:
    """float64 [count] in [0, 1): the stream of sample `index` of a request."""
    key = np.array([seed % 2**64, index], dtype=np.uint64)
    return torch.from_numpy(np.random.Generator(np.random.Philox(key=key)).random(count))


def draw(logp: Tensor, uniform: Tensor) -> Tensor:
    """int64 [rows]: the first token whose cumulative probability exceeds the uniform's share of the total.

    Args:
        logp: float32 [rows, vocabulary].
        uniform: float64 [rows].
    """
    cumulative = logp.double().exp().cumsum(-1)
    return torch.searchsorted(cumulative, uniform[:, None] * cumulative[:, -1:], right=True).squeeze(-1)


def truncated(logp: Tensor, sampling: Sampling) -> Tensor:
    """Log-probabilities after the top-k, top-p and min-p cuts, in this order, renormalised after each.

    Args:
        logp: float32 [rows, vocabulary].
    """
    if 0 < sampling.top_k < logp.shape[-1]:
        least = logp.topk(sampling.top_k, dim=-1).values[:, -1:]
        logp = torch.log_softmax(logp.masked_fill(logp < least, float("-inf")), dim=-1)
    if sampling.top_p < 1:
        ordered, order = logp.sort(dim=-1, descending=True)
        before = ordered.exp().cumsum(-1) - ordered.exp()
        cut = torch.zeros_like(logp, dtype=torch.bool).scatter(-1, order, before >= sampling.top_p)
        logp = torch.log_softmax(logp.masked_fill(cut, float("-inf")), dim=-1)
    if sampling.min_p > 0:
        least = logp.max(dim=-1, keepdim=True).values + float(np.log(sampling.min_p))
        logp = torch.log_softmax(logp.masked_fill(logp < least, float("-inf")), dim=-1)
    return logp
