"""Verdicts already given, by (digest of code and configuration, design): the least recently used are forgotten."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from aliquot.domain import Verdict


class VerdictCache:
    """In memory, bounded, shared by as many ladders as one likes. Holds verdicts without errors only."""

    def __init__(self, size: int = 100_000):
        self.size, self.hits, self.misses = size, 0, 0
        self._verdicts: OrderedDict[tuple[str, str], Verdict] = OrderedDict()
        self._lock = Lock()  # campaigns of one server share it, each from a thread of its own

    def get(self, digest: str, key: str) -> Verdict | None:
        """The verdict on the design of this canonical key, as it was given, or None."""
        with self._lock:
            verdict = self._verdicts.get((digest, key))
            if verdict is None:
                self.misses += 1
                return None
            self.hits += 1
            self._verdicts.move_to_end((digest, key))
            return verdict

    def put(self, key: str, verdict: Verdict) -> None:
        """Remember a verdict; one with an error is passed over."""
        if verdict.error is not None:
            return
        with self._lock:
            self._verdicts[verdict.digest, key] = verdict
            while len(self._verdicts) > self.size:
                self._verdicts.popitem(last=False)
