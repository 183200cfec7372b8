"""One live worker process, seen from the supervisor: send a request, wait for its reply under a deadline, kill it.

Always true: a `WorkerProcess` that raised `WorkerLost` is dead, its whole process group with it, and its descriptors
are closed. What it prints is drained while we wait, so it can neither block on us nor fill our memory: the last
`OUTPUT_BYTES` are kept. No thread is started; the process is not tied to the life of the thread that started it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time

from aliquot.isolation.frames import ProtocolError, unframe
from aliquot.isolation.launch import launch_recipe

OUTPUT_BYTES = 64 * 1024
"""How much of a worker's latest output is kept."""
PULSE = 0.05
"""Seconds between looks at whether a silent worker still lives (its own children may hold the pipe open)."""
CHUNK = 64 * 1024


class WorkerLost(Exception):
    """The worker died, ran past its deadline, or broke the protocol, and has been killed."""

    def __init__(self, message: str, timed_out: bool = False):
        super().__init__(message)
        self.timed_out = timed_out


class WorkerProcess:
    """One worker. Not for use by two threads at once. Raises `OSError` when the system will not start a process."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="aliquot-worker-", ignore_cleanup_errors=True)
        self._replies, reply_end = os.pipe()
        self._output, output_end = os.pipe()
        recipe = launch_recipe(reply_end, self._scratch.name)
        self.controls = recipe.controls
        self._printed = bytearray()
        try:
            self._process = subprocess.Popen(
                recipe.argv,
                env=recipe.environment,
                cwd=recipe.directory,
                stdin=subprocess.PIPE,
                stdout=output_end,
                stderr=output_end,
                pass_fds=(reply_end,),
                start_new_session=True,
                bufsize=0,
            )
        except OSError:
            os.close(self._replies)
            os.close(self._output)
            raise
        finally:
            os.close(reply_end)
            os.close(output_end)
        assert self._process.stdin is not None
        self._requests = self._process.stdin.fileno()
        os.set_blocking(self._requests, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def exchange(self, request: bytes, seconds: float) -> bytes:
        """Send one frame and wait for the payload of the answer.

        Raises:
            WorkerLost: no whole answer came within `seconds`, or the worker died, or what it sent is no frame.
        """
        self._printed.clear()
        try:
            return self._converse(memoryview(request), time.monotonic() + seconds)
        except TimeoutError:
            self.kill()
            raise WorkerLost(f"no answer within {seconds:g} s{self._tail()}", timed_out=True) from None
        except EOFError:
            self.kill()
            raise WorkerLost(f"the worker died ({self._cause_of_death()}){self._tail()}") from None
        except ProtocolError as error:
            self.kill()
            raise WorkerLost(f"the worker broke the protocol: {error}{self._tail()}") from None

    def kill(self) -> None:
        """End the process group and release what it held. Does nothing the second time."""
        if self._replies < 0:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.set_blocking(self._output, False)
        with contextlib.suppress(BlockingIOError):
            while self._drain():
                pass
        assert self._process.stdin is not None
        self._process.stdin.close()
        os.close(self._replies)
        os.close(self._output)
        self._replies = -1
        self._scratch.cleanup()

    def _converse(self, outgoing: memoryview, deadline: float) -> bytes:
        """Raises `TimeoutError`, `EOFError` or `ProtocolError`; leaves the killing to its caller."""
        incoming = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._requests, selectors.EVENT_WRITE)
            selector.register(self._output, selectors.EVENT_READ)
            selector.register(self._replies, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                ready = {key.fd for key, _ in selector.select(min(left, PULSE))}
                if not ready and self._process.poll() is not None:
                    raise EOFError
                if self._requests in ready:
                    outgoing = self._push(outgoing)
                    if not outgoing:
                        selector.unregister(self._requests)
                if self._output in ready and not self._drain():
                    selector.unregister(self._output)
                if self._replies in ready:
                    part = os.read(self._replies, CHUNK)
                    if not part:
                        raise EOFError
                    incoming += part
                    if (payload := unframe(incoming)) is not None:
                        return payload
        raise TimeoutError

    def _push(self, outgoing: memoryview) -> memoryview:
        try:
            return outgoing[os.write(self._requests, outgoing[:CHUNK]) :]
        except BrokenPipeError:  # it died; the end of its replies will say so
            return memoryview(b"")

    def _drain(self) -> int:
        part = os.read(self._output, CHUNK)
        self._printed += part
        del self._printed[:-OUTPUT_BYTES]
        return len(part)

    def _cause_of_death(self) -> str:
        code = self._process.returncode
        if code >= 0:
            return f"exit code {code}"
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"

    def _tail(self) -> str:
        text = self._printed.decode(errors="replace").strip()
        return f"; its last output:\n{text[-2000:]}" if text else ""
