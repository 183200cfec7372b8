"""The worker process, started by the host and by nobody else.

Always true: requests come on descriptor 0 and replies go to a private one; hosted code finds neither, since 0 becomes
empty and what it prints to 1 and 2 cannot touch a frame. A worker that is told to contain itself does so before it has
a second thread and before it imports anything of an author's, and says what holds. When the supervisor is gone,
descriptor 0 reads as closed and the whole process group is killed. (For a trusted worker the kernel's parent-death
signal is not used: it fires when the *thread* that started the worker ends.)

What hosted code does to this process is its own affair: whatever must hold against it stands outside.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import select
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any

from aliquot.isolation import landlock
from aliquot.isolation.forwarder import forward
from aliquot.isolation.frames import (
    MAX_FRAME,
    Call,
    Contain,
    Load,
    Reply,
    decode_request,
    frame,
    read_payload,
    write_all,
)
from aliquot.isolation.launch import allow_processor_time, apply_limits
from aliquot.isolation.loading import load_target

Methods = Mapping[str, Callable[[list[Any]], Iterable[Any]]]

TRACEBACK_CHARACTERS = 6000
"""How much of a traceback's end is sent."""
SET_DUMPABLE = 4
"""prctl option: whether others of our user may look into us."""


def serve(requests: int, replies: int) -> None:
    """Answer requests until the peer closes."""
    first = read_payload(requests)
    if first is None:
        return
    contain = decode_request(first)
    assert isinstance(contain, Contain)
    write_all(replies, _reply(contain.nonce, lambda: Reply(contain.nonce, controls=_contain(contain))))
    _die_with_supervisor(requests)
    if contain.walls is not None and contain.walls.port is not None:
        forward(contain.walls.port, contain.walls.proxy)
    methods: dict[str, Callable[[list[Any]], Iterable[Any]]] = {}
    shown = _shown(contain.walls.writable) if contain.walls is not None and contain.forking else frozenset()
    while (payload := read_payload(requests)) is not None:
        request = decode_request(payload)
        allow_processor_time(request.seconds)
        if isinstance(request, Load):
            write_all(replies, _timed(request, partial(_load, request, methods)))
        elif isinstance(request, Call) and contain.forking:
            write_all(replies, _in_a_copy(methods, request, (requests, replies), contain, shown))
        elif isinstance(request, Call):
            write_all(replies, _timed(request, partial(_run, methods, request)))


def _timed(request: Load | Call, work: Callable[[], list[Any]]) -> bytes:
    """The answer to a request. Shortly before its deadline the code's whereabouts are printed, for the author."""
    faulthandler.dump_traceback_later(0.9 * request.seconds, exit=False)
    try:
        return _reply(request.nonce, lambda: Reply(request.nonce, items=work()))
    finally:
        faulthandler.cancel_dump_traceback_later()


def _reply(nonce: int, work: Callable[[], Reply]) -> bytes:
    try:
        return frame(work())
    except BaseException as error:  # the process boundary: sys.exit() and KeyboardInterrupt of hosted code too
        where = error.__traceback__
        while where is not None and where.tb_frame.f_code.co_filename == __file__:
            where = where.tb_next  # an author is shown the author's own lines
        text = "".join(traceback.format_exception(type(error), error, where))[-TRACEBACK_CHARACTERS:]
        return frame(Reply(nonce, error=text, spent=isinstance(error, MemoryError)))


def _contain(contain: Contain) -> tuple[str, ...]:
    walls = contain.walls
    limited = ("rlimit_cpu",) if allow_processor_time(contain.seconds) else ()
    if walls is None:
        return (*apply_limits(contain.limits), *limited)
    held = apply_limits(contain.limits, contained=True, address_space=walls.address_space)
    if contain.forking:  # a copy must not write into the one that it was copied from
        ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)
    try:
        version = landlock.restrict(walls.readable, walls.writable, walls.devices, walls.port)
    except OSError:
        if walls.landlock:
            raise
        return (*held, *limited)
    return (*held, *limited, f"landlock_{version}")


def _load(request: Load, methods: dict[str, Callable[[list[Any]], Iterable[Any]]]) -> list[Any]:
    methods.update(load_target(request.target)(request.argument))
    return []


def _run(methods: Methods, request: Call) -> list[Any]:
    wanted = len(request.items)
    results = list(islice(methods[request.method](request.items), wanted + 1))
    if len(results) != wanted:
        count = "more than" if len(results) > wanted else f"{len(results)} for"
        raise ValueError(f"`{request.method}` gave {count} {wanted} items; exactly one result per item is wanted")
    return results


def _in_a_copy(
    methods: Methods, request: Call, private: tuple[int, int], contain: Contain, shown: frozenset[str]
) -> bytes:
    """The answer of a fork of this process, of which nothing stays behind."""
    receiving, sending = os.pipe()
    pid = os.fork()
    if pid == 0:
        for descriptor in (*private, receiving):
            os.close(descriptor)
        write_all(sending, _timed(request, partial(_run, methods, request)))
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb", buffering=0) as pipe:
        payload = read_payload(pipe.fileno(), MAX_FRAME)
    if payload is None:
        with_signal = os.waitpid(pid, 0)[1]
        answer = frame(Reply(request.nonce, error=f"the worker's copy died (status {with_signal})"))
    else:
        answer = len(payload).to_bytes(4, "big") + payload
    if contain.walls is not None:
        _sweep(contain.walls.writable, shown)
    return answer


def _shown(folders: tuple[str, ...]) -> frozenset[str]:
    """What stands in writable folders from the start, because something is shown there: an interpreter under /tmp."""
    found = set()
    for folder in folders:
        device = os.stat(folder).st_dev
        for place, inside, files in os.walk(folder):
            found |= {f"{place}/{name}" for name in (*inside, *files)}
            inside[:] = [name for name in inside if os.lstat(f"{place}/{name}").st_dev == device]
    return frozenset(found)


def _sweep(folders: tuple[str, ...], shown: frozenset[str]) -> None:
    """End every other process that the copy left in this namespace, and empty what it could write to."""
    if os.getppid() == 1 and os.geteuid() != 0:  # alone with the namespace's first process, which it cannot reach
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, 0):
            pass
    for folder in folders:
        _empty(folder, shown)


def _empty(folder: str, shown: frozenset[str]) -> None:
    for entry in os.scandir(folder):
        if entry.path in shown:
            if entry.is_dir(follow_symlinks=False) and not os.path.ismount(entry.path):
                _empty(entry.path, shown)
        elif entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def _die_with_supervisor(requests: int) -> None:
    poller = select.poll()
    poller.register(requests, 0)  # only a hang-up wakes it; requests themselves are left alone

    def watch() -> None:
        poller.poll()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="supervisor watch").start()


def main(replies: int) -> None:
    """Serve on descriptor 0. Replies on descriptor 1 take it over, and what hosted code prints there goes to 2."""
    if replies == 1:
        replies = os.dup(1)
        os.dup2(2, 1)
    os.set_inheritable(replies, False)
    requests = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    faulthandler.enable()
    serve(requests, replies)


if __name__ == "__main__":
    main(int(sys.argv[1]))
