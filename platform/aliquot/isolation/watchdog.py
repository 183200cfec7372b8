"""The limit of a worker's memory where the kernel offers no control group: a thread of ours that looks, and kills.

Always true: every `PULSE` seconds the memory of all processes in a watched worker is added up, shared pages once, with
what lies in its file systems in memory; a worker above its limit is killed. Between two looks it may take more, so this
is weaker than a control group, and has to be allowed by the operator.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

PULSE = 0.05
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
INODE = 1024
"""Bytes of kernel memory that a file costs, empty or not."""
MEBIBYTE = 2**20
KERNEL_LISTS_CHILDREN = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
FILE_SYSTEMS = ("tmp", "dev/shm")


class Watched:
    """One worker under watch, until `stop`."""

    def __init__(self, process: subprocess.Popen[bytes], limit: int):
        self.process, self.limit = process, limit
        self.exceeded = False
        self.settled = False
        """Whether it is known to be in its own file system by now; before that, it still sees ours."""

    def stop(self) -> None:
        with _lock:
            _watched.discard(self)

    def look(self) -> None:
        """Kill it if it takes too much."""
        pids = descendants(self.process.pid)
        files = _files(pids) if self.settled else 0
        if sum(map(resident, pids)) + files > self.limit and sum(map(_proportional, pids)) + files > self.limit:
            self.exceeded = True
            self.process.send_signal(signal.SIGKILL)


_watched: set[Watched] = set()
_lock = threading.Lock()
_thread: threading.Thread | None = None


def watch(process: subprocess.Popen[bytes], memory_mb: int) -> Watched:
    """Begin to watch a sandbox and everything below it."""
    global _thread
    watched = Watched(process, memory_mb * MEBIBYTE)
    with _lock:
        _watched.add(watched)
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_patrol, daemon=True, name="aliquot memory watch")
            _thread.start()
    return watched


def descendants(pid: int) -> list[int]:
    """All processes below one, orphans that its namespace adopted included."""
    found, waiting = [], [pid]
    while waiting:
        children = children_of(waiting.pop())
        found += children
        waiting += children
    return found


def children_of(pid: int) -> list[int]:
    """Direct children of all threads of a process; none when it is gone."""
    if not KERNEL_LISTS_CHILDREN:
        return [int(child) for child in os.listdir("/proc") if child.isdigit() and _parent(child) == pid]
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def _parent(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def resident(pid: int) -> int:
    """Resident memory of one process, bytes; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError, ValueError):
        return 0


def _patrol() -> None:
    while True:
        time.sleep(PULSE)
        with _lock:
            watched = list(_watched)
        for one in watched:
            with contextlib.suppress(OSError, ValueError):
                one.look()


def _proportional(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, IndexError, ValueError):
        pass
    return 0


def _files(pids: list[int]) -> int:
    """What lies in the worker's file systems in memory. Nothing in them is opened."""
    if not pids:
        return 0
    taken = 0
    for name in FILE_SYSTEMS:
        with contextlib.suppress(OSError):
            usage = os.statvfs(f"/proc/{pids[0]}/root/{name}")
            taken += (usage.f_blocks - usage.f_bfree) * usage.f_frsize + (usage.f_files - usage.f_ffree) * INODE
    return taken


def _after_fork() -> None:
    global _lock, _thread
    _watched.clear()
    _lock, _thread = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
