"""What do late results cost a policy that learns from them, and what does dropping the late ones cost?

The same campaign with 0, 128 and 512 experiments in flight: the policy alone, no selection and no other proposer; two
assays that return apart, with noise, and calls that never answer (`benchmarks.delayed.laboratory`). Ours is compared

* with itself: its area at 512 in flight over that of its own curve without delay, shifted right by 512 calls;
* with a REINVENT-style loop, both without delay;
* with `sampler: {type: drop_after, versions: 8}`, all else the same, both at 512 in flight.

The area is that of PMO's top ten over calls (`benchmarks.delayed.curve`), on true scores; an interval is over seeds.
`.after` leaves the first 512 calls out, for which the shifted curve is 0 by definition. `starvation` is the
Kolmogorov-Smirnov distance between the completion times of what was learned and of what came back. The quick run has
fewer calls, and experiments in flight in the same proportion; it holds the same goals, but a sampler that counts
versions meets fewer of them while an answer is out, and drops less.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.delayed.cache import Job, Result, results
from benchmarks.delayed.curve import shifted, top_auc, top_mean
from benchmarks.harness import Goal, Report, interval

SEEDS = (0, 1, 2)
TASK = "perindopril"
FULL, QUICK = 10_000, 600
IN_FLIGHT = (0, 128, 512)
"""Of the full run."""
GROUP = 64
"""Proposals a round."""

OURS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "batch_size": 16,
    "max_gradient_norm": 50.0,
    "tolerance": 0.3,
    "anchor": {"type": "kl", "coefficient": 0.05},
    "baseline": {"strength": 64.0},
    "reuse": [{"type": "imitation", "samples": 16, "budget": 1000, "top": 0.02}],
}
"""The configuration that is judged, beside the defaults: small batches, so that each result is learned from soon; a
norm that clips outliers alone, since a clipped gradient is as long for a small difference as for a large one; a
baseline and a tolerance under which a sibling's return does not make its whole group due again; and as many of the best
designs as new results in each step."""
DROPPING = OURS | {"sampler": {"type": "drop_after", "versions": 8}}
"""Without delay nothing grows that old, and the two are one run."""


def run(full: bool, say: Callable[[str], None]) -> Report:
    calls = FULL if full else QUICK
    flights = [round(calls * one / FULL) for one in IN_FLIGHT]
    every, late = calls // 100, flights[-1]
    report = Report("delayed_learning", seeds=list(SEEDS))
    say(f"{calls:,} calls, {' / '.join(map(str, flights))} in flight on average")
    jobs = [job for seed in SEEDS for job in arms(seed, calls, flights, all_flights=full)]
    jobs.sort(key=lambda job: job.in_flight not in (0, late))  # what goals need comes first
    found = results(jobs, processes=os.cpu_count() or 1, say=say)
    auc = {(job.arm, job.seed): _told(report, job, found[job.name], calls, every, late) for job in jobs}

    def shift(seed: int, start: int = 0) -> float:
        scores = found[f"{TASK}.ours_0.seed{seed}"].outcome.scores
        return top_auc(shifted(scores, late), calls, every, start)

    last = f"ours_{late}"
    compared = {
        "delayed_over_shifted": lambda seed: auc[last, seed][0] / shift(seed),
        "delayed_over_shifted.after": lambda seed: auc[last, seed][1] / shift(seed, _start(late, every)),
        "ours_less_reinvent": lambda seed: auc["ours_0", seed][0] - auc["reinvent_0", seed][0],
        "ours_less_drop_after": lambda seed: auc[last, seed][0] - auc[f"drop_after_{late}", seed][0],
    }
    for name, of in compared.items():
        _summary(report, name, [of(seed) for seed in SEEDS])
    starved = [found[f"{TASK}.{last}.seed{seed}"].outcome.counts["starvation"] for seed in SEEDS]
    report.metrics |= {"starvation": max(starved), "calls": float(calls), "in_flight": float(late)}
    report.metrics |= {"group": float(GROUP), "codes": float(len({result.code for result in found.values()}))}
    report.goals = [
        Goal("delayed_over_shifted", ">=", 0.95),
        Goal("ours_less_reinvent", ">=", 0.0),
        Goal("ours_less_drop_after.low", ">=", 0.0),
        Goal("starvation", "<=", 0.05),
    ]
    return report


def arms(seed: int, calls: int, flights: Sequence[int], all_flights: bool) -> list[Job]:
    """The runs of one seed; without `all_flights`, only those that goals need."""
    ends = flights if all_flights else (flights[0], flights[-1])
    late = flights[1:] if all_flights else flights[-1:]
    return [
        Job(TASK, "reinvent_0", 0, calls, seed),
        *(Job(TASK, f"ours_{one}", one, calls, seed, GROUP, OURS) for one in ends),
        *(Job(TASK, f"drop_after_{one}", one, calls, seed, GROUP, DROPPING) for one in late),
    ]


def _start(late: int, every: int) -> int:
    """The first reading of the curve at or after `late` calls."""
    return -(-late // every) * every


def _told(report: Report, job: Job, result: Result, calls: int, every: int, late: int) -> tuple[float, float]:
    """Enter what one run gave; returns its area, whole and after the first calls."""
    outcome = result.outcome
    areas = top_auc(outcome.scores, calls, every), top_auc(outcome.scores, calls, every, _start(late, every))
    report.metrics |= {f"{job.name}.auc": areas[0], f"{job.name}.auc.after": areas[1]}
    report.metrics[f"{job.name}.top10"] = top_mean(np.array(outcome.scores[:calls]))
    names = (
        "calls",
        "unanswered",
        "samples",
        "repeats",
        "invalid",
        "steps",
        "staleness_versions",
        "dropped",
        "starvation",
    )
    report.metrics |= {f"{job.name}.{name}": outcome.counts[name] for name in names if name in outcome.counts}
    report.metrics[f"{job.name}.seconds"] = outcome.seconds
    return areas


def _summary(report: Report, name: str, values: list[float]) -> None:
    mean, low, high = interval(values)
    report.metrics |= {name: mean, f"{name}.low": low, f"{name}.high": high}
    report.metrics |= {f"{name}.seed{seed}": value for seed, value in zip(SEEDS, values, strict=True)}
