"""The worker process: `python -m aliquot.isolation.worker REPLY_DESCRIPTOR`, started by the host and by nobody else.

Always true: requests come on descriptor 0 and replies go to a private one; hosted code finds neither, since 0 becomes
empty and what it prints to 1 and 2 cannot touch a frame. When the supervisor is gone, descriptor 0 reads as closed and
the whole process group is killed. (The kernel's parent-death signal is not used: it fires when the *thread* that
started the worker ends.)
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from aliquot.isolation.frames import Call, Load, Reply, decode_request, frame, read_payload, write_all
from aliquot.isolation.launch import allow_processor_time, apply_limits
from aliquot.isolation.loading import load_target

Methods = Mapping[str, Callable[[list[Any]], Iterable[Any]]]

TRACEBACK_CHARACTERS = 6000
"""How much of a traceback's end is sent."""


def serve(requests: int, replies: int) -> None:
    """Answer requests until the peer closes."""
    methods: Methods = {}
    while (payload := read_payload(requests)) is not None:
        request = decode_request(payload)
        limited = allow_processor_time(request.seconds)
        faulthandler.dump_traceback_later(0.9 * request.seconds, exit=False)  # shows an author where the code hangs
        try:
            if isinstance(request, Load):
                controls = (*apply_limits(request.limits), *(("rlimit_cpu",) if limited else ()))
                methods = load_target(request.target)(request.argument)
                answer = frame(Reply(nonce=request.nonce, controls=controls))
            else:
                answer = frame(Reply(nonce=request.nonce, items=_run(methods, request)))
        except BaseException as error:  # the process boundary: sys.exit() and KeyboardInterrupt of hosted code too
            text = traceback.format_exc()[-TRACEBACK_CHARACTERS:]
            answer = frame(Reply(nonce=request.nonce, error=text, spent=isinstance(error, MemoryError)))
        finally:
            faulthandler.cancel_dump_traceback_later()
        write_all(replies, answer)


def _run(methods: Methods, request: Call) -> list[Any]:
    wanted = len(request.items)
    results = list(islice(methods[request.method](request.items), wanted + 1))
    if len(results) != wanted:
        count = "more than" if len(results) > wanted else f"{len(results)} for"
        raise ValueError(f"`{request.method}` gave {count} {wanted} items; exactly one result per item is wanted")
    return results


def _die_with_supervisor(requests: int) -> None:
    poller = select.poll()
    poller.register(requests, 0)  # only a hang-up wakes it; requests themselves are left alone

    def watch() -> None:
        poller.poll()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="supervisor watch").start()


def main() -> None:
    replies = int(sys.argv[1])
    os.set_inheritable(replies, False)
    requests = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    faulthandler.enable()
    _die_with_supervisor(requests)
    serve(requests, replies)


if __name__ == "__main__":
    main()
