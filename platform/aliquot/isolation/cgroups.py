"""A control group for one worker: the kernel counts its memory, processes and processor time, whatever they fork.

Always true: a group is made below the supervisor's own (or below a folder that the operator delegated), so that limits
which hold us hold it too; it is removed with the worker. Version 2 of the interface is taken where it has the
controllers, else version 1, each controller by itself. What the machine does not offer is not in `Group.controls`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

CONTROLLERS = ("memory", "pids", "cpu")
CONTROLS = {"memory": "cgroup_memory", "pids": "cgroup_pids", "cpu": "cgroup_cpu"}
PERIOD = 100_000
"""Period of the processor quota, microseconds."""
REMOVAL_SECONDS = 5.0
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Place:
    """A folder under which groups can be made."""

    folder: Path
    controllers: tuple[str, ...]
    """Those that groups made here have."""
    version: int


@dataclass
class Group:
    """One worker's group; in version 1 it is several folders that act together."""

    folders: dict[Path, Place] = field(default_factory=dict)
    controls: tuple[str, ...] = ()

    @classmethod
    def make(cls, places: list[Place], memory_mb: int, processes: int, cores: float) -> Group:
        """A group under each place. A controller whose limit cannot be set is left out of its controls."""
        for place in places:
            _remove_orphans(place.folder)
        group, name = cls(), f"aliquot-{os.getpid()}-{secrets.token_hex(4)}"
        held = []
        for place in places:
            folder = place.folder / name
            try:
                folder.mkdir()
            except OSError:
                continue
            group.folders[folder] = place
            limits = _limits(place.version, memory_mb, processes, cores)
            held += [c for c in place.controllers if _write_all(folder, limits[c])]
        group.controls = tuple(CONTROLS[c] for c in CONTROLLERS if c in held)
        return group

    def enter(self) -> tuple[str, ...]:
        """A command to put before another: it enters the group, then becomes the other."""
        if not self.folders:
            return ()
        script = 'n=$1; shift; while [ $n -gt 0 ]; do echo 0 >"$1/cgroup.procs" || exit 125; shift; n=$((n-1)); done'
        folders = tuple(map(str, self.folders))
        return ("/bin/sh", "-c", f'{script}; exec "$@"', "sh", str(len(folders)), *folders)

    def pids(self) -> list[int]:
        """Processes in the group now."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
        return []

    def killed_for_memory(self) -> bool:
        """Whether the kernel has ended a process of the group because the group's memory was full."""
        for folder, place in self.folders.items():
            name = "memory.events" if place.version == 2 else "memory.oom_control"
            with contextlib.suppress(OSError, ValueError):
                lines = dict(line.split() for line in (folder / name).read_text().splitlines())
                if int(lines.get("oom_kill", 0)):
                    return True
        return False

    def close(self) -> None:
        """Kill whatever is left in the group and remove it."""
        deadline = time.monotonic() + REMOVAL_SECONDS
        while self.folders and time.monotonic() < deadline:
            for pid in self.pids():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            for folder in list(self.folders):
                try:
                    folder.rmdir()
                    del self.folders[folder]
                except FileNotFoundError:
                    del self.folders[folder]
                except OSError:  # its last processes are still on their way out
                    time.sleep(0.001)


def find_places(delegated: tuple[str, ...] = ()) -> list[Place]:
    """Where this process may make groups: one place of version 2, or one for each controller of version 1."""
    if delegated:
        return [place for folder in delegated if (place := _delegated(Path(folder)))]
    mounts, own = _mounts(), _own_groups()
    if "" in own and (root := mounts.get("cgroup2")):
        folder = root / own[""].lstrip("/")
        for candidate in (folder, folder.parent):
            if place := _version_2(candidate, root):
                return [place]
    places = []
    for controller in CONTROLLERS:
        if controller in own and (root := mounts.get(controller)):
            folder = root / own[controller].lstrip("/")
            if folder.is_dir() and os.access(folder, os.W_OK):
                places.append(Place(folder, (controller,), 1))
    return places


