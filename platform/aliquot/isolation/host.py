"""A service: hosted code behind a worker process that is started, watched, replaced and, when it must be, given up.

Always true of `Service.call`: it returns one entry for each item, in order, and raises nothing for what the hosted code
does. An entry is the method's result or a `Failure`. When a batch fails, by an exception, a crash or a deadline, it is
cut in half until the item that does it stands alone; only that item is marked and the others get their results.

Code that is not trusted runs contained, and only where the machine has proven that it can contain it:
`SandboxUnavailable` is the one thing that `call` raises, before any of the code has run. A worker serves one service
and nothing else.

Hosted code with a memory (methods `state` and `restore`) is transactional: the memory is copied out after each batch
that succeeded, and a replaced worker gets the last copy, so a failed batch leaves no trace.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from aliquot.domain import Outcome
from aliquot.isolation.containment import TRUSTED, Containment
from aliquot.isolation.frames import Call, Contain, Load, ProtocolError, Reply, decode_reply, frame, is_json
from aliquot.isolation.launch import MEBIBYTE, Limits
from aliquot.isolation.process import WorkerLost, WorkerProcess
from aliquot.isolation.proving import admit, launcher_for
from aliquot.isolation.watchdog import resident

BATCH_SECONDS = 60.0
"""Longest deadline of one exchange; a batch that may take longer goes in several."""
START_ATTEMPTS = 3
"""Starts in a row that may end in a crash or a timeout before the service is given up."""
DEFAULT_LIMITS = Limits()
LOST_IN_A_ROW = 3
"""Items in a row that may each end the worker before the rest of the batch is left untried."""
QUARANTINE_AFTER = 3
"""Calls in a row in which untrusted code lost its worker and gave nothing, before it is no longer tried."""
CONTAIN_SECONDS = 30.0
"""Longest time a worker may take to start its interpreter and to contain itself."""
LOOK_SECONDS = 0.25
"""Time between two looks at how much memory a worker has."""
ERROR_CHARACTERS = 8000


@dataclass(frozen=True)
class Failure:
    """Why an item has no result. It says nothing of the item's worth."""

    message: str
    """For the author: the item, what happened, the traceback or the last output."""
    outcome: Outcome = Outcome.INFRASTRUCTURE_ERROR


NOT_JSON = Failure("the result is no JSON value: it holds NaN or infinity, bytes, or nests too deep")


class _Failed(Exception):
    """An exchange gave no results."""

    def __init__(self, failure: Failure, lost: bool = False):
        self.failure, self.lost = failure, lost


