"""The filter of a confined program, on both architectures: what the table says is what the program decides."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import struct

import pytest

from aliquot.verifiers.builtin.general.confinement import (
    ALLOW,
    ALLOWED,
    ARCHITECTURES,
    COMMANDS,
    FAIL,
    KILL,
    program,
)


def decide(machine: str, number: int, second: int = 0, architecture: int | None = None) -> int:
    """What the filter says of a call, by the rules of classic BPF."""
    record = struct.pack("=iIQ6Q", number, architecture or ARCHITECTURES[machine], 0, 0, second, 0, 0, 0, 0)
    code = list(struct.iter_unpack("=HBBI", program(machine)))
    at, held = 0, 0
    while True:
        operation, if_true, if_false, constant = code[at]
        at += 1
        if operation == 0x20:
            (held,) = struct.unpack_from("=I", record, constant)
        elif operation == 0x15:
            at += if_true if held == constant else if_false
        else:
            assert operation == 0x06
            return constant


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_every_allowed_call_is_allowed_and_every_other_fails(machine):
    column = list(ARCHITECTURES).index(machine)
    allowed = {numbers[column] for numbers in ALLOWED.values()} - {None}
    commanded = {numbers[column] for numbers, _ in COMMANDS.values()}
    for number in range(600):
        if number not in commanded:
            assert decide(machine, number) == (ALLOW if number in allowed else FAIL), number
    assert decide(machine, 0x40000000) == FAIL  # x32
    assert decide(machine, 0, architecture=0x40000003) == KILL  # 32-bit


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_descriptors_may_be_copied_and_looked_at_but_signal_nobody(machine):
    numbers = COMMANDS["fcntl"][0][list(ARCHITECTURES).index(machine)]
    for command in (fcntl.F_DUPFD, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_DUPFD_CLOEXEC):
        assert decide(machine, numbers, command) == ALLOW
    for command in (fcntl.F_SETOWN, fcntl.F_SETFL, 10, 15, fcntl.F_SETLK, fcntl.F_NOTIFY):  # 10: SETSIG, 15: SETOWN_EX
        assert decide(machine, numbers, command) == FAIL
    ioctl = COMMANDS["ioctl"][0][list(ARCHITECTURES).index(machine)]
    assert decide(machine, ioctl, 0x5401) == ALLOW
    assert {decide(machine, ioctl, command) for command in (0x5412, 0x541C, 0x5452, 0x8901)} == {FAIL}


@pytest.mark.parametrize(("machine", "token"), [("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)])
def test_the_numbers_are_those_of_libseccomp(machine, token):
    """Debian and Ubuntu have this library wherever bubblewrap, apt or systemd is."""
    resolve = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name_arch
    column = list(ARCHITECTURES).index(machine)
    for name, numbers in {**ALLOWED, **{name: numbers for name, (numbers, _) in COMMANDS.items()}}.items():
        found = resolve(token, name.encode())
        assert (found if found >= 0 else None) == numbers[column], name


def test_an_unknown_architecture_has_no_filter_and_so_no_program_is_run():
    with pytest.raises(OSError) as error:
        program("riscv64")
    assert error.value.errno == errno.ENOSYS
