"""What is to be done with a result of which the first part is in: learn it and the difference later, learn it and
replace it later, or wait for the last word?

The campaign of `benchmarks.delayed_learning` with all else the same: two assays that return apart, the first after a
third of the time. `difference` learns from both and adds what the second changes; `replace` takes the first back whole
and learns the second whole; `wait` learns once, later, and never takes back. Which learns fastest is measured by PMO's
area over calls on true scores, paired by seed, as gains over `wait`; `steps` says what it costs, and `drift` how far
what was taken back missed what had been learned, because the parameters had moved on between.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from benchmarks.delayed.cache import Job, results
from benchmarks.delayed.curve import top_auc
from benchmarks.delayed.tasks import TASKS
from benchmarks.delayed_learning import GROUP, OURS, TASK
from benchmarks.harness import Goal, Report, interval

MODES = ("wait", "difference", "replace")
FULL, QUICK = (2_000, range(6)), (500, range(3))
"""Calls of a run, and seeds."""
IN_FLIGHT = 0.1
"""Calls that are out on average, as a share of all."""


def run(full: bool, say: Callable[[str], None]) -> Report:
    calls, seeds = FULL if full else QUICK
    tasks = tuple(TASKS) if full else (TASK,)
    report = Report("revisions", seeds=list(seeds))
    jobs = [_job(task, mode, calls, seed) for seed in seeds for task in tasks for mode in MODES]
    found = results(jobs, processes=os.cpu_count() or 1, say=say)

    def of(mode: str, value: Callable[[Job], float]) -> list[float]:
        """Per seed, the mean over tasks."""
        return [sum(value(_job(task, mode, calls, seed)) for task in tasks) / len(tasks) for seed in seeds]

    areas = {mode: of(mode, lambda job: top_auc(found[job.name].outcome.scores, calls, calls // 100)) for mode in MODES}
    for mode in MODES:
        report.metrics[f"{mode}.auc"] = interval(areas[mode])[0]
        for name in ("steps", "drift"):
            report.metrics[f"{mode}.{name}"] = interval(
                of(mode, lambda job, n=name: found[job.name].outcome.counts[n])
            )[0]
    for mode in MODES[1:]:
        gains = [one - waited for one, waited in zip(areas[mode], areas["wait"], strict=True)]
        mean, low, high = interval(gains)
        report.metrics |= {f"{mode}.gain": mean, f"{mode}.gain.low": low, f"{mode}.gain.high": high}
    report.goals = [Goal("difference.gain", ">=", 0.0)]
    return report


def _job(task: str, mode: str, calls: int, seed: int) -> Job:
    return Job(task, mode, round(IN_FLIGHT * calls), calls, seed, GROUP, OURS | {"revisions": mode})
