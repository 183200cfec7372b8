"""What `Service.call` promises of hosted code that misbehaves: one item is marked, the others get their results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from aliquot.domain import Outcome
from aliquot.isolation.host import Failure, Service
from aliquot.isolation.launch import Limits

HOSTED = """
import os, sys, time
from pathlib import Path

def factory(argument):
    seen = []

    def square(items):
        for item in items:
            if item == "hang": time.sleep(60)
            if item == "spin":
                while True: pass
            if item == "abort": os.abort()
            if item == "leave": os._exit(7)
            if item == "exit": sys.exit("no more")
            if item == "raise": raise KeyError("the author's own error")
            if item == "nan": yield float("nan"); continue
            if item == "bytes": yield b"raw"; continue
            if item == "object": yield object(); continue
            if item == "drop": continue
            if item == "endless":
                while True: yield 0
            if item == "hog": held = bytearray(3 * 2**30); yield len(held); continue
            if item == "print":
                for _ in range(200): os.write(1, b"x" * 65536)
                print("to stderr", file=sys.stderr); yield 0; continue
            if item == "read": yield sys.stdin.read(); continue
            if item == "long": yield "x" * (9 * 2**20); continue
            yield item * item

    def remember(items):
        for item in items:
            seen.append(item)
            if item == "abort": os.abort()
            if item == "raise": raise ValueError(item)
            yield len(seen)

    def world(items):
        yield {
            "environment": dict(os.environ), "descriptors": sorted(map(int, os.listdir("/proc/self/fd"))),
            "session": os.getsid(0), "pid": os.getpid(), "heavy": sorted({"torch", "pydantic"} & {*sys.modules}),
        }

    def restore(items):
        seen[:] = items[0]
        return [None]

    return {
        "square": square, "remember": remember, "world": world, "state": lambda items: [list(seen)], "restore": restore,
        "pid": lambda items: [os.getpid()] * len(items),
    }
