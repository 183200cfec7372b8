"""How far the current policy π is from the behaviour policy μ, and what was done about it: said of every step.

With d = log π − log μ of each generated token, r = eᵈ, R = e^Σd of a sequence. Names are stable:

| name                                       | value |
| ------------------------------------------ | ----- |
| `kl_k1`                                    | mean −d, nats per token: KL(μ‖π), unbiased, signed |
| `kl_k3`                                    | mean r − d − 1: the same, never negative |
| `log_ratio_mean`, `log_ratio_max`          | of abs d |
| `chi2`, `chi2_sequence`                    | mean r² − 1 over tokens; mean R² − 1 over sequences |
| `ess_token`, `ess_sequence`                | effective sample size of r and of R, as a fraction |
| `extreme_fraction`                         | share of tokens with abs d > ln 2 |
| `kl_entropy_ratio`                         | `kl_k3` over the entropy of π per token |
| `weight_mean`                              | mean weight per token; sound within [0.5, 2] |
| `truncated_positive`, `truncated_negative` | share of tokens of this sign whose weight met a bound |
| `masked_positive`, `masked_negative`       | share of tokens of this sign that a mask dropped |

The sign of a token is that of its sequence's coefficient; a share among no tokens is 0. k1 and k3 are Schulman's (2020,
"Approximating KL divergence"), the effective sample size is Kish's (1965). Log-ratios are held within ±20 before an
exponential. Nothing is said of a batch without tokens.
"""

from __future__ import annotations

import math

from torch import Tensor

from aliquot.trainer.correction.weights import LIMIT, log_ratio

LEAST_ENTROPY = 1e-6
"""Nats per token, so that the ratio to a deterministic policy's entropy stays finite."""


def diagnose(
    logp: Tensor,
    logmu: Tensor,
    mask: Tensor,
    *,
    weights: Tensor,
    truncated: Tensor,
    keep: Tensor,
    coefficients: Tensor,
    entropy: float,
) -> dict[str, float]:
    """Every value of the table above.

    Args:
        logp, logmu: log π and log μ of each generated token, float [batch, time].
        mask: true where a token was generated, bool [batch, time].
        weights, truncated: what the correction says of them, float and bool [batch, time].
        keep: what every mask keeps, bool [batch, time].
        coefficients: what is due, before any mask, float [batch].
        entropy: of π, nats per token.
    """
    found = mismatch(logp, logmu, mask)
    if not found:
        return {}
    found["kl_entropy_ratio"] = found["kl_k3"] / max(entropy, LEAST_ENTROPY)
    found["weight_mean"] = float(weights[mask].double().mean())
    for name, what in (("truncated", truncated), ("masked", ~keep)):
        for sign, chosen in (("positive", coefficients > 0), ("negative", coefficients < 0)):
            found[f"{name}_{sign}"] = _share(what, mask & chosen.unsqueeze(-1))
    return found


def mismatch(logp: Tensor, logmu: Tensor, mask: Tensor) -> dict[str, float]:
    """The values of the table above, down to `extreme_fraction`, that need no correction to speak of.

    Args:
        logp, logmu: float [batch, time]. mask: bool [batch, time].
    """
    if not mask.any():
        return {}
    difference = log_ratio(logp, logmu, mask).double()
    d = difference[mask]
    ratio = d.clamp(-LIMIT, LIMIT).exp()
    sequence = difference[mask.any(-1)].sum(-1).clamp(-LIMIT, LIMIT).exp()
    return {
        "kl_k1": float(-d.mean()),
        "kl_k3": float((ratio - d - 1).mean()),
        "log_ratio_mean": float(d.abs().mean()),
        "log_ratio_max": float(d.abs().max()),
        "chi2": float((ratio**2).mean() - 1),
        "chi2_sequence": float((sequence**2).mean() - 1),
        "ess_token": effective_sample_size(ratio),
        "ess_sequence": effective_sample_size(sequence),
        "extreme_fraction": float((d.abs() > math.log(2)).double().mean()),
    }


def effective_sample_size(weights: Tensor) -> float:
    """(Σw)² / (n Σw²) of non-negative weights [n], in (0, 1]; 1 for an empty or all-zero batch."""
    weights = weights.double()
    square = (weights**2).sum()
    return float(weights.sum() ** 2 / (len(weights) * square)) if square > 0 else 1.0


def _share(what: Tensor, among: Tensor) -> float:
    return float((what & among).sum() / among.sum()) if among.any() else 0.0
