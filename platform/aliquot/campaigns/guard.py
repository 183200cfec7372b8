"""The boundary to a lab adapter: whatever an adapter raises becomes a `LabError`, with the method that raised it.

An adapter is somebody's code about somebody's machine. A campaign that runs for weeks must be able to say what went
wrong there and go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

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
        return self._ask(self._adapter.describe)

    def quote(self, design: Design, assays: Sequence[str]) -> Quote:
        return self._ask(self._adapter.quote, design, assays)

    def submit(self, submission: Submission) -> None:
        return self._ask(self._adapter.submit, submission)

    def results(self, since: str) -> Page:
        return self._ask(self._adapter.results, since)

    def reconcile(self, keys: Sequence[str]) -> dict[str, LabStatus]:
        return self._ask(self._adapter.reconcile, keys)

    def health(self) -> Health:
        return self._ask(self._adapter.health)

    def next_event_at(self) -> float | None:
        """None, too, when the lab cannot say."""
        try:
            return self._ask(self._adapter.next_event_at)
        except LabError:
            return None

    def close(self) -> None:
        self._ask(self._adapter.close)

    def _ask(self, method: Callable[..., T], *args: object) -> T:
        try:
            return method(*args)
        except LabError:
            raise
        except Exception as error:  # the author's code: whatever it raises becomes a typed error here
            name = f"{type(self._adapter).__name__}.{method.__name__}"
            raise LabError(f"{name} raised {type(error).__name__}: {error}") from error