"""


@pytest.fixture(scope="module")
def hosted(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("hosted") / "hosted.py"
    path.write_text(HOSTED)
    return f"{path}:factory"


@pytest.fixture(scope="module")
def shared(hosted):
    service = Service("tests", hosted, None, limits=Limits(memory_mb=1024))
    yield service
    service.close()


@pytest.mark.parametrize(
    ("poison", "outcome", "says"),
    [
        ("hang", Outcome.TIMED_OUT, "hosted.py"),
        ("spin", Outcome.TIMED_OUT, "no answer within 0.5 s"),
        ("abort", Outcome.INFRASTRUCTURE_ERROR, "SIGABRT"),
        ("leave", Outcome.INFRASTRUCTURE_ERROR, "exit code 7"),
        ("exit", Outcome.INFRASTRUCTURE_ERROR, "SystemExit: no more"),
        ("raise", Outcome.INFRASTRUCTURE_ERROR, "the author's own error"),
        ("nan", Outcome.INFRASTRUCTURE_ERROR, "NaN or infinity"),
        ("bytes", Outcome.INFRASTRUCTURE_ERROR, "no JSON value"),
        ("object", Outcome.INFRASTRUCTURE_ERROR, "type object is unsupported"),
        ("drop", Outcome.INFRASTRUCTURE_ERROR, "gave 0 for 1 items"),
        ("endless", Outcome.INFRASTRUCTURE_ERROR, "more than 1 items"),
        ("hog", Outcome.INFRASTRUCTURE_ERROR, "MemoryError"),
        ("long", Outcome.INFRASTRUCTURE_ERROR, "9.0 MiB"),
    ],
)
def test_only_the_item_that_misbehaves_is_marked(shared, poison, outcome, says):
    results = shared.call("square", [1, 2, poison, 4], seconds=0.5 if outcome is Outcome.TIMED_OUT else 10)
    failure = results[2]
    assert [*results[:2], *results[3:]] == [1, 4, 16]
    assert isinstance(failure, Failure) and failure.outcome is outcome
    assert repr(poison) in failure.message
    assert says in failure.message


def test_two_poison_items_of_different_kinds_are_both_found(shared):
    results = shared.call("square", [1, "abort", 3, "raise", 5, 6, 7], seconds=1)
    assert [r for r in results if not isinstance(r, Failure)] == [1, 9, 25, 36, 49]
    assert isinstance(results[1], Failure) and isinstance(results[3], Failure)


def test_a_flood_on_stdout_neither_corrupts_frames_nor_fills_memory(shared):
    assert shared.call("square", [2, "print", 3], seconds=10) == [4, 0, 9]
    assert len(shared._process._printed) <= 64 * 1024


def test_hosted_code_cannot_read_requests_from_its_standard_input(shared):
    assert shared.call("square", ["read", 3], seconds=5) == ["", 9]


def test_a_worker_sees_nothing_of_the_supervisors_environment_or_descriptors(shared, monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET_OF_THE_SUPERVISOR", "1")
    held = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(held, True)
    shared.close()
    (world,) = shared.call("world", [None], seconds=5)
    os.close(held)
    assert "SECRET_OF_THE_SUPERVISOR" not in world["environment"]
    assert {*world["environment"]} <= {
        "PATH", "HOME", "TMPDIR", "LANG", "LC_CTYPE", "PYTHONUSERBASE",
        "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_ARENA_MAX",
    }  # fmt: skip
    assert world["session"] == world["pid"] != os.getsid(0)
    assert len(world["descriptors"]) <= 6  # 0, 1, 2, requests, replies, and the listing's own
    assert world["heavy"] == []


def test_controls_are_those_that_were_read_back(shared):
    shared.call("pid", [None], seconds=5)
    assert {"process", "session", "env_scrubbed", "rlimit_cpu", "rlimit_core"} <= {*shared.controls}
    if sys.platform == "linux":
        limits = Path(f"/proc/{shared.pid}/limits").read_text()
        assert "rlimit_as" in shared.controls and str(1024 * 2**20) in limits


def test_a_memory_survives_crashes_and_errors_as_if_the_poison_had_never_come(hosted):
    with_poison = Service("memory", hosted, None)
    assert with_poison.call("remember", ["a", "b"], seconds=5, remembers=True) == [1, 2]
    results = with_poison.call("remember", ["c", "abort", "d", "raise", "e"], seconds=5, remembers=True)
    assert [r for r in results if not isinstance(r, Failure)] == [3, 4, 5]
    assert with_poison.memory == ["a", "b", "c", "d", "e"]
    copy = Service("copy", hosted, None)
    copy.restore(with_poison.memory)
    assert copy.call("remember", ["f"], seconds=5, remembers=True) == [6]
    with_poison.close()
    copy.close()


def test_workers_persist_and_are_recycled_after_their_number_of_batches(hosted):
    service = Service("recycled", hosted, None, recycle_after=2)
    pids = [service.call("pid", [None], seconds=5)[0] for _ in range(4)]
    service.close()
    assert pids[0] == pids[1] != pids[2] == pids[3]


@pytest.mark.parametrize(
    ("source", "says", "starts"),
    [
        ("import sys; sys.exit('not today')", "not today", 1),
        ("import no_such_library", "No module named 'no_such_library'", 1),
        ("import os; os.abort()", "SIGABRT", 3),
        ("def factry(argument): return {}", "did you mean 'factry'?", 1),
    ],
)
def test_a_service_that_cannot_start_fails_for_good_with_the_authors_traceback(tmp_path, source, says, starts):
    path = tmp_path / "broken.py"
    path.write_text(source)
    service = Service("broken", f"{path}:factory", None)
    first = service.call("square", [1, 2], seconds=5)
    assert all(isinstance(r, Failure) and says in r.message for r in first)
    assert service.starts == starts and service.failure is not None
    service.call("square", [1], seconds=5)
    assert service.starts == starts


def test_a_batch_that_kills_every_worker_does_not_restart_for_ever(hosted):
    service = Service("deadly", hosted, None)
    results = service.call("square", ["abort"] * 64, seconds=5)
    assert all(isinstance(r, Failure) for r in results) and service.starts < 16
    assert "not tried" in results[-1].message
    assert service.call("square", [3], seconds=5) == [9]
    service.close()


def test_workers_die_with_their_supervisor_even_while_they_hang(hosted):
    program = textwrap.dedent(f"""
        import threading
        from aliquot.isolation.host import Service
        service = Service("orphan", {hosted!r}, None)
        service.call("pid", [None], seconds=30)
        print(service.pid, flush=True)
        service.call("square", ["hang"], seconds=50)
    """)
    supervisor = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    worker = int(supervisor.stdout.readline())
    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait()
    supervisor.stdout.close()
    for _ in range(200):
        state = _state(worker)
        if state in (None, "Z"):
            return
        time.sleep(0.02)
    os.kill(worker, signal.SIGKILL)
    raise AssertionError(f"worker {worker} outlived its supervisor in state {state}")


def _state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return None
