"""The system calls a contained worker may not make, as a classic BPF program for `bwrap --seccomp`.

Always true: a call that enters by another door (32-bit `int 0x80`, x32) is refused whatever its number, and so is every
call newer than `NEWEST`. Calls in `DENIED` fail with EPERM, as if a capability were missing; new namespaces cannot be
made (`clone3` says ENOSYS, so that the C library falls back to `clone`, whose flags a filter can read); the only
sockets are Unix ones, or TCP too where a network is allowed. Namespaces do the rest: this list takes away what they do
not cover, AF_VSOCK and the kernel's wide interfaces above all.

The numbers are the kernel's, which never change; a test compares them with libseccomp's.
"""

from __future__ import annotations

import errno
import os
import platform
import socket
import struct
from collections.abc import Iterator

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NEWEST = 462
"""Highest call number let through, `mseal` of Linux 6.10; from 424 on all architectures share their numbers."""


DENIED: dict[str, tuple[int | None, int | None]] = {
    # namespaces and mounts
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "mknod": (133, None), "mknodat": (259, 33), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    "inotify_init": (253, None), "inotify_init1": (294, 26), "lookup_dcookie": (212, 18), "ustat": (136, None),
    "sysfs": (139, None), "_sysctl": (156, None), "uselib": (134, None), "nfsservctl": (180, 42),
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272), "pidfd_getfd": (438, 438),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
    # wide interfaces of the kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "personality": (135, 92), "modify_ldt": (154, None),
    "iopl": (172, None), "ioperm": (173, None), "remap_file_pages": (216, 234),
    # memory that no file limit and no watchdog would count
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmctl": (31, 195),
    "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    # the machine itself
    "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "sethostname": (170, 161),
    "setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "syslog": (103, 116), "vhangup": (153, 58),
}  # fmt: skip
"""Name → number on x86_64 and on aarch64; None: it has no such call."""
ARGUED = {"clone": (56, 220), "clone3": (435, 435), "socket": (41, 198), "socketpair": (53, 199), "ioctl": (16, 29)}
"""Calls whose arguments decide."""

NEW_NAMESPACES = 0x02000000 | 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
"""CLONE_NEWCGROUP, NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. (NEWTIME shares a bit with the exit signal, and
only `unshare` and `clone3` know it.)"""
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: putting words into the mouth of whoever holds the terminal."""

LOAD, EQUAL, AT_LEAST, ABOVE, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x25, 0x45, 0x54, 0x06
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, ARGUMENT = 0, 4, 16, 8
"""Offsets in the kernel's record of a call, bytes; of an argument the low half is compared, as the kernel reads an int
(both architectures here are little-endian)."""

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""


def program(network: bool = False, machine: str | None = None) -> bytes:
    """The filter for this machine, or for the named architecture.

    Args:
        network: whether TCP sockets may be made. They lead nowhere but to the worker's own loopback.

    Raises:
        OSError: no numbers are known for this architecture.
    """
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        known = " and ".join(ARCHITECTURES)
        raise OSError(errno.ENOSYS, f"no system call filter for {machine}; there is one for {known}")
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in _instructions(machine, network))


def program_file(network: bool) -> int:
    """A descriptor from which `bwrap --seccomp` reads the filter."""
    descriptor = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    os.write(descriptor, program(network))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _instructions(machine: str, network: bool) -> Iterator[Instruction]:
    column = list(ARCHITECTURES).index(machine)
    yield LOAD, 0, 0, ARCHITECTURE
    yield EQUAL, 1, 0, ARCHITECTURES[machine]
    yield RETURN, 0, 0, KILL
    yield LOAD, 0, 0, NUMBER
    yield ABOVE, 0, 1, NEWEST  # x32 numbers are above it too
    yield RETURN, 0, 0, FAIL | errno.ENOSYS
    for numbers in DENIED.values():
        if (number := numbers[column]) is not None:
            yield EQUAL, 0, 1, number
            yield RETURN, 0, 0, FAIL | errno.EPERM
    yield EQUAL, 0, 1, ARGUED["clone3"][column]
    yield RETURN, 0, 0, FAIL | errno.ENOSYS
    yield from _when(ARGUED["clone"][column], _argument(0), (ANY_BIT, 0, 1, NEW_NAMESPACES), _fail(errno.EPERM))
    local: tuple[Instruction, ...] = ((EQUAL, 1, 0, int(socket.AF_UNIX)),)
    yield from _when(ARGUED["socketpair"][column], _argument(0), *local, _no_family())
    if network:
        tcp = ((AND, 0, 0, 0xF), (EQUAL, 1, 0, int(socket.SOCK_STREAM)))  # the flags CLOEXEC, NONBLOCK stand above
        local = ((EQUAL, 5, 0, int(socket.AF_UNIX)), (EQUAL, 0, 3, int(socket.AF_INET)), _argument(1), *tcp)
    yield from _when(ARGUED["socket"][column], _argument(0), *local, _no_family())
    first, second = TERMINAL_INPUT
    yield from _when(
        ARGUED["ioctl"][column], _argument(1), (EQUAL, 1, 0, first), (EQUAL, 0, 1, second), _fail(errno.EPERM)
    )
    yield RETURN, 0, 0, ALLOW


def _when(number: int, *body: Instruction) -> Iterator[Instruction]:
    """The body for one call. Whoever runs past its end is allowed; the record's number is never loaded again."""
    yield EQUAL, 0, len(body) + 1, number
    yield from body
    yield RETURN, 0, 0, ALLOW


def _argument(position: int) -> Instruction:
    return LOAD, 0, 0, FIRST_ARGUMENT + ARGUMENT * position


def _fail(code: int) -> Instruction:
    return RETURN, 0, 0, FAIL | code


def _no_family() -> Instruction:
    return _fail(errno.EAFNOSUPPORT)
