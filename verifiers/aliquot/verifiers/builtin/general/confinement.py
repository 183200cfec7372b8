"""What a process gives up, for good, before it runs a program that a policy wrote. Called in that process, by itself.

It needs no privilege and stacks under whatever holds the worker already, since a worker's own sandbox leaves no way to
make another one. Four things go, in this order: memory and files beyond a limit (rlimits), the capabilities of root,
every file but the standard library's (Landlock, which also takes away looking into other processes), and every system
call that is not in `ALLOWED` (seccomp). Among what is not there: making a process or a thread, executing, signalling,
sockets, shared memory, changing any limit.

Always true: `confine` returns only when trials of what must not be possible have failed.

This file is loaded in a bare interpreter, so it imports nothing but the lightest of the standard library.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import struct
from collections.abc import Callable, Iterable, Iterator

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    # files, as far as Landlock lets them be opened
    "read": (0, 63), "readv": (19, 65), "pread64": (17, 67), "write": (1, 64), "writev": (20, 66),
    "open": (2, None), "openat": (257, 56), "close": (3, 57), "fstat": (5, 80), "newfstatat": (262, 79),
    "stat": (4, None), "lstat": (6, None), "statx": (332, 291), "lseek": (8, 62), "access": (21, None),
    "faccessat": (269, 48), "faccessat2": (439, 439), "getdents64": (217, 61), "readlink": (89, None),
    "readlinkat": (267, 78), "getcwd": (79, 17), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "pipe": (22, None), "pipe2": (293, 59), "poll": (7, None), "ppoll": (271, 73), "select": (23, None),
    "pselect6": (270, 72),
    # memory
    "brk": (12, 214), "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216),
    "madvise": (28, 233),
    # signals that it gets
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    # time
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "nanosleep": (35, 101),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getrusage": (98, 165),
    # itself
    "futex": (202, 98), "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "getpid": (39, 172),
    "gettid": (186, 178), "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176),
    "getegid": (108, 177), "uname": (63, 160), "sysinfo": (99, 179), "getrandom": (318, 278), "exit": (60, 93),
    "exit_group": (231, 94),
}  # fmt: skip
"""Name → number on x86_64 and on aarch64; None: it has no such call. Anything else fails with EPERM."""
COMMANDS = {"fcntl": ((72, 25), (0, 1, 2, 3, 1030)), "ioctl": ((16, 29), (0x5401, 0x5413, 0x5450, 0x5451))}
"""Calls allowed with some commands only: F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC; TCGETS, TIOCGWINSZ,
FIONCLEX, FIOCLEX. (F_SETOWN and FIOASYNC would have the kernel signal another process.)"""

LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
NUMBER, ARCHITECTURE, SECOND_ARGUMENT = 0, 4, 24
"""Offsets in the kernel's record of a call, bytes. Of an argument the low half is compared, as the kernel reads it."""
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 1, 22, 38, 2
CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


class Unconfined(Exception):
    """The kernel does not hold what it should; nothing of the program has run."""


def confine(
    restrict: Callable[..., object], readable: Iterable[str], memory_mb: int, seconds: int, parent: int
) -> None:
    """Give everything up.

    Args:
        restrict: `aliquot.isolation.landlock.restrict`.
        readable: folders that stay readable.
        memory_mb: address space, MiB.
        seconds: processor time after which the kernel ends the process, whoever else forgets to.
        parent: the worker, with which the process dies.

    Raises:
        Unconfined: something still works that must not.
        OSError: the kernel lacks a control.
    """
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise Unconfined("the worker is gone")
    for kind, value in (
        (resource.RLIMIT_AS, memory_mb * 2**20),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    restrict(readable, (), (), None)
    _drop_capabilities()
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _filter()
    for what, trial in _trials(parent):
        try:
            trial()
        except (OSError, ValueError):  # what the interpreter makes of EPERM from setrlimit
            continue
        raise Unconfined(f"it can still {what}")


def program(machine: str | None = None) -> bytes:
    """The filter as a classic BPF program.

    Raises:
        OSError: no numbers are known for this architecture.
    """
    machine = machine or os.uname().machine
    if machine not in ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no system call filter for {machine}; known: {', '.join(ARCHITECTURES)}")
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in _instructions(machine))


def _instructions(machine: str) -> Iterator[tuple[int, int, int, int]]:
    column = list(ARCHITECTURES).index(machine)
    yield LOAD, 0, 0, ARCHITECTURE
    yield EQUAL, 1, 0, ARCHITECTURES[machine]
    yield RETURN, 0, 0, KILL
    yield LOAD, 0, 0, NUMBER
    for numbers in ALLOWED.values():
        if (number := numbers[column]) is not None:
            yield EQUAL, 0, 1, number
            yield RETURN, 0, 0, ALLOW
    for numbers, commands in COMMANDS.values():
        yield EQUAL, 0, 2 * len(commands) + 2, numbers[column]  # past the body, where the number is still loaded
        yield LOAD, 0, 0, SECOND_ARGUMENT
        for command in commands:
            yield EQUAL, 0, 1, command
            yield RETURN, 0, 0, ALLOW
        yield RETURN, 0, 0, FAIL
    yield RETURN, 0, 0, FAIL


def _filter() -> None:
    code = program()

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]

    filter = Program(len(code) // 8, code)
    _prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(filter))


def _drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    _checked(_libc.capset(header, (ctypes.c_uint32 * 6)()))


def _prctl(option: int, *arguments: int) -> None:
    padded = [*arguments, 0, 0, 0, 0][:4]
    _checked(_libc.prctl(option, *map(ctypes.c_ulong, padded)))


def _trials(parent: int) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "list the root folder", lambda: os.listdir("/")
    yield "read the system's accounts", lambda: open("/etc/passwd", "rb").close()
    yield "look into the worker's memory", lambda: open(f"/proc/{parent}/mem", "rb").close()
    yield "make a file", lambda: open("/tmp/aliquot-trial", "xb").close()
    yield "signal the worker", lambda: os.kill(parent, 0)
    yield "make a process", _fork
    yield "execute a program", lambda: os.execve("/bin/true", ["true"], {})
    yield "open a socket", lambda: _checked(_libc.socket(1, 1, 0))
    yield "trace a process", lambda: _checked(_libc.ptrace(16, parent, None, None))
    yield "change a limit", lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _checked(result: int) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
