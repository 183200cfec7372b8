"""Runs, and the results of those that are finished: one JSON file a run, named by a hash of all its settings.

A benchmark of hours can so be done in many sittings: what is there is read, what is missing is computed, in as many
processes as there are cores, and each result is written whole or not at all. A result also says which code gave it.
"""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from aliquot.trainer.config import LearningConfig
from benchmarks.delayed import campaign, laboratory, reinvent
from benchmarks.delayed.campaign import Outcome
from benchmarks.delayed.tasks import TASKS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "runs" / "benchmarks" / "delayed_learning"
RECORDED = Path(__file__).parent / "recorded"
"""Results that are kept with the code: those of full runs, for whoever wants to compute from them or go on."""


@dataclass(frozen=True)
class Job:
    """One run: a task, an arm, a seed."""

    task: str
    arm: str
    """`reinvent`, or any name for a campaign of our trainer."""
    in_flight: int
    calls: int
    seed: int
    group: int = 0
    """Proposals a round."""
    learning: dict[str, Any] | None = None
    """The campaign's `learning`; None for the REINVENT-style loop."""

    @property
    def name(self) -> str:
        return f"{self.task}.{self.arm}.seed{self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """All that the result depends on, beside the code: defaults are filled in."""
        own = {k: v for k, v in asdict(self).items() if k not in ("arm", "learning")}
        own["objective"] = TASKS[self.task].objective.model_dump(mode="json")
        own["laboratory"] = [laboratory.NOISE, laboratory.DROPOUT, laboratory.SPREAD, laboratory.FIRST_PART]
        own["patience"] = campaign.PATIENCE
        if self.learning is None:
            constants = (reinvent.BATCH, reinvent.REPLAY, reinvent.MEMORY, reinvent.SIGMA)
            own["reinvent"] = [*constants, reinvent.LEARNING_RATE, reinvent.LIKELIHOOD_PENALTY]
        else:
            own["learning"] = LearningConfig.model_validate(self.learning).model_dump(mode="json")
        return own

    @property
    def path(self) -> Path:
        """Where its result is, or will be."""
        digest = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()
        name = f"{self.name}.{digest[:16]}.json"
        return RECORDED / name if (RECORDED / name).is_file() else FOLDER / name


@dataclass(frozen=True)
class Result:
    """What a finished run gave."""

    outcome: Outcome
    code: str
    """Hash of the trainer's and this benchmark's source when it was computed."""


def results(jobs: Sequence[Job], processes: int, say: Callable[[str], None]) -> dict[str, Result]:
    """The result of each job by its name, computed where there is none yet."""
    missing = [job for job in jobs if not job.path.is_file()]
    say(f"{len(jobs) - len(missing)} of {len(jobs)} runs are there already")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=processes, mp_context=context) as pool:
        running = {pool.submit(_compute, job): job for job in missing}
        for ended in as_completed(running):
            say(f"{running[ended].name}: {ended.result():.0f} s")
    return {job.name: _read(job.path) for job in jobs}


def _compute(job: Job) -> float:
    """Compute and store one result; returns the seconds it took."""
    torch.set_num_threads(1)
    if job.learning is None:
        outcome = reinvent.run(job.task, job.calls, job.seed)
    else:
        outcome = campaign.run(job.task, job.in_flight, job.calls, job.seed, job.group, job.learning)
    scores = [None if math.isnan(score) else score for score in outcome.scores]
    told = {"settings": job.settings, "code": _code()} | asdict(outcome) | {"scores": scores}
    job.path.parent.mkdir(parents=True, exist_ok=True)
    temporary = job.path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(told))
    temporary.replace(job.path)
    return outcome.seconds


def _read(path: Path) -> Result:
    told = json.loads(path.read_text())
    scores = [math.nan if score is None else score for score in told["scores"]]
    return Result(Outcome(scores, told["counts"], told["seconds"]), told["code"])


def _code() -> str:
    hasher = hashlib.sha256()
    for folder in (ROOT / "trainer" / "aliquot" / "trainer", Path(__file__).parent):
        for file in sorted(folder.rglob("*.py")):
            hasher.update(file.read_bytes())
    return hasher.hexdigest()[:16]