def _remove_orphans(folder: Path) -> None:
    """Remove empty groups of supervisors that were killed. One with processes in it cannot be removed, and stays."""
    for orphan in folder.glob("aliquot-*-*"):
        if not Path("/proc", orphan.name.split("-")[1]).exists():
            with contextlib.suppress(OSError):
                orphan.rmdir()


def _delegated(folder: Path) -> Place | None:
    if (folder / "cgroup.controllers").exists():
        return _version_2(folder, folder.parent)
    controllers = tuple(c for c in CONTROLLERS if (folder / f"{c}.{_MARKS[c]}").exists())
    return Place(folder, controllers, 1) if controllers and os.access(folder, os.W_OK) else None


_MARKS = {"memory": "limit_in_bytes", "pids": "max", "cpu": "cfs_quota_us"}


def _version_2(folder: Path, root: Path) -> Place | None:
    """The folder as a place, once its children have the controllers. Only our own processes are moved for that."""
    try:
        offered = (folder / "cgroup.controllers").read_text().split()
        if not {"memory", "pids"} <= {*offered} or not os.access(folder, os.W_OK):
            return None
        given = (folder / "cgroup.subtree_control").read_text().split()
        wanted = [c for c in CONTROLLERS if c in offered]
        if not {"memory", "pids"} <= {*given}:
            inside = (folder / "cgroup.procs").read_text().split()
            if folder != root and inside:  # a group with processes of its own can give its children no controllers
                if {*inside} != {str(os.getpid())}:
                    return None
                (folder / "supervisor").mkdir(exist_ok=True)
                (folder / "supervisor" / "cgroup.procs").write_text(str(os.getpid()))
            (folder / "cgroup.subtree_control").write_text(" ".join(f"+{c}" for c in wanted))
            given = (folder / "cgroup.subtree_control").read_text().split()
        return Place(folder, tuple(c for c in wanted if c in given), 2)
    except OSError:
        return None


def _mounts() -> dict[str, Path]:
    """Where each controller of version 1, and `cgroup2`, is mounted."""
    found: dict[str, Path] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            if kind == "cgroup2":
                found.setdefault(kind, Path(before.split()[4]))
            elif kind == "cgroup":
                for controller in {*options.split(",")} & {*CONTROLLERS}:
                    found.setdefault(controller, Path(before.split()[4]))
    return found


def _own_groups() -> dict[str, str]:
    """Our own group by controller; the one of version 2 under the empty name."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _limits(version: int, memory_mb: int, processes: int, cores: float) -> dict[str, list[tuple[str, str, bool]]]:
    """Per controller the files to write, in order: (name, value, whether the control depends on it)."""
    bytes_, quota = str(memory_mb * MEBIBYTE), str(int(cores * PERIOD))
    if version == 2:
        return {
            "memory": [
                ("memory.max", bytes_, True), ("memory.swap.max", "0", False), ("memory.oom.group", "1", False),
            ],
            "pids": [("pids.max", str(processes), True)],
            "cpu": [("cpu.max", f"{quota} {PERIOD}", True)],
        }  # fmt: skip
    return {
        "memory": [
            ("memory.limit_in_bytes", bytes_, True), ("memory.memsw.limit_in_bytes", bytes_, False),
            ("memory.swappiness", "0", False),
        ],
        "pids": [("pids.max", str(processes), True)],
        "cpu": [("cpu.cfs_period_us", str(PERIOD), True), ("cpu.cfs_quota_us", quota, True)],
    }  # fmt: skip


def _write_all(folder: Path, files: list[tuple[str, str, bool]]) -> bool:
    """Whether every file that matters took its value, as read back."""
    for name, value, matters in files:
        try:
            (folder / name).write_text(value)
            held = (folder / name).read_text().strip() == value
        except OSError:
            held = False
        if matters and not held:
            return False
    return True
