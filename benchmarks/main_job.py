"""How long does the main job run? `aliquot run` on the drug-like example, from the shell, as `make run` does it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Goal, Report
from benchmarks.learning import CAMPAIGN


def run(full: bool, say: Callable[[str], None]) -> Report:
    report = Report("main_job", seeds=[0])
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        started = time.perf_counter()
        command = [sys.executable, "-m", "aliquot.cli", "run", str(CAMPAIGN), "--out", str(out), "--quiet"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        report.metrics["seconds"] = time.perf_counter() - started
        report.metrics["report_kilobytes"] = (out / "report.html").stat().st_size / 1024
    say(f"{report.metrics['seconds']:.0f} s")
    report.goals = [Goal("seconds", "<=", 240.0)]
    return report
