"""A proposed program in a process of its own, asked one call at a time. The side that knows what is wanted.

Always true: nothing that the program sends is more than data here: one line of JSON, at most `ANSWER_BYTES` of it, with
the number of the question. How a program ends is told apart from how the machine fails: a program that is slow by its
own doing (processor time, sleep, or not reading) is `late`, while one that could not run because the machine was busy,
or could not be confined, raises here and becomes no score. No program can make itself a failure of the machine, which
would spare it its zero.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aliquot.isolation import landlock
from aliquot.verifiers.builtin.general import confinement, python_child

ANSWER_BYTES = 64 * 1024
"""Longest answer to one call."""
START_SECONDS = 20.0
"""Longest time the bare interpreter may take to be ready."""
PULSE = 0.05
"""Seconds between looks at the program's clock."""
IDLE = 2.0
"""How many times its processor time a program may wait or sleep, and a second more."""
STARVED = 20.0
"""How many times its processor time a program may wait for a busy machine, and `START_SECONDS` more."""


class Unanswered(Exception):
    """The program gave no answer to a call; `how` is `raised`, `no value`, `late`, `died` or `garbled`."""

    def __init__(self, how: str):
        super().__init__(how)
        self.how = how


class PythonProcess:
    """One confined interpreter. A context manager; ended for good by the first answer that is late, missing or garbled.

    Args:
        memory_mb: its address space, MiB.
        seconds: processor time after which the kernel ends it, whatever it is doing.

    Raises:
        RuntimeError: this machine cannot confine it, or it did not come up.
        OSError: no process could be started.
    """

    def __init__(self, memory_mb: int, seconds: int):
        answers, write_end = os.pipe()
        self._answers, self._held, self.ended = answers, b"", False
        self.spent = 0.0
        """Seconds that answered calls have cost: of a processor, or asleep at the rate of `IDLE` to one."""
        script, walls, confine = (str(Path(str(m.__file__))) for m in (python_child, landlock, confinement))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-s", "-P", "-B", script, str(write_end), walls, confine],
                env={"PYTHONHASHSEED": "0", "LANG": "C.UTF-8"},
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(write_end,),
                bufsize=0,
            )
        except OSError:
            os.close(answers)
            raise
        finally:
            os.close(write_end)
        assert self._process.stdin is not None
        self._requests = self._process.stdin.fileno()
        os.set_blocking(self._requests, False)
        self._clock = (~self._process.pid << 3) | 2  # of another process, as the kernel numbers it
        settings = {"readable": _readable(), "memory_mb": memory_mb, "seconds": seconds, "parent": os.getpid()}
        try:
            said = self._exchange(settings, START_SECONDS, STARVED * START_SECONDS)
        except Unanswered as unanswered:
            self.close()
            raise RuntimeError(f"the interpreter for a proposed program did not come up: it {unanswered.how}") from None
        if said != {"ready": True}:
            self.close()
            why = said.get("unconfined") if isinstance(said, dict) else said
            raise RuntimeError(f"this machine cannot confine a proposed program, so none is run: {why}")

    def load(self, program: str, entry: str, seconds: float) -> None:
        """Run the program's top level. Raises `Unanswered`; `no entry` when it defines no such function."""
        if self._ask({"program": program, "entry": entry}, seconds) is not True:
            raise Unanswered("no entry")

    def call(self, entry: str, arguments: list[Any], keywords: dict[str, Any], seconds: float) -> Any:
        """The JSON value that a call gives.

        Raises:
            Unanswered: it gives none.
            TimeoutError: the machine was too busy to let it run.
        """
        return self._ask({"entry": entry, "arguments": arguments, "keywords": keywords}, seconds)

    def close(self) -> None:
        """End it. Does nothing the second time."""
        if self.ended:
            return
        self.ended = True
        self._process.kill()  # it can have no children
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        os.close(self._answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _ask(self, request: dict[str, Any], seconds: float) -> Any:
        number = secrets.token_hex(8)
        try:
            said = self._exchange({"number": number, **request}, seconds, STARVED * seconds + START_SECONDS)
        except (Unanswered, TimeoutError):
            self.close()
            raise
        if not isinstance(said, dict) or said.pop("number", None) != number or self._held:
            self.close()
            raise Unanswered("garbled")
        if "value" in said:
            return said["value"]
        raise Unanswered("no value" if said.get("failed") == "no value" else "raised")

    def _exchange(self, request: dict[str, Any], seconds: float, patience: float) -> Any:
        """Send a line and take one; `seconds` are the program's, `patience` is with the machine."""
        outgoing = memoryview(json.dumps(request).encode() + b"\n")
        begun, used, waited = time.monotonic(), self._processor_time(), _waiting_time(self._process.pid)
        busy = own = 0.0
        while b"\n" not in self._held:
            writers = [self._requests] if outgoing else []
            readable, writable, _ = select.select([self._answers], writers, [], PULSE)
            if writable:
                outgoing = self._push(outgoing)
            if readable:
                part = os.read(self._answers, 65536)
                if not part:
                    raise Unanswered("died")
                self._held += part
                if len(self._held) > ANSWER_BYTES:
                    raise Unanswered("garbled")
            passed = time.monotonic() - begun
            busy = self._processor_time() - used
            own = passed - (_waiting_time(self._process.pid) - waited)
            if busy > seconds or own > IDLE * seconds + 1:
                raise Unanswered("late")
            if passed > patience:
                raise TimeoutError(f"the machine was too busy: {passed:.0f} s passed without {seconds:g} s to run in")
        self.spent += max(0.0, busy, own / IDLE)
        line, _, self._held = self._held.partition(b"\n")
        try:
            return json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise Unanswered("garbled") from None

    def _push(self, outgoing: memoryview) -> memoryview:
        try:
            return outgoing[os.write(self._requests, outgoing[:4096]) :]
        except BlockingIOError:
            return outgoing
        except BrokenPipeError:  # the end of its answers will say so
            return memoryview(b"")

    def _processor_time(self) -> float:
        """Seconds of a processor that it has used; 0 once it is gone."""
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            return 0.0


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _waiting_time(pid: int) -> float:
    """Seconds that a process was ready to run and did not get a processor; 0 where the kernel does not count them."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _readable() -> list[str]:
    """Folders of the standard library and of the system's own libraries."""
    paths = sysconfig.get_paths()
    library = Path(sys.base_prefix) / "lib"
    return [paths["stdlib"], str(library / Path(paths["stdlib"]).name), *("/usr/lib", "/lib", "/lib64", "/usr/lib64")]
