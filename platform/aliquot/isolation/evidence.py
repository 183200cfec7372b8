"""What the kernel says of a worker, read from outside, before any of the plugin's code has run in it.

Always true: nothing here is taken from the worker's own word. `/proc` shows who it is for the kernel, which namespaces
it is in, what filter and which privileges it has; none of that can be undone from inside.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from aliquot.isolation.launch import Launch
from aliquot.isolation.watchdog import children_of

NAMESPACES = ("mnt", "pid", "net", "ipc", "uts", "cgroup")
OF_GVISOR = ("mnt", "net", "ipc", "uts", "user")
"""Processes in gVisor are seen by its own kernel alone."""
CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


@dataclass(frozen=True)
class Finding:
    """One control: whether it holds, and what was seen."""

    name: str
    held: bool
    found: str


def worker_of(sandbox: int, launch: Launch) -> int | None:
    """The worker inside: sandbox → first process of its namespace → worker, or gVisor's kernel, which is what stands
    for the worker outside. None: it is not there (any more)."""
    if "gvisor" in launch.controls:
        kernels = [pid for pid in children_of(sandbox) if _name(pid) == b"runsc-sandbox"]
        return kernels[0] if len(kernels) == 1 else None
    pid = sandbox
    for _ in range(2):
        children = children_of(pid)
        if len(children) != 1:
            return None
        pid = children[0]
    return pid


def findings(pid: int, launch: Launch) -> list[Finding]:
    """What holds a worker.

    Raises:
        OSError: it has died.
    """
    status = _status(pid)
    if "gvisor" in launch.controls:
        return [
            _kernel(pid, status),
            _flag("no_new_privileges", status, "NoNewPrivs", "1"),
            _flag("seccomp", status, "Seccomp", "2"),
            _namespaces(pid, OF_GVISOR),
            _network(pid),
            *_groups(pid, launch),
        ]
    return [
        _user(pid, status, launch.uid),
        _flag("no_new_privileges", status, "NoNewPrivs", "1"),
        _flag("seccomp", status, "Seccomp", "2"),
        _capabilities(status),
        _namespaces(pid, NAMESPACES),
        _network(pid),
        *_groups(pid, launch),
    ]


def _name(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return b""


def _kernel(pid: int, status: dict[str, str]) -> Finding:
    """gVisor's kernel runs as nobody, in a user namespace of its own."""
    user = status["Uid"].split()[0]
    apart = _link(pid, "user") != _link(os.getpid(), "user")
    return Finding("unprivileged_user", apart and user != "0", f"user {user}, user namespace apart: {apart}")


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _user(pid: int, status: dict[str, str], uid: int | None) -> Finding:
    """Never root for the kernel, nor ours without a user namespace of its own."""
    ids = {*map(int, status["Uid"].split()), *map(int, status["Gid"].split())}
    if uid is not None:
        return Finding("unprivileged_user", ids == {uid} and uid != 0, f"user {status['Uid'].split()[0]}")
    mapped = [line.split() for line in Path(f"/proc/{pid}/uid_map").read_text().splitlines()]
    owner = os.geteuid()
    apart = _link(pid, "user") != _link(os.getpid(), "user")
    held = apart and owner != 0 and 0 not in ids and all(line[1:] == [str(owner), "1"] for line in mapped)
    shown = "; ".join(" ".join(line) for line in mapped)
    return Finding("unprivileged_user", held, f"user {status['Uid'].split()[0]}, mapped {shown}")


def _flag(name: str, status: dict[str, str], key: str, wanted: str) -> Finding:
    return Finding(name, status.get(key) == wanted, f"{key} {status.get(key, 'not shown')}")


def _capabilities(status: dict[str, str]) -> Finding:
    left = [name for name in CAPABILITIES if int(status.get(name, "f"), 16)]
    return Finding("no_capabilities", not left, f"left: {', '.join(left)}" if left else "none left")


def _namespaces(pid: int, names: tuple[str, ...]) -> Finding:
    shared = [name for name in names if _link(pid, name) == _link(os.getpid(), name)]
    return Finding("namespaces", not shared, f"shared: {', '.join(shared)}" if shared else "none shared")


def _network(pid: int) -> Finding:
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    links = [line.partition(":")[0].strip() for line in lines]
    routes = Path(f"/proc/{pid}/net/route").read_text().splitlines()[1:]
    return Finding("no_network", links == ["lo"] and not routes, f"links {', '.join(links)}; {len(routes)} routes")


def _groups(pid: int, launch: Launch) -> list[Finding]:
    if launch.group is None or not launch.group.controls:
        return []
    name = next(iter(launch.group.folders)).name
    within = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    count = sum(line.endswith(f"/{name}") for line in within)
    held = count >= len(launch.group.folders)
    return [Finding("control_group", held, f"in {count} of {len(launch.group.folders)} groups")]


def _link(pid: int, namespace: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{namespace}")