class Service:
    """Hosted code in one persistent worker process. Not for use by two threads at once.

    Args:
        name: what messages call it.
        target: `package.module:factory` or `/path/file.py:factory`, imported in the worker; `factory(argument)` gives
            a mapping of method names to functions from a list of items to as many results.
        argument: anything msgpack can say.
        startup_seconds: longest time the import and the factory may take.
        recycle_after: batches after which the worker is replaced by a fresh one; None: never. One that has grown by
            half of its memory limit is replaced too.
        containment: what the code is allowed; the default trusts it.
        isolation: `batch` runs each batch in a fresh copy of the loaded worker, so that nothing is remembered.
    """

    def __init__(
        self,
        name: str,
        target: str,
        argument: Any,
        *,
        limits: Limits = DEFAULT_LIMITS,
        startup_seconds: float = 60.0,
        recycle_after: int | None = 1000,
        containment: Containment = TRUSTED,
        isolation: Literal["worker", "batch"] = "worker",
    ):
        self.name = name
        self.controls: tuple[str, ...] = ()
        """Controls proven for the present worker."""
        self.failure: Failure | None = None
        """Set once the code is given up: it raises at import, its worker died `START_ATTEMPTS` times in a row while it
        started, or it is in quarantine."""
        self.starts = 0
        """Worker processes started so far."""
        self.limits, self.startup_seconds, self.recycle_after = limits, startup_seconds, recycle_after
        """May be changed; a worker that runs keeps its limits until it is replaced."""
        self.containment = containment
        self._target, self._argument, self._forking = target, argument, isolation == "batch"
        self._process: WorkerProcess | None = None
        self._worker: int | None = None
        self._size, self._looked = 0, 0.0
        self._lost_calls = 0
        self._memory: Any = None
        self._batches = 0

    @property
    def pid(self) -> int | None:
        """Process id of the live worker, if there is one, as this process sees it."""
        return self._worker

    @property
    def memory(self) -> Any:
        """The hosted memory after the last batch that succeeded; None before the first one."""
        return self._memory

    def restore(self, memory: Any) -> None:
        """Begin from a memory that `memory` gave, in a fresh worker."""
        self._stop()
        self._memory = memory

    def call(
        self,
        method: str,
        items: Sequence[Any],
        *,
        seconds: float,
        describe: Callable[[Any], str] = repr,
        remembers: bool = False,
    ) -> list[Any]:
        """Run a method on items.

        Args:
            seconds: longest time one item may take; a batch has as many times that, cut at `BATCH_SECONDS`.
            describe: how messages name an item.
            remembers: the method changes the hosted memory.

        Returns:
            For each item, in order, the method's result or a `Failure`.

        Raises:
            SandboxUnavailable: the code is not trusted, and this machine cannot contain it. Nothing of it has run.
        """
        if remembers and self._forking:
            raise ValueError("code with a memory cannot run in a fresh copy for each batch")
        results: list[Any] = [None] * len(items)
        width = max(1, int(BATCH_SECONDS / seconds))
        waiting = deque((i, min(i + width, len(items))) for i in range(0, len(items), width))
        lost, any_lost = 0, False
        while waiting:
            first, last = waiting.popleft()
            try:
                results[first:last] = self._attempt(method, list(items[first:last]), seconds, remembers)
                lost = 0
                continue
            except _Failed as error:
                failed = error
            if self.failure is None and last - first > 1:
                middle = (first + last) // 2
                waiting.extendleft([(middle, last), (first, middle)])
                continue
            results[first:last] = [_about(describe(item), failed.failure) for item in items[first:last]]
            lost, any_lost = lost + 1 if failed.lost else 0, any_lost or failed.lost
            if lost == LOST_IN_A_ROW and self.failure is None:
                untried = Failure(f"not tried: the {lost} items before it each ended the worker of {self.name!r}")
                for first, last in waiting:
                    results[first:last] = [_about(describe(item), untried) for item in items[first:last]]
                break
        fruitless = any_lost and all(isinstance(result, Failure) for result in results)
        self._note_call(fruitless)
        for i, result in enumerate(results):
            if not isinstance(result, Failure) and not is_json(result):
                results[i] = _about(describe(items[i]), NOT_JSON)
        return results

    def close(self) -> None:
        """End the worker. A later call starts a new one."""
        self._stop()

    def release(self) -> None:
        """Try code again that was given up."""
        self.failure, self._lost_calls = None, 0

    def _note_call(self, fruitless: bool) -> None:
        self._lost_calls = self._lost_calls + 1 if fruitless else 0
        if self._lost_calls >= QUARANTINE_AFTER and self.failure is None and not self.containment.trusted:
            about = (
                f"{self.name!r} is in quarantine: {self._lost_calls} calls in a row ended its worker and gave nothing"
            )
            self.failure = Failure(about)

    def _attempt(self, method: str, items: list[Any], seconds: float, remembers: bool) -> list[Any]:
        process = self._ready()
        try:
            if remembers and self._memory is None:
                self._memory = self._run(process, "state", [None], self.startup_seconds)[0]
            results = self._run(process, method, items, seconds * len(items))
            if remembers:
                self._memory = self._run(process, "state", [None], self.startup_seconds)[0]
        except _Failed as failed:
            if remembers or failed.lost:
                self._stop()
            raise
        self._batches += 1
        if self._batches == self.recycle_after or self._has_grown():
            self._stop()
        return results

    def _has_grown(self) -> bool:
        """Whether the worker holds so much more memory than after its start that it must be leaking."""
        if time.monotonic() - self._looked < LOOK_SECONDS or self._worker is None:
            return False
        self._looked = time.monotonic()
        return resident(self._worker) > self._size + self.limits.memory_mb * MEBIBYTE // 2

    def _ready(self) -> WorkerProcess:
        for attempt in range(1, START_ATTEMPTS + 1):
            if self.failure is not None:
                raise _Failed(self.failure)
            if self._process is not None:
                break
            try:
                self._start()
            except _Failed as failed:
                self._stop()
                if attempt == START_ATTEMPTS or not failed.lost:  # what the code raises, it will raise again
                    about = f"{self.name!r} could not be started (attempt {attempt}): {failed.failure.message}"
                    self.failure = Failure(about, failed.failure.outcome)
                    raise _Failed(self.failure) from None
        assert self._process is not None
        return self._process

    def _start(self) -> None:
        try:
            launcher = launcher_for(self.containment, self._target, self.limits)
            process = self._process = WorkerProcess(launcher, self.limits)
        except OSError as error:
            raise _Failed(Failure(f"no process could be started: {error}"), lost=True) from None
        self.starts, self._batches = self.starts + 1, 0
        seconds = self.startup_seconds
        walls = process.launch.walls
        contain = Contain(secrets.randbits(63), self.limits, walls, self._forking, CONTAIN_SECONDS)
        said = self._exchange(process, contain, CONTAIN_SECONDS).controls
        try:
            self._worker, seen = admit(process, said)
        except BaseException:
            self._stop()
            raise
        self.controls = (*process.controls, *seen, *said)
        self._exchange(process, Load(secrets.randbits(63), self._target, self._argument, seconds), seconds)
        self._size, self._looked = resident(self._worker), time.monotonic()
        if self._memory is not None:
            self._run(process, "restore", [self._memory], seconds)

    def _run(self, process: WorkerProcess, method: str, items: list[Any], seconds: float) -> list[Any]:
        reply = self._exchange(process, Call(secrets.randbits(63), method, items, seconds), seconds)
        if len(reply.items) != len(items):
            raise _Failed(Failure(f"the worker sent {len(reply.items)} results for {len(items)} items"), lost=True)
        return reply.items

    def _exchange(self, process: WorkerProcess, request: Contain | Load | Call, seconds: float) -> Reply:
        try:
            reply = decode_reply(process.exchange(frame(request), seconds))
        except WorkerLost as lost:
            outcome = Outcome.TIMED_OUT if lost.timed_out else Outcome.INFRASTRUCTURE_ERROR
            raise _Failed(Failure(str(lost), outcome), lost=True) from None
        except ProtocolError as error:  # our own request is too long: nothing was sent, the worker is well
            raise _Failed(Failure(str(error))) from None
        except (msgspec.MsgspecError, RecursionError) as error:
            raise _Failed(Failure(f"the worker sent a malformed reply: {error}"), lost=True) from None
        if reply.nonce != request.nonce:
            raise _Failed(Failure("the worker answered another request"), lost=True)
        if reply.error:
            raise _Failed(Failure(reply.error[-ERROR_CHARACTERS:].strip()), lost=reply.spent)
        return reply

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = self._worker = None


def _about(item: str, failure: Failure) -> Failure:
    return Failure(f"{item[:200]}: {failure.message}", failure.outcome)
