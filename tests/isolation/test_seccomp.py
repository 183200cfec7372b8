"""The filter of system calls, run here by a small interpreter of it; its numbers against those of libseccomp."""

from __future__ import annotations

import ctypes
import errno
import socket
import struct

import pytest

from aliquot.isolation import seccomp
from aliquot.isolation.seccomp import ALLOW, ARCHITECTURES, ARGUED, DENIED, FAIL, KILL

EPERM, ENOSYS, NO_FAMILY = (FAIL | code for code in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))
I386, ARM = 0x40000003, 0x40000028
COLUMN = {"x86_64": 0, "aarch64": 1}


def decide(machine: str, number: int, *arguments: int, network: bool = False, door: int | None = None) -> int:
    """What the filter says of one call. Classic BPF as in the kernel's networking documentation."""
    padded = [a & (2**64 - 1) for a in (*arguments, *[0] * 6)][:6]
    record = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, ARCHITECTURES[machine] if door is None else door, 0, *padded)
    program = list(struct.iter_unpack("=HBBI", seccomp.program(network, machine)))
    at, value = 0, 0
    while True:
        code, yes, no, constant = program[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("<I", record, constant)
        elif code == 0x54:
            value &= constant
        elif code == 0x06:
            return constant
        else:
            holds = {0x15: value == constant, 0x25: value > constant, 0x35: value >= constant,
                     0x45: bool(value & constant)}[code]  # fmt: skip
            at += yes if holds else no


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_numbers_are_those_of_libseccomp(machine):
    resolve = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name_arch
    resolve.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    for name, numbers in {**DENIED, **ARGUED}.items():
        found = resolve(ARCHITECTURES[machine], name.encode())
        ours = numbers[COLUMN[machine]]
        assert found == ours or (ours is None and found < 0), name


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_denied_calls_fail_and_common_ones_do_not(machine):
    for numbers in DENIED.values():
        if (number := numbers[COLUMN[machine]]) is not None:
            assert decide(machine, number) == EPERM
    common = {"x86_64": (0, 1, 9, 59, 202, 231, 257), "aarch64": (56, 63, 64, 98, 94, 221, 222)}[machine]
    assert {decide(machine, number) for number in common} == {ALLOW}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_calls_by_another_door_or_newer_than_the_filter_never_pass(machine):
    assert decide(machine, 20, door=I386) == KILL and decide(machine, 20, door=ARM) == KILL
    assert decide(machine, 0x40000000 | 39) == ENOSYS
    assert decide(machine, -1) == ENOSYS and decide(machine, seccomp.NEWEST + 1) == ENOSYS


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_arguments_decide_as_the_kernel_reads_them(machine):
    clone, clone3, sock, pair, ioctl = (numbers[COLUMN[machine]] for numbers in ARGUED.values())
    assert decide(machine, clone, 17) == ALLOW and decide(machine, clone3) == ENOSYS
    for bit in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert decide(machine, clone, bit | 17) == EPERM
    for number in (sock, pair):
        assert decide(machine, number, socket.AF_UNIX, 1) == ALLOW
        assert {decide(machine, number, family, 1) for family in range(64) if family != 1} == {NO_FAMILY}
        assert decide(machine, number, socket.AF_INET + 2**32, 1) == NO_FAMILY
    assert decide(machine, ioctl, 0, 0x5401) == ALLOW
    assert {decide(machine, ioctl, 0, word) for word in (0x5412, 0x541C, 0x5412 + 2**32)} == {EPERM}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_a_network_means_tcp_sockets_and_nothing_else(machine):
    sock, pair = (ARGUED[name][COLUMN[machine]] for name in ("socket", "socketpair"))
    flags = socket.SOCK_STREAM | 0o2004000
    assert {decide(machine, sock, 2, kind, network=True) for kind in (1, flags)} == {ALLOW}
    assert {decide(machine, sock, 2, kind, network=True) for kind in (2, 3, 5, 2 | 0o2000000)} == {NO_FAMILY}
    assert {decide(machine, sock, f, 1, network=True) for f in range(64) if f not in (1, 2)} == {NO_FAMILY}
    assert decide(machine, pair, 2, 1, network=True) == NO_FAMILY
    assert decide(machine, DENIED["unshare"][COLUMN[machine]], network=True) == EPERM


def test_an_architecture_without_numbers_is_refused():
    with pytest.raises(OSError, match="no system call filter for riscv64"):
        seccomp.program(machine="riscv64")
