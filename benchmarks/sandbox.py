"""What does it cost to run a stranger's verifier in the sandbox, and does the sandbox leave anything behind?

Speed: one warm worker is called with one item and with batches; workers are started cold; workers that hang, with
grandchildren that ignore every signal, are killed. Chemistry: QED of the same molecules, in this process and in the
sandbox by turns; molecules per second of processor time, ours for the calls included, and the share is the median over
the pairs (`wall` is the same by the clock, which other work on the machine disturbs). Soak: services are called while
their code crashes, hangs, prints, leaves daemons and files; at the end nothing may be left over and memory must not
have grown.

Quick: a soak of one minute. Full: of half an hour.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from aliquot.isolation.cgroups import find_places
from aliquot.isolation.containment import Containment
from aliquot.isolation.doctor import examine
from aliquot.isolation.host import Service
from aliquot.isolation.launch import Limits
from aliquot.isolation.watchdog import descendants
from benchmarks.harness import Goal, Report
from benchmarks.sandbox_plugin import MOLECULES, qed

PLUGIN = f"{Path(__file__).with_name('sandbox_plugin.py')}:factory"
LIMITS = Limits(memory_mb=2048)
QUICK_SOAK, FULL_SOAK = 60.0, 1800.0
"""Seconds."""
PAIRS = (9, 25)
"""Quick, full: turns of the two sides."""
BATCH = 128
STARTS = (7, 25)
DEEDS = ("crash", "hang", "deaf", "daemon", "print", "files", "none", "none")
WARM_UP = 0.2
"""Share of the soak after which what is held is counted for the first time."""


def run(full: bool, say: Callable[[str], None]) -> Report:
    """The benchmark. Raises `SandboxUnavailable` where the machine cannot contain a stranger's code."""
    report = Report("sandbox")
    begun = time.perf_counter()
    examination = examine(fresh=True)
    report.metrics["doctor_seconds"] = time.perf_counter() - begun
    report.metrics["controls_held"] = sum(control.held for control in examination.controls)
    say(f"doctor: {'sufficient' if examination.sufficient else examination.reasons}")
    for part in (_calls, _starts, _kills, _chemistry):
        say(part.__doc__ or "")
        report.metrics |= part(full)
    say(f"soak of {FULL_SOAK if full else QUICK_SOAK:g} s")
    report.metrics |= _soak(FULL_SOAK if full else QUICK_SOAK)
    report.goals = [
        Goal("rdkit_share", ">=", 0.90),
        Goal("kill_ms.median", "<=", 100.0),
        *(Goal(f"soak.leaked_{what}", "<=", 0) for what in ("processes", "groups", "mounts", "descriptors", "threads")),
        Goal("soak.memory_growth_mb", "<=", 16.0),
    ]
    return report


def _calls(full: bool) -> dict[str, float]:
    """Warm calls of one item and in batches, in a persistent worker and in a fresh copy each."""
    metrics = {}
    with _service() as service:
        times = [_timed(lambda: service.call("echo", [1], seconds=5)) for _ in range(5000 if full else 2000)]
        metrics["warm_call.per_second"] = len(times) / sum(times)
        metrics["warm_call.median_ms"] = 1e3 * statistics.median(times)
        metrics["warm_call.p99_ms"] = 1e3 * statistics.quantiles(times, n=100)[-1]
        for size in (32, 256, 1024):
            items = list(range(size))
            taken = [_timed(lambda: service.call("echo", items, seconds=5)) for _ in range(200)]  # noqa: B023
            metrics[f"batch_{size}.items_per_second"] = size / statistics.median(taken)
    with _service(isolation="batch") as service:
        taken = [_timed(lambda: service.call("echo", [1], seconds=5)) for _ in range(50)]
        metrics["copy_per_batch.median_ms"] = 1e3 * statistics.median(taken)
    return metrics


def _starts(full: bool) -> dict[str, float]:
    """Cold starts, to the first answer."""
    metrics = {}
    for name, chemistry in (("cold_start", False), ("cold_start_rdkit", True)):
        taken = []
        for _ in range(STARTS[full]):
            with _service(chemistry, first_call=False) as service:
                taken.append(_timed(lambda: service.call("echo", [1], seconds=60)))  # noqa: B023
        metrics[f"{name}.median_ms"] = 1e3 * statistics.median(taken)
        metrics[f"{name}.max_ms"] = 1e3 * max(taken)
    return metrics


