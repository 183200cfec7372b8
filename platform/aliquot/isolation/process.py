"""One live worker process, seen from the supervisor: send a request, wait for its reply under a deadline, kill it.

Always true: a `WorkerProcess` that raised `WorkerLost` is dead, its whole process group or namespace with it, and all
that it held is given back. What it prints is drained while we wait, so it can neither block on us nor fill our memory:
the last `OUTPUT_BYTES` are kept. A reply that nobody asked for ends the worker. A trusted worker is not tied to the
life of the thread that started it; a contained one is tied to a thread that lasts as long as the process.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time

from aliquot.isolation import watchdog
from aliquot.isolation.frames import HEADER, MAX_FRAME, ProtocolError, unframe, weigh
from aliquot.isolation.launch import Launch, Launcher, Limits
from aliquot.isolation.spawning import in_lasting_thread

OUTPUT_BYTES = 64 * 1024
"""How much of a worker's latest output is kept."""
PULSE = 0.05
"""Seconds between looks at whether a silent worker still lives (its own children may hold the pipe open)."""
CHUNK = 64 * 1024
LAST_WORDS = 0.5
"""Seconds that a sandbox has to say how its worker ended."""


class WorkerLost(Exception):
    """The worker died, ran past its deadline, or broke the protocol, and has been killed."""

    def __init__(self, message: str, timed_out: bool = False):
        super().__init__(message)
        self.timed_out = timed_out


class WorkerProcess:
    """One worker. Not for use by two threads at once.

    Raises:
        OSError: the system will not start a process.
        SandboxUnavailable: the launcher cannot contain it.
    """

    def __init__(self, launcher: Launcher, limits: Limits):
        self._limits = limits
        self._replies, reply_end = os.pipe()
        self._output, output_end = os.pipe()
        self._printed = bytearray()
        self._watch: watchdog.Watched | None = None
        try:
            self.launch = launcher(reply_end)
            try:
                self._process = self._spawn(self.launch, reply_end, output_end)
            except BaseException:
                self.launch.held.close()
                raise
        except BaseException:
            os.close(self._replies)
            os.close(self._output)
            raise
        finally:
            os.close(reply_end)
            os.close(output_end)
        assert self._process.stdin is not None
        self._requests = self._process.stdin.fileno()
        os.set_blocking(self._requests, False)
        self._poll = select.poll()
        self._poll.register(self._replies, select.POLLIN)
        self._poll.register(self._output, select.POLLIN)
        if self.launch.walls is not None and "cgroup_memory" not in self.launch.controls:
            self._watch = watchdog.watch(self._process, limits.group_mb)

    @property
    def pid(self) -> int:
        """The process that we started: the worker, or the sandbox around it."""
        return self._process.pid

    @property
    def controls(self) -> tuple[str, ...]:
        """Controls that hold by the way it was started."""
        return (*self.launch.controls, *(("watchdog_memory",) if self._watch else ()))

    def exchange(self, request: bytes, seconds: float) -> bytes:
        """Send one frame and wait for the payload of the answer.

        Raises:
            WorkerLost: no whole answer came within `seconds`, or the worker died, or what it sent is no frame.
        """
        if self._replies < 0:
            raise WorkerLost("the worker has ended already")
        self._printed.clear()
        try:
            payload = self._converse(memoryview(request), time.monotonic() + seconds)
            weigh(payload)
            if self._watch is not None:
                self._watch.settled = True  # it has spoken, so it is where it belongs
            return payload
        except TimeoutError:
            self.kill()
            raise WorkerLost(f"no answer within {seconds:g} s{self._tail()}", timed_out=True) from None
        except EOFError:
            if self.launch.lasting:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(LAST_WORDS)
            full = self._ran_out_of_memory()
            self.kill()
            raise WorkerLost(f"the worker died ({full or self._cause_of_death()}){self._tail()}") from None
        except ProtocolError as error:
            self.kill()
            raise WorkerLost(f"the worker broke the protocol: {error}{self._tail()}") from None

    def kill(self) -> None:
        """End the process group, or the whole namespace, and release what it held. Does nothing the second time."""
        if self._replies < 0:
            return
        if self._watch is not None:
            self._watch.stop()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.set_blocking(self._output, False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(OUTPUT_BYTES // CHUNK + 1):  # a survivor may print without end
                if not self._drain():
                    break
        assert self._process.stdin is not None
        self._process.stdin.close()
        os.close(self._replies)
        os.close(self._output)
        self._replies = -1
        self.launch.held.close()

    @staticmethod
    def _spawn(launch: Launch, reply_end: int, output_end: int) -> subprocess.Popen[bytes]:
        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                launch.argv,
                env=launch.environment,
                cwd=launch.directory,
                stdin=subprocess.PIPE,
                stdout=reply_end if launch.replies_on_output else output_end,
                stderr=output_end,
                pass_fds=launch.descriptors if launch.replies_on_output else (reply_end, *launch.descriptors),
                start_new_session=True,
                bufsize=0,
            )

        return in_lasting_thread(start) if launch.lasting else start()

    def _converse(self, outgoing: memoryview, deadline: float) -> bytes:
        """Raises `TimeoutError`, `EOFError` or `ProtocolError`; leaves the killing to its caller."""
        for descriptor, event in self._poll.poll(0):
            if descriptor == self._replies and event & select.POLLIN:
                raise ProtocolError("it sent a reply that nobody had asked for")
        outgoing = self._push(outgoing)
        waiting = bool(outgoing)
        if waiting:
            self._poll.register(self._requests, select.POLLOUT)
        incoming = bytearray()
        try:
            while (left := deadline - time.monotonic()) > 0:
                ready = dict(self._poll.poll(1000 * min(left, PULSE)))
                if not ready and self._process.poll() is not None:
                    raise EOFError
                if self._requests in ready and waiting:
                    outgoing = self._push(outgoing)
                    if not outgoing:
                        self._poll.unregister(self._requests)
                        waiting = False
                if self._output in ready and not self._drain():
                    self._poll.unregister(self._output)
                if self._replies in ready:
                    part = os.read(self._replies, CHUNK)
                    if not part:
                        raise EOFError
                    incoming += part
                    if len(incoming) > HEADER + MAX_FRAME + CHUNK:
                        raise ProtocolError("more than a frame was sent")
                    if (payload := unframe(incoming)) is not None:
                        return payload
        finally:
            if waiting:
                self._poll.unregister(self._requests)
        raise TimeoutError

    def _push(self, outgoing: memoryview) -> memoryview:
        try:
            return outgoing[os.write(self._requests, outgoing[:CHUNK]) :]
        except BlockingIOError:
            return outgoing
        except BrokenPipeError:  # it died; the end of its replies will say so
            return memoryview(b"")

    def _drain(self) -> int:
        part = os.read(self._output, CHUNK)
        self._printed += part
        del self._printed[:-OUTPUT_BYTES]
        return len(part)

    def _ran_out_of_memory(self) -> str:
        group = self.launch.group
        if (group and group.killed_for_memory()) or (self._watch and self._watch.exceeded):
            return f"its processes took more than {self._limits.group_mb} MiB together"
        return ""

    def _cause_of_death(self) -> str:
        code = self._process.returncode
        if self.launch.lasting and code > 128:  # a sandbox says it as a shell does
            code = 128 - code
        if code >= 0:
            return f"exit code {code}"
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"

    def _tail(self) -> str:
        text = self._printed.decode(errors="replace").strip()
        return f"; its last output:\n{text[-2000:]}" if text else ""
