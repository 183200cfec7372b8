"""A thread that lives as long as the process, and starts every worker that must die with the process.

The kernel ties a child's parent-death signal to the *thread* that started it. A worker started from a short thread, as
`asyncio.to_thread` and executors use, would be killed when that thread ends; so all are started from this one. A forked
child of the supervisor gets a thread of its own.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")

_tasks: queue.SimpleQueue[tuple[Callable[[], Any], Future]] | None = None
_lock = threading.Lock()


def in_lasting_thread(task: Callable[[], Result]) -> Result:
    """Run it in the lasting thread and give its result, or raise what it raised."""
    future: Future[Result] = Future()
    _queue().put((task, future))
    return future.result()


def _queue() -> queue.SimpleQueue[tuple[Callable[[], Any], Future]]:
    global _tasks
    with _lock:
        if _tasks is None:
            _tasks = queue.SimpleQueue()
            threading.Thread(target=_serve, args=(_tasks,), daemon=True, name="aliquot spawner").start()
        return _tasks


def _serve(tasks: queue.SimpleQueue[tuple[Callable[[], Any], Future]]) -> None:
    while True:
        task, future = tasks.get()
        try:
            future.set_result(task())
        except BaseException as error:
            future.set_exception(error)
        del task, future


def _after_fork() -> None:
    global _tasks, _lock
    _tasks, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
