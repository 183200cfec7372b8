"""The boundary to a lab adapter: whatever it raises, or answers amiss, becomes a `LabError` that names the method.

An adapter is somebody's code about somebody's machine. A campaign that runs for weeks must be able to say what went
wrong there and go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from aliquot.domain import Design
from aliquot.lab_adapters import LabAdapter
from aliquot.lab_adapters.sdk import (
    Health,
    LabDescription,
    LabError,
    LabStatus,
    Page,
    Quote,
    Submission,
)

T = TypeVar("T")


class GuardedLab:
    """A lab adapter whose methods raise nothing but `LabError`."""

    def __init__(self, adapter: LabAdapter):
        self._adapter = adapter

    def describe(self) -> LabDescription:
        return self._ask(LabDescription, self._adapter.describe)

    def quote(self, design: Design, assays: Sequence[str]) -> Quote:
        return self._ask(Quote, self._adapter.quote, design, assays)

    def submit(self, submission: Submission) -> None:
        self._ask(object, self._adapter.submit, submission)

    def results(self, since: str) -> Page:
        return self._ask(Page, self._adapter.results, since)

    def reconcile(self, keys: Sequence[str]) -> dict[str, LabStatus]:
        return self._ask(dict, self._adapter.reconcile, keys)

    def health(self) -> Health:
        return self._ask(Health, self._adapter.health)

    def next_event_at(self) -> float | None:
        """None, too, when the lab cannot say."""
        try:
            at = self._adapter.next_event_at
            return self._ask((int, float, type(None)), at)
        except LabError:
            return None

    def close(self) -> None:
        self._ask(object, self._adapter.close)

    def _ask(self, kind: Any, method: Callable[..., T], *args: object) -> T:
        try:
            answer = method(*args)
        except LabError:
            raise
        except (Exception, SystemExit) as error:  # the author's code: whatever it raises becomes a typed error here
            name = f"{type(self._adapter).__name__}.{method.__name__}"
            raise LabError(f"{name} raised {type(error).__name__}: {error}") from error
        if not isinstance(answer, kind):
            wanted = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
            raise LabError(
                f"{type(self._adapter).__name__}.{method.__name__} gave {type(answer).__name__}, not {wanted}"
            )
        return answer
