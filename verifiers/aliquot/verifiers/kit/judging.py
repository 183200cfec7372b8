"""What the checks share: how verdicts are compared, and how a finding is put into words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from aliquot.domain import Design, Outcome, Verdict
from aliquot.verifiers.kit.report import Finding

SHOWN = 5
"""Examples told of one finding."""
LOST = ("the worker died", "broke the protocol", "no answer within", "not tried", "out of memory", "MemoryError")
"""What the message of an item says that ended its worker, rather than raising."""


@dataclass(frozen=True)
class Settings:
    """How thoroughly to look."""

    rounds: int = 20
    """Batches for the memory check."""
    examples: int = 200
    """Designs that Hypothesis makes, for each kind."""
    ordinary: int = 24
    """Ordinary designs in a batch."""
    seed: int = 0


QUICK = Settings(rounds=8, examples=25, ordinary=10)


def passed(check: str, why: str, **details: JsonValue) -> Finding:
    return Finding(check=check, status="pass", why=why, details=details)


def failed(check: str, why: str, **details: JsonValue) -> Finding:
    return Finding(check=check, status="fail", why=why, details=details)


def skipped(check: str, why: str) -> Finding:
    return Finding(check=check, status="skip", why=why)


def told(check: str, wrong: Sequence[str], right: str, **details: JsonValue) -> Finding:
    """Failed with what is wrong, or passed when nothing is."""
    if not wrong:
        return passed(check, right, **details)
    more = f"\n(and {len(wrong) - SHOWN} more)" if len(wrong) > SHOWN else ""
    return failed(check, "\n".join(wrong[:SHOWN]) + more, **details)


def same(one: Verdict, other: Verdict) -> bool:
    """Whether two verdicts say the same. Of errors only that there is one: their text may hold line numbers."""
    if one.error is not None or other.error is not None:
        return (one.error is None) == (other.error is None)
    return _said(one) == _said(other)


def difference(design: Design, one: Verdict, other: Verdict, first: str, second: str) -> str:
    return f"{shown(design)}: {first} {words(one)}, {second} {words(other)}"


def lost(verdict: Verdict) -> bool:
    """Whether this item ended its worker: a crash, a hang, all the memory. An exception of its own does not."""
    error = verdict.error
    if error is None:
        return False
    return error.outcome is Outcome.TIMED_OUT or any(sign in error.message for sign in LOST)


def shown(design: Design, length: int = 60) -> str:
    text = design.text
    return repr(text if len(text) <= length else f"{text[:length]}… ({len(text)} characters)")


def words(verdict: Verdict, length: int = 160) -> str:
    if verdict.error is not None:
        return f"an error ({last_line(verdict.error.message)[:length]})"
    reason = f", {verdict.reason!r}" if verdict.reason else ""
    return f"{verdict.score!r} ({'accepted' if verdict.accepted else 'refused'}{reason[:length]})"


def last_line(message: str) -> str:
    """The line of a traceback that says what was raised."""
    lines = [line for line in message.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def nothing_judged(verdicts: Iterable[tuple[Design, Verdict]]) -> str:
    """What to say where no design got a score."""
    design, verdict = next(iter(verdicts))
    message = verdict.error.message if verdict.error else ""
    return f"no design at all was judged; declare fixtures that can be. {shown(design)}: {last_line(message)}"


def _said(verdict: Verdict) -> tuple[Any, ...]:
    return verdict.score, verdict.accepted, verdict.reason, verdict.values
