"""The canary: hosted code that tries to get out of its sandbox, so that the doctor need not believe that it cannot.

Runs only in a worker. Each probe does what a hostile plugin would do first and says what came of it; it must be refused
to hold. What must be done from outside, the doctor does.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from aliquot.isolation.seccomp import ARGUED, DENIED

Probe = Callable[[dict[str, Any]], str]
"""Gives the empty text when it was refused everything, else what succeeded."""
WRITE_BYTES = 2**20
NEW_USER_NAMESPACE = 0x10000000
HOLD_SECONDS = 2.0


def factory(argument: dict[str, Any]) -> dict[str, Callable[[list[str]], list[str]]]:
    """`probe` (items: names in `PROBES`). The argument says what to look for."""
    return {"probe": lambda names: [PROBES[name](argument) for name in names]}


def files_hidden(argument: dict[str, Any]) -> str:
    """Read a file that everybody outside may read, and some that are always there."""
    return _succeeded(open, [argument["marker"], "/etc/passwd", "/etc/shadow", *argument["hidden"]])


def files_read_only(argument: dict[str, Any]) -> str:
    """Write to the root, to programs, to the interpreter's packages, to /dev and to this project's source."""
    folders = ["/", "/usr", "/usr/bin", "/dev", "/proc", os.path.dirname(os.__file__), os.path.dirname(__file__)]
    return _succeeded(lambda path: open(path, "w"), [f"{folder}/canary" for folder in folders])


def sysctls_closed(argument: dict[str, Any]) -> str:
    """Open every setting of the kernel for writing."""
    paths = [os.path.join(top, name) for top, _, names in os.walk("/proc/sys") for name in names]
    paths += ["/proc/sysrq-trigger", "/proc/self/oom_score_adj", "/proc/kmsg", "/dev/kmsg", "/proc/kcore", "/dev/mem"]
    return _succeeded(lambda path: os.close(os.open(path, os.O_WRONLY)), paths)


def environment_hidden(argument: dict[str, Any]) -> str:
    """Look for the supervisor's environment in that of every process in sight."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            if argument["secret"].encode() in file.read():
                found.append(f"process {name}")
    return ", ".join(found)


def descriptors_closed(argument: dict[str, Any]) -> str:
    """Look for descriptors that were left open."""
    count = len(os.listdir("/proc/self/fd")) - 1  # without the listing's own
    return f"{count} descriptors" if count > 5 else ""  # 0, 1, 2, requests and replies


def system_calls_refused(argument: dict[str, Any]) -> str:
    """Make system calls that the filter denies."""
    libc = ctypes.CDLL(None, use_errno=True)
    column = ("x86_64", "aarch64").index(platform.machine())
    found = []
    for name, numbers in DENIED.items():
        if (number := numbers[column]) is not None:
            libc.syscall(*map(ctypes.c_long, (number, 0, 0, 0, 0, 0)))
            if ctypes.get_errno() != errno.EPERM:
                found.append(name)
    if libc.syscall(*map(ctypes.c_long, (ARGUED["clone3"][column], 0, 0))) != -1 or ctypes.get_errno() != errno.ENOSYS:
        found.append("clone3")
    pid = libc.syscall(*map(ctypes.c_long, (ARGUED["clone"][column], NEW_USER_NAMESPACE | signal.SIGCHLD, 0, 0, 0, 0)))
    if pid == 0:
        os._exit(0)
    if pid > 0:
        found.append("clone with a new namespace")
    return ", ".join(found)


def network_closed(argument: dict[str, Any]) -> str:
    """Make sockets of every family but Unix ones, and call a server that listens outside. In gVisor a socket is one of
    its own kernel's, and leads nowhere."""
    found = []
    for family in (f for f in range(1, 46) if f != socket.AF_UNIX and argument["tier"] == "bwrap"):
        with contextlib.suppress(OSError):
            socket.socket(family, socket.SOCK_STREAM).close()
            found.append(f"family {family}")
        with contextlib.suppress(OSError):
            socket.socket(family, socket.SOCK_RAW).close()
            found.append(f"family {family}, raw")
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", argument["port"]), 1).close()
        found.append("a server outside")
    return ", ".join(found)


def own_kernel(argument: dict[str, Any]) -> str:
    """Ask which kernel answers."""
    release = os.uname().release
    return f"the machine's own kernel, {release}" if release == argument["release"] else ""


def scratch_capped(argument: dict[str, Any]) -> str:
    """Write into /tmp and /dev/shm until they are full."""
    found = []
    for folder, cap in (("/tmp", argument["scratch_mb"]), ("/dev/shm", argument["shared_mb"])):
        written = 0
        try:
            for number in range(2 * cap):
                with open(f"{folder}/canary{number}", "wb", buffering=0) as file:
                    written += file.write(bytes(WRITE_BYTES))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        for number in range(2 * cap):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{folder}/canary{number}")
        if written > cap * WRITE_BYTES:
            found.append(f"{written // WRITE_BYTES} MiB in {folder}")
    return ", ".join(found)


def processes_capped(argument: dict[str, Any]) -> str:
    """Fork until it is refused."""
    children = list(_fork(argument["processes"] + 1, lambda: time.sleep(HOLD_SECONDS)))
    _end(children)
    return f"{len(children)} processes" if len(children) > argument["processes"] else ""


def leave_daemon(argument: dict[str, Any]) -> str:
    """Leave a process behind that ignores every signal and has a session of its own. The doctor ends the sandbox."""
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(1)
    os.wait()
    return ""


def memory_capped(argument: dict[str, Any]) -> str:
    """Take more memory than the worker may have, in several processes, each of which may have its part."""
    each = argument["memory_mb"] // 2 * 2**20

    def take() -> None:
        held = bytearray(each)
        held[:: os.sysconf("SC_PAGE_SIZE")] = b"\1" * len(range(0, each, os.sysconf("SC_PAGE_SIZE")))
        time.sleep(HOLD_SECONDS)

    children = list(_fork(4, take))
    if len(children) < 4:
        _end(children)
        return "the processes could not be started"
    while children:
        pid, status = os.wait()
        children = [child for child in children if child != pid]
        if os.waitstatus_to_exitcode(status) == -signal.SIGKILL:
            _end(children)
            return ""
    return f"4 processes took {4 * each // 2**20} MiB"


PROBES: dict[str, Probe] = {
    probe.__name__: probe
    for probe in (
        files_hidden, files_read_only, sysctls_closed, environment_hidden, descriptors_closed, system_calls_refused,
        network_closed, own_kernel, scratch_capped, processes_capped, leave_daemon, memory_capped,
    )
}  # fmt: skip


def _succeeded(attempt: Callable[[str], Any], paths: list[str]) -> str:
    """The paths with which an attempt was not refused."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            if (opened := attempt(path)) is not None:
                opened.close()
            found.append(path)
    return ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")


def _fork(most: int, work: Callable[[], None]) -> Iterator[int]:
    for _ in range(most):
        try:
            pid = os.fork()
        except OSError:
            return
        if pid == 0:
            try:
                work()
            finally:
                sys.stderr.flush()
                os._exit(0)
        yield pid


def _end(children: list[int]) -> None:
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)