def _kills(full: bool) -> dict[str, float]:
    """From the decision to kill a hanging family to the end of its last process."""
    taken = []
    for _ in range(STARTS[full]):
        with _service() as service:
            service.call("misbehave", ["daemon"], seconds=5)
            family = descendants(service.pid or 0) + descendants(os.getpid())
            taken.append(_timed(lambda: _end(service, family)))  # noqa: B023
    return {"kill_ms.median": 1e3 * statistics.median(taken), "kill_ms.max": 1e3 * max(taken)}


def _end(service: Service, family: list[int]) -> None:
    service.close()
    while any(map(_lives, family)):
        time.sleep(0.0005)


def _chemistry(full: bool) -> dict[str, float]:
    """QED here and in the sandbox by turns."""
    molecules = [MOLECULES[i % len(MOLECULES)] for i in range(BATCH)]
    inside, outside, inside_wall, outside_wall = [], [], [], []
    with _service(chemistry=True) as service:

        def busy() -> float:
            return time.process_time() + _processor_seconds(service.pid or 0)

        qed(molecules)
        service.call("qed", molecules, seconds=10)
        for _ in range(PAIRS[full]):
            for work, rates, wall in (
                (lambda: qed(molecules), outside, outside_wall),
                (lambda: service.call("qed", molecules, seconds=10), inside, inside_wall),
            ):
                begun = busy()
                wall.append(BATCH / _timed(work))
                rates.append(BATCH / (busy() - begun))
    shares = [a / b for a, b in zip(inside, outside, strict=True)]
    return {
        "rdkit_share": statistics.median(shares),
        "rdkit_share.wall": statistics.median(a / b for a, b in zip(inside_wall, outside_wall, strict=True)),
        "rdkit_inside.per_busy_second": statistics.median(inside),
        "rdkit_outside.per_busy_second": statistics.median(outside),
    }


def _processor_seconds(pid: int) -> float:
    """Time that all threads of a process have been on a core."""
    times = [int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(times) / 1e9


def _soak(seconds: float) -> dict[str, float]:
    """Services that are misused all the time, and what is left of them."""
    begun, calls, first = time.monotonic(), 0, None
    services = [_new(False) for _ in range(3)]
    places = find_places()
    while (past := time.monotonic() - begun) < seconds:
        service, deed = services[calls % len(services)], DEEDS[calls % len(DEEDS)]
        service.call("misbehave", [deed], seconds=0.3)
        service.call("echo", [calls], seconds=10)
        service.release()
        calls += 1
        if calls % 40 == 0:
            service.close()
        if first is None and past > WARM_UP * seconds:
            first = _settled(services, places)
    assert first is not None
    last = _settled(services, places)
    starts = sum(service.starts for service in services)
    leaked = {f"soak.leaked_{what}": float(last[what] - first[what]) for what in first if what != "memory"}
    growth = (last["memory"] - first["memory"]) / 2**20
    return {
        "soak.seconds": seconds,
        "soak.calls": 2 * calls,
        "soak.starts": starts,
        "soak.memory_growth_mb": growth,
    } | leaked


def _settled(services: list[Service], places: list) -> dict[str, int]:
    """What this process holds once its services are closed."""
    for service in services:
        service.close()
    deadline = time.monotonic() + 5
    while descendants(os.getpid()) and time.monotonic() < deadline:
        time.sleep(0.01)
    gc.collect()
    ours = f"aliquot-{os.getpid()}-*"
    return {
        "processes": len(descendants(os.getpid())),
        "groups": sum(len(list(place.folder.glob(ours))) for place in places),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "memory": int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize(),
    }


@contextlib.contextmanager
def _service(
    chemistry: bool = False, *, isolation: Literal["worker", "batch"] = "worker", first_call: bool = True
) -> Iterator[Service]:
    service = _new(chemistry, isolation)
    try:
        if first_call:
            service.call("echo", [0], seconds=60)
        yield service
    finally:
        service.close()


def _new(chemistry: bool, isolation: Literal["worker", "batch"] = "worker") -> Service:
    argument = {"chemistry": chemistry}
    return Service("benchmark", PLUGIN, argument, limits=LIMITS, containment=Containment(), isolation=isolation)


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
