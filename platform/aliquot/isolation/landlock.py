"""Landlock: the calling thread gives up, for good, every file and TCP port that it was not told of.

This is the second wall of a contained worker, put up by the worker itself before it imports a plugin; nothing can take
it down again, and child processes inherit it. It must be called while the process has one thread, for it holds the
caller and what the caller starts. No privilege is needed. Source: Linux, `Documentation/userspace-api/landlock.rst`.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System call numbers, the same on every architecture."""
PATH_BENEATH, NET_PORT = 1, 2
NO_NEW_PRIVILEGES = 38
"""prctl option."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
FILE_ACCESS = (0, (1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1)
"""Everything that version 1, 2, 3, 4, 5 of the interface can hold back; position: the version."""
BIND, CONNECT = 1, 2
ABSTRACT_SOCKETS, SIGNALS = 1, 2
"""Held back since versions 4 and 6."""


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("ports", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


class _Port(ctypes.Structure):
    _fields_ = [("access", ctypes.c_uint64), ("port", ctypes.c_uint64)]


_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Version of the interface that this kernel offers; 0: none."""
    try:
        return max(0, _libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))
    except AttributeError:  # no such function outside Linux
        return 0


def restrict(readable: Iterable[str], writable: Iterable[str], devices: Iterable[str], port: int | None) -> int:
    """Keep these paths with all beneath them, and this TCP port, and nothing else.

    Args:
        readable: may be read, listed and executed.
        writable: anything may be done there.
        devices: may be read and written.
        port: one that may be bound and connected to; None: none at all.

    Returns:
        The version of the interface that holds now.

    Raises:
        OSError: the kernel has no Landlock, or refused.
    """
    offered = version()
    everything = FILE_ACCESS[min(offered, len(FILE_ACCESS) - 1)]
    ports = BIND | CONNECT if offered >= 4 else 0
    scopes = ABSTRACT_SOCKETS | SIGNALS if offered >= 6 else 0
    wanted = _Ruleset(everything, ports, scopes)
    size = 24 if offered >= 6 else 16 if offered >= 4 else 8  # older kernels know fewer fields
    ruleset = _checked(_libc.syscall(CREATE_RULESET, ctypes.byref(wanted), ctypes.c_size_t(size), ctypes.c_uint32(0)))
    try:
        for paths, access in ((readable, READ), (writable, everything), (devices, READ | WRITE_FILE | IOCTL_DEVICE)):
            for path in paths:
                _allow(ruleset, path, access & everything)
        if port is not None and ports:
            rule = _Port(ports, port)
            _checked(_libc.syscall(ADD_RULE, ruleset, NET_PORT, ctypes.byref(rule), ctypes.c_uint32(0)))
        _checked(_libc.prctl(NO_NEW_PRIVILEGES, *map(ctypes.c_ulong, (1, 0, 0, 0))))
        _checked(_libc.syscall(RESTRICT_SELF, ruleset, ctypes.c_uint32(0)))
    finally:
        os.close(ruleset)
    return offered


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= OF_A_FILE
        rule = _Beneath(access, descriptor)
        _checked(_libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0)))
    finally:
        os.close(descriptor)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
