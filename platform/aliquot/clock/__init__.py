"""Time, real and virtual. Every part of the system takes its time from a `Clock`, never from `time.time()`.

A lab's time is Unix seconds as float. A simulated lab runs on a `VirtualClock`, which moves only when it is told to,
so that months pass in seconds and the same seed gives the same history.
"""

from __future__ import annotations

import time
from typing import Protocol

EPOCH = 1_767_225_600.0
"""Where virtual time begins unless told otherwise: 2026-01-01 00:00 UTC."""
HOUR = 3600.0
DAY = 24 * HOUR


class Clock(Protocol):
    """Lab time."""

    virtual: bool

    def now(self) -> float:
        """Unix seconds."""
        ...

    def wait_until(self, moment: float) -> None:
        """Return once `now() >= moment`: a real clock sleeps, a virtual one jumps."""
        ...


class RealClock:
    """The wall clock."""

    virtual = False

    def now(self) -> float:
        return time.time()

    def wait_until(self, moment: float) -> None:
        while (left := moment - time.time()) > 0:
            time.sleep(min(left, 1.0))


class VirtualClock:
    """Moves only forward, and only by `wait_until`."""

    virtual = True

    def __init__(self, start: float = EPOCH):
        self._now = float(start)

    def now(self) -> float:
        return self._now

    def wait_until(self, moment: float) -> None:
        self._now = max(self._now, float(moment))
