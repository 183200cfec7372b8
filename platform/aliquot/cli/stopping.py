"""Ctrl-C once: stop in good order. Twice: stop at once. A third time the system's own way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SAID = "Stopping after this round, with everything saved. Ctrl-C again stops at once."


@contextmanager
def stopping(say: Callable[[str], None]) -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; the second raises `KeyboardInterrupt`. Main thread only."""
    event, signals = threading.Event(), (signal.SIGINT, signal.SIGTERM)

    def handle(number: int, _frame: FrameType | None) -> None:
        if event.is_set():
            signal.signal(number, signal.SIG_DFL)
            raise KeyboardInterrupt
        event.set()
        # From a thread of its own: the signal may have come in the midst of a write to the same stream.
        threading.Thread(target=say, args=(SAID,), daemon=True).start()

    before = {number: signal.signal(number, handle) for number in signals}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
