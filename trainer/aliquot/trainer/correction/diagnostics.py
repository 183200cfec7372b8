"""How far the current policy has gone from the one that drew the samples.

With d = log π − log μ on samples of μ: k1 = −d and k3 = eᵈ − d − 1 both estimate KL(μ‖π) without bias (Schulman 2020,
"Approximating KL divergence"); χ² = E[e²ᵈ] − 1; the effective sample size is (Σw)² / (n Σw²) (Kish 1965).
"""

from __future__ import annotations

import torch
from torch import Tensor


def effective_sample_size(weights: Tensor) -> float:
    """(Σw)² / (n Σw²) of non-negative weights [n], in (0, 1]; 1 for an empty or all-zero batch."""
    weights = weights.double()
    square = (weights**2).sum()
    return float(weights.sum() ** 2 / (len(weights) * square)) if square > 0 else 1.0


def mismatch(logp: Tensor, logmu: Tensor, mask: Tensor) -> dict[str, float]:
    """Divergence of current from behaviour policy over the tokens in the mask.

    Args:
        logp, logmu: float32 [batch, time]. mask: bool [batch, time].

    Returns:
        `kl_k1`, `kl_k3` (nats per token), `log_ratio_mean`, `log_ratio_max` (of |d|), `chi2`, `ess_token` and
        `ess_sequence` (fractions).
    """
    difference = torch.where(mask, logp.detach() - logmu, 0.0)
    d = difference[mask].double()
    if len(d) == 0:
        return {}
    ratio = d.clamp(-20, 20).exp()
    sequence = difference.sum(-1).clamp(-20, 20).exp()
    return {
        "kl_k1": float(-d.mean()),
        "kl_k3": float((ratio - d - 1).mean()),
        "log_ratio_mean": float(d.abs().mean()),
        "log_ratio_max": float(d.abs().max()),
        "chi2": float((ratio**2).mean() - 1),
        "ess_token": effective_sample_size(ratio),
        "ess_sequence": effective_sample_size(sequence),
    }
