"""Positive and negative controls: designs whose score is known, judged before a campaign and every so many hours in it.

Always true: a control is judged by the worker that judges the campaign, past the cache; no memory is changed by it and
nothing is counted. A control that fails, that gets an error, or that is not answered in time, is a problem; whether a
verifier is broken is decided by whoever reads it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from aliquot.domain import Design, Noun, Verdict
from aliquot.verifiers.ladder import VerifierLadder
from aliquot.verifiers.sdk import Control
from aliquot.verifiers.stage import Stage, Ticket

PULSE = 1.0
"""Seconds between two questions to a slow verifier."""


class ControlProblem(Noun):
    """One control that did not hold."""

    verifier: str
    version: str
    digest: str
    design: Design
    kind: Literal["breach", "error", "unanswered"]
    """breach: another score than the known one; error: no score at all; unanswered: a slow one still owes it."""
    message: str
    """What came, what is right, and what to do."""


def run_controls(
    ladder: VerifierLadder, *, patience: float = 600.0, sleep: Callable[[float], None] = time.sleep
) -> list[ControlProblem]:
    """Judge every control of every stage.

    Args:
        patience: longest time to wait for slow verifiers, seconds, all together.

    Returns:
        What did not hold; empty: all is well, or no verifier declares controls.

    Raises:
        SandboxUnavailable: as the ladder itself.
    """
    problems: list[ControlProblem] = []
    until = time.monotonic() + patience
    for stage in ladder.stages:
        if controls := list(stage.said.controls):
            verdicts = _judged(ladder, stage, controls, until, sleep)
            problems += [p for pair in zip(controls, verdicts, strict=True) if (p := _problem(stage, *pair))]
    return problems


def _judged(
    ladder: VerifierLadder, stage: Stage, controls: list[Control], until: float, sleep: Callable[[float], None]
) -> list[Verdict | Ticket]:
    designs = [control.design for control in controls]
    if stage.style == "set":
        with ladder.forgetting(stage):
            return [answer for design in designs for answer in stage.ask([design])]
    answers = stage.ask(designs)
    while waiting := [i for i, answer in enumerate(answers) if isinstance(answer, Ticket)]:
        said = stage.look([designs[i] for i in waiting], [str(answers[i]) for i in waiting])
        for i, answer in zip(waiting, said, strict=True):
            answers[i] = answer
        if not any(isinstance(answer, Ticket) for answer in said) or time.monotonic() >= until:
            break
        sleep(PULSE)
    return answers


def _problem(stage: Stage, control: Control, answer: Verdict | Ticket) -> ControlProblem | None:
    about = {"verifier": stage.name, "version": stage.version, "digest": stage.digest, "design": control.design}
    if isinstance(answer, Ticket):
        message = f"{control.design.text}: no answer to ticket {answer} yet; see whether its jobs run at all"
        return ControlProblem(**about, kind="unanswered", message=message)
    if answer.error is not None:
        return ControlProblem(**about, kind="error", message=answer.error.message)
    assert answer.score is not None and answer.accepted is not None
    if breach := control.breach(answer.score, answer.accepted):
        message = (
            f"{control.design.text}: {stage.name} {breach}. Its model, data or licence may be gone, or its "
            "configuration is another than its controls are for; believe nothing that it says until they hold"
        )
        return ControlProblem(**about, kind="breach", message=message)
    return None
