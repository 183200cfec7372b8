"""The same budget spent at random: what the lab would have measured of the untrained policy's designs.

The comparison is fair by construction: the same lab (another seed), the same noise, failures and silence, the same
objective; only the choice is chance. The curve is exact: the running maximum over a random order of N values, drawn
without replacement, has after k draws

    P(max ≤ x₍ᵢ₎) = C(i, k) / C(N, k),   x₍₁₎ ≤ … ≤ x₍N₎.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from aliquot.clock import VirtualClock
from aliquot.domain import Design, Measurement, Objective, Outcome, Quality
from aliquot.lab_adapters.sdk import LabAdapter, LabRefused, Submission

if TYPE_CHECKING:
    from aliquot.campaigns.spec import CampaignSpec


class Band(NamedTuple):
    """Best so far after 1, 2, … experiments at random, each float64 [experiments]."""

    mean: np.ndarray
    low: np.ndarray
    """5 % quantile."""
    high: np.ndarray
    """95 % quantile."""


def random_baseline(spec: CampaignSpec, samples: Sequence[Design]) -> np.ndarray | None:
    """Objective values of samples of the prior as the campaign's simulated lab would measure them.

    Args:
        samples: verified designs of the untrained policy.

    Returns:
        float64 [at most len(samples)]: without those that the lab refuses or never fully answers; None when the lab
        is not simulated, for a real one cannot be asked twice.
    """
    if spec.lab.type != "simulated":
        return None
    from aliquot.lab_adapters.simulated import SimulatedLab, SimulatedLabConfig

    config = SimulatedLabConfig.model_validate(spec.lab.config | {"path": None})
    config = config.model_copy(update={"seed": config.seed + 1})
    clock = VirtualClock()
    lab = SimulatedLab(config, clock)
    try:
        return measure(lab, clock, spec.objective, samples, _scores(spec, samples))
    finally:
        lab.close()


def measure(
    lab: LabAdapter,
    clock: VirtualClock,
    objective: Objective,
    samples: Sequence[Design],
    scores: Sequence[dict[str, float]],
) -> np.ndarray:
    """Submit everything, wait for the last word, and value what was answered in full.

    Args:
        scores: of the verifiers that are targets, by name, for each sample.

    Returns:
        float64 [complete samples], in their order.
    """
    known: dict[str, dict[str, float]] = {}
    for i, design in enumerate(samples):
        key = f"random-{i}"
        try:
            lab.submit(Submission(key=key, design=design, assays=objective.assays))
        except LabRefused:
            continue
        known[key] = dict(scores[i]) if scores else {}
    while (moment := lab.next_event_at()) is not None:
        clock.wait_until(moment)
    newest: dict[tuple[str, str, int], Measurement] = {}
    failed: set[str] = set()
    for delivery in lab.results("").deliveries:
        for m in delivery.measurements:
            before = newest.get((delivery.key, m.assay, m.replicate))
            if before is None or before.revision < m.revision:
                newest[delivery.key, m.assay, m.replicate] = m
        if delivery.outcome == Outcome.LAB_FAILURE:
            failed.add(delivery.key)
    good: dict[tuple[str, str], list[float]] = {}
    for (key, assay, _), m in newest.items():
        if not m.retracted:
            values = good.setdefault((key, assay), [])
            values.extend([m.value] if m.quality != Quality.FAILED and m.value is not None else [])
    for (key, assay), values in good.items():
        known[key][assay] = float(np.mean(values)) if values else math.nan
    for key in failed:
        for assay in objective.assays:
            known[key].setdefault(assay, math.nan)
    wanted = {target.name for target in objective.targets}
    return np.array([float(objective.value(one)) for one in known.values() if wanted <= set(one)])  # type: ignore[arg-type]


def best_so_far(values: np.ndarray, experiments: int) -> Band:
    """Mean and 90 % band of the running maximum over a random order of `values`.

    Args:
        values: float [n], n ≥ 1.
        experiments: longest run wanted; the curve ends at n when that is less.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    n = len(ordered)
    rank, below = np.arange(1, n + 1), np.ones(n)
    curves = []
    for k in range(min(experiments, n)):
        below = below * np.clip(rank - k, 0, None) / (n - k)
        chance = np.diff(below, prepend=0.0)
        low, high = ordered[np.minimum(np.searchsorted(below, np.array([0.05, 0.95]) - 1e-12), n - 1)]
        curves.append((chance @ ordered, low, high))
    return Band(*np.array(curves, dtype=float).reshape(-1, 3).T)


def _scores(spec: CampaignSpec, samples: Sequence[Design]) -> list[dict[str, float]]:
    """What the verifiers that are targets say of each sample; a score that failed is missing."""
    if not spec.objective.scores:
        return []
    from aliquot.verifiers.ladder import VerifierLadder

    with VerifierLadder(tuple(v for v in spec.verifiers if v.name in spec.objective.scores)) as ladder:
        judgements = ladder.verify(list(samples))
    return [{n: v.score for n, v in j.verdicts.items() if v.score is not None} for j in judgements]
