"""Readings as a sound run gives them: noisy, with batches of all sizes, and moving, since the policy learns."""

from __future__ import annotations

import math

import numpy as np
import pytest


@pytest.fixture(scope="session")
def sound():
    """(seed, steps) → readings. Every fourth step brings new proposals, every eighth new measurements."""

    def make(seed: int, steps: int = 160) -> list[dict[str, float]]:
        rng = np.random.default_rng(seed)
        readings = []
        for step in range(steps):
            done = step / steps
            due = int(rng.integers(1, 33)) if rng.random() < 0.3 else 32
            coefficient = float(rng.lognormal(math.log(0.4), 0.6))
            reading = {
                "due": float(due),
                "coefficient_mean_abs": coefficient,
                "gradient_norm": coefficient * math.sqrt(due) * float(rng.lognormal(0.5, 0.4)),
                "loss": float(rng.normal(0, 5)),
                "entropy": 2.9 - 1.5 * done + float(rng.normal(0, 0.03)),
                "ess_token": 1 - 0.3 * float(rng.random()),
                "kl_k3": 0.15 * float(rng.random()),
                "kl_fresh": 1e-4 * float(rng.random()),
                "router/layer0/dead_experts": float(rng.random() < 0.05),
                "router/layer1/dead_experts": float(rng.random() < 0.05),
                "router/dead_experts": 0.0,
            }
            if step % 4 == 0:
                reading |= {
                    "validity": float(rng.binomial(32, 0.95)) / 32,
                    "duplicate_share": 0.1 * done + 0.06 * float(rng.random()),
                    "scaffold_share": 0.1 + 0.1 * done + 0.06 * float(rng.random()),
                    "size": 24 + 4 * done + float(rng.normal(0, 0.8)),
                }
            if step % 8 == 0:
                reading |= {
                    "proxy_gap": 0.05 + float(rng.normal(0, 0.08)),
                    "component/potency": 0.3 + 0.3 * done + float(rng.normal(0, 0.06)),
                    "component/solubility": 0.5 + float(rng.normal(0, 0.06)),
                    "replicate_disagreement": math.sqrt(rng.chisquare(8) / 8),
                }
            readings.append(reading)
        return readings

    return make
