"""One execution, drawn whole at the moment of submission.

Everything that will happen to it (latencies, noise, failures, silence, revisions) comes from streams seeded by (lab
seed, design key, attempt key), one for the experiment and one for each assay. So its history depends on nothing that
other experiments do, and on the queue only for its start. Each stream is drawn in full, whatever the probabilities
are: making an assay fail more often changes no other number.

Timeline of an assay with two replicates, the second of them wrong at first (L: latency, L': one more draw of it):

    start ── L/2: replicate 0 ── L: replicate 1, revision 0 ── L + L': replicate 1, revision 1

The experiment ends with the last first word of any assay; revisions may come after its end, as they do in life. An
assay that never answers keeps the experiment from ending, though its slot is free again once the work was done.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace

import numpy as np

from aliquot.clock import HOUR
from aliquot.domain import Outcome
from aliquot.lab_adapters.sdk import Submission
from aliquot.lab_adapters.simulated.config import SimulatedAssay, SimulatedLabConfig


@dataclass(frozen=True)
class Message:
    """What the lab will say `after` seconds from the start of the work."""

    after: float
    name: str
    """Unique within the execution."""
    assay: str | None = None
    """None: it carries no measurement."""
    replicate: int = 0
    revision: int = 0
    value: float | None = None
    """None with an assay: the assay failed."""
    unit: str | None = None
    standard_error: float | None = None
    outcome: Outcome | None = None


@dataclass(frozen=True)
class Execution:
    """All that will happen, in seconds from the start of the work."""

    messages: tuple[Message, ...]
    busy: float
    """How long it holds its slot."""
    ends: float | None
    """When the outcome is said; None: never."""
    outcome: Outcome | None


def draw(config: SimulatedLabConfig, submission: Submission, truth: dict[str, float]) -> Execution:
    """The execution of a submission.

    Args:
        truth: noise-free value of each submitted assay, in its unit.
    """
    seed = (str(config.seed), submission.design.key, submission.key)
    rng = _stream(*seed)
    silent, failed = rng.random() < config.dropout, rng.random() < config.failure
    works = [
        _draw_assay(assay, truth[assay.name], _stream(*seed, assay.name))
        for assay in config.assays
        if assay.name in submission.assays
    ]
    busy = max(work.hours for work in works) * HOUR
    if silent:
        return Execution(messages=(), busy=busy, ends=None, outcome=None)
    if failed:
        first = min(work.first_hours for work in works) * HOUR
        message = Message(after=first, name="failure", outcome=Outcome.LAB_FAILURE)
        return Execution((message,), busy=first, ends=first, outcome=Outcome.LAB_FAILURE)
    said = sorted((m for work in works for m in work.messages), key=lambda m: (m.after, m.name))
    if any(work.lost for work in works):
        return Execution(tuple(said), busy=busy, ends=None, outcome=None)
    last = max(i for i, m in enumerate(said) if m.revision == 0)
    outcome = Outcome.LAB_FAILURE if all(work.failed for work in works) else Outcome.MEASURED
    said[last] = replace(said[last], outcome=outcome)
    return Execution(tuple(said), busy=busy, ends=said[last].after, outcome=outcome)


@dataclass(frozen=True)
class _AssayWork:
    messages: tuple[Message, ...]
    hours: float
    first_hours: float
    lost: bool
    failed: bool


def _draw_assay(assay: SimulatedAssay, truth: float, rng: np.random.Generator) -> _AssayWork:
    n = assay.replicates
    hours = assay.latency.draw(rng)
    lost, failed = rng.random() < assay.dropout, rng.random() < assay.failure
    values = truth + assay.batch_effect * rng.standard_normal() + assay.noise * rng.standard_normal(n)
    wrong = rng.random(n) < assay.revision
    errors = assay.gross_error * rng.standard_normal(n)
    corrections = [assay.latency.draw(rng) for _ in range(n)]

    def message(after: float, replicate: int, revision: int, value: float | None) -> Message:
        name = f"{assay.name}/{replicate}/{revision}"
        standard_error = None if value is None else math.hypot(assay.noise, assay.batch_effect)
        return Message(after, name, assay.name, replicate, revision, value, assay.unit, standard_error)

    messages: list[Message] = []
    if failed and not lost:
        messages.append(message(hours * HOUR, 0, 0, None))
    elif not lost:
        for i in range(n):
            after, value = hours * (i + 1) / n * HOUR, float(values[i])
            messages.append(message(after, i, 0, value + float(errors[i]) if wrong[i] else value))
            if wrong[i]:
                messages.append(message(after + corrections[i] * HOUR, i, 1, value))
    return _AssayWork(tuple(messages), hours, hours / n, lost, failed and not lost)


def _stream(*parts: str) -> np.random.Generator:
    return np.random.default_rng(int(hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32], 16))
