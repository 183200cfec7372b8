"""What can be said of the routing of one MoE layer: pure functions of the routers' choices and logits.

Load violation is that of Wang et al. 2024 (https://arxiv.org/abs/2408.15664, MaxVio), as verl logs it from recorded
experts: load over mean load, less one. 0 is even; E − 1 is one expert of E that takes everything; −1 is an expert that
takes nothing. Confidence is the probability mass of the chosen experts before renormalisation, as prime-rl logs it. A
sigmoid router's logits are read by softmax too, so that one number means one thing in every family.

The balancing loss is Fedus et al. 2021 (https://arxiv.org/abs/2101.03961, eq. 4–6) for top-k: E Σ fᵢ Pᵢ, with fᵢ the
assignments to expert i per token and Pᵢ its mean probability; k when even.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

DEAD_SHARE = 0.01
"""An expert with less than this part of an even load is dead."""


class Violation(NamedTuple):
    """Load over mean load, less one: of the busiest expert, of the idlest, and the mean of absolute values."""

    max: float
    min: float
    avg: float


def load(ids: Tensor, experts: int, counted: Tensor | None = None) -> Tensor:
    """int64 [experts]: assignments to each expert. Loads of several batches may be added up.

    Args:
        ids: int64 [tokens, top-k].
        counted: bool [tokens], false for padding; None counts all.
    """
    return torch.bincount((ids if counted is None else ids[counted]).flatten(), minlength=experts)


def violation(counts: Tensor) -> Violation:
    """Of a layer's load [experts]; zeros when nothing was routed."""
    total = counts.sum()
    if not total:
        return Violation(0.0, 0.0, 0.0)
    deviation = counts.double() * len(counts) / total - 1
    return Violation(float(deviation.max()), float(deviation.min()), float(deviation.abs().mean()))


def dead_experts(counts: Tensor, least: float = DEAD_SHARE) -> list[int]:
    """Experts of a layer's load [experts] with less than `least` of an even share; none when nothing was routed."""
    return (counts.double() * len(counts) < least * counts.sum()).nonzero().flatten().tolist()


def confidence(logits: Tensor, top_k: int) -> Tensor:
    """float32 [tokens]: probability mass of the experts that the router likes best.

    Args:
        logits: float [tokens, experts].
    """
    return logits.float().softmax(-1).topk(top_k, dim=-1).values.sum(-1)


def overlap(live: Tensor, recorded: Tensor) -> Tensor:
    """float32 [tokens]: share of the recorded experts that the live router would choose too.

    Args:
        live, recorded: int64 [tokens, top-k].
    """
    return (recorded[:, :, None] == live[:, None, :]).any(-1).float().mean(-1)


def gate_mass(logits: Tensor, recorded: Tensor) -> Tensor:
    """float32 [tokens], detached: probability that the live router gives the recorded experts together.

    Args:
        logits: float [tokens, experts].
        recorded: int64 [tokens, top-k].
    """
    return logits.detach().float().softmax(-1).gather(1, recorded).sum(-1)


def balance(logits: Tensor, live: Tensor, counted: Tensor | None = None, whole: Tensor | None = None) -> Tensor:
    """Scalar: the balancing loss of one layer; its gradient goes through the probabilities alone.

    Args:
        logits: float [tokens, experts].
        live: int64 [tokens, top-k], the routers' own choices, not what was replayed in their place.
        counted: bool [tokens], false for padding; None counts all.
        whole: int64 [experts], the load of a whole batch of which these tokens are a part: the losses of the parts then
            add up to that of the batch.
    """
    probabilities = logits.float().softmax(-1)
    if counted is not None:
        probabilities, live = probabilities[counted], live[counted]
    experts = probabilities.shape[-1]
    if whole is None:
        whole = load(live, experts)
    tokens = (whole.sum() / live.shape[-1]).clamp(min=1)
    return experts * (whole / tokens * (probabilities.sum(0) / tokens)).sum()
