"""From what each token says to one number: five ways to average, all of them a factor for each row.

    L = Σᵢ fᵢ Σₜ ℓᵢₜ        lᵢ tokens in row i, n rows with tokens, g(i) the prompt group of row i

    sequence_sum   fᵢ = 1 / B                  Σ over tokens, mean over a full batch
    constant       fᵢ = 1 / (B · horizon)      Dr.GRPO (Liu et al. 2025, arXiv:2503.20783)
    token          fᵢ = 1 / Σⱼ lⱼ              DAPO (Yu et al. 2025, arXiv:2503.14476)
    sequence       fᵢ = 1 / (n lᵢ)             GRPO (Shao et al. 2024, arXiv:2402.03300)
    prompt         fᵢ = 1 / (groups · Σ_{j in g(i)} lⱼ)    ScaleRL (Khatri et al. 2025, arXiv:2510.13786)

The first two depend on nothing but the row itself; with the others, what a row counts for depends on which rows stand
beside it.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Aggregation = Literal["sequence_sum", "constant", "token", "sequence", "prompt"]

CONSTANT: frozenset[Aggregation] = frozenset({"sequence_sum", "constant"})
"""Those whose normaliser does not depend on the batch."""


def aggregate(
    per_token: Tensor, mask: Tensor, groups: Tensor, how: Aggregation, batch_size: int, horizon: int
) -> Tensor:
    """Σᵢ fᵢ Σₜ ℓᵢₜ over the tokens in the mask; scalar, with gradient through `per_token`.

    Args:
        per_token: ℓ, float32 [batch, time]; anything outside the mask.
        mask: bool [batch, time], true where a token was generated; a row may be empty.
        groups: int64 [batch], which prompt group each row belongs to.
        batch_size: B of a full batch.
        horizon: longest generation that the space allows, tokens.
    """
    factors = row_factors(mask, groups, how, batch_size, horizon)
    return (factors.unsqueeze(-1) * torch.where(mask, per_token, 0.0)).sum()


def row_factors(mask: Tensor, groups: Tensor, how: Aggregation, batch_size: int, horizon: int) -> Tensor:
    """f, float32 [batch]: what each token of a row counts for, 0 in an empty row. Arguments as in `aggregate`."""
    lengths = mask.sum(-1)
    if how == "sequence_sum":
        divisor = torch.full_like(lengths, batch_size)
    elif how == "constant":
        divisor = torch.full_like(lengths, batch_size * horizon)
    elif how == "token":
        divisor = lengths.sum().expand_as(lengths)
    elif how == "sequence":
        divisor = (lengths > 0).sum() * lengths
    else:
        _, member = torch.unique(groups, return_inverse=True)
        tokens = torch.zeros_like(lengths).index_add(0, member, lengths)  # no more groups than rows
        divisor = (tokens > 0).sum() * tokens[member]
    return torch.where(lengths > 0, 1.0 / divisor.clamp(min=1).float(), 0.0)
