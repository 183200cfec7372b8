"""The doctor proves that this machine can contain a stranger's code, by sending a canary that tries to get out.

Always true: a control is `held` only when the canary was seen to fail at what it forbids, or when the kernel said so
from outside; a probe that could not be made is not held. Where one that is needed does not hold, untrusted code is
refused and told why; it is never run behind less. What an operator may do without is said in `settings`.

The examination is kept for `KEPT_SECONDS`, then made again before the next worker starts: a machine changes.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from aliquot.isolation.containment import Containment, SandboxUnavailable
from aliquot.isolation.evidence import findings, worker_of
from aliquot.isolation.frames import Call, Contain, Load, ProtocolError, Reply, decode_reply, frame
from aliquot.isolation.launch import Limits
from aliquot.isolation.process import WorkerLost, WorkerProcess
from aliquot.isolation.proving import REQUIRED, contained_launcher
from aliquot.isolation.settings import Settings, read_settings
from aliquot.isolation.watchdog import descendants

KEPT_SECONDS = 300.0
CANARY = "aliquot.isolation.canary:factory"
LIMITS = Limits(memory_mb=256, scratch_mb=8, processes=24)
PROBE_SECONDS = 20.0
GONE_SECONDS = 5.0

KERNEL = "it should hold on every kernel since 5.10; report this machine"
NAMESPACES_REFUSED = (
    "this kernel or container refuses namespaces. On Ubuntu allow bubblewrap in AppArmor "
    "(sysctl kernel.apparmor_restrict_unprivileged_userns=0 allows everybody); in Docker start the container with "
    "--security-opt seccomp=unconfined --security-opt systempaths=unconfined, as root with --cap-add SYS_ADMIN; "
    "or set ALIQUOT_SANDBOX=runsc and install gVisor"
)
REMEDIES = {
    "start": "see what the program said",
    "memory_group": "run as root, or under `systemd-run --user --scope -p Delegate=yes`, or name delegated folders in "
    "ALIQUOT_SANDBOX_CGROUPS; ALIQUOT_SANDBOX_WITHOUT=memory accepts a watchdog instead",
    "landlock": "a kernel with Landlock (5.13 or newer, with `landlock` in its list of security modules); "
    "ALIQUOT_SANDBOX_WITHOUT=landlock goes without this second wall",
    "unprivileged_user": "give root a range of free user ids in ALIQUOT_SANDBOX_UIDS, or start as an ordinary user",
}
"""Control → what to do when it does not hold; `KERNEL` for all others."""
TRIED = {
    "start": "start a worker behind the sandbox",
    "unprivileged_user": "look from outside whom the kernel takes it for",
    "no_new_privileges": "look from outside whether a set-user-id program could raise it",
    "seccomp": "look from outside whether a filter of system calls holds it",
    "no_capabilities": "look from outside for privileges that are left",
    "namespaces": "look from outside for namespaces that it shares with us",
    "no_network": "look from outside for links and routes",
    "memory_group": "look for a control group that limits its memory",
    "control_group": "look from outside whether it is in its control group",
    "landlock": "have it give up all paths and ports but its own",
    "limits": "read its limits back from the kernel",
    "files_hidden": "read files of others, a password file among them",
    "files_read_only": "write to /, /usr, /dev and the interpreter",
    "sysctls_closed": "open every setting of the kernel for writing",
    "environment_hidden": "find the supervisor's environment in /proc",
    "descriptors_closed": "find open descriptors that are not its own",
    "system_calls_refused": "make every denied system call",
    "network_closed": "make sockets of every family, and reach a server outside",
    "own_kernel": "ask which kernel answers",
    "scratch_capped": "fill /tmp and /dev/shm",
    "processes_capped": "fork without end",
    "memory_capped": "take more memory than it may, in several processes",
    "killed_whole": "leave a process that ignores all signals, then end the sandbox",
}
PROBES = tuple(TRIED)[list(TRIED).index("files_hidden") : list(TRIED).index("memory_capped")]
OF_ONE_TIER = {"own_kernel": "runsc", "sysctls_closed": "bwrap", "system_calls_refused": "bwrap"}
"""Probes that make sense behind one sandbox only: in gVisor a system call reaches gVisor."""


@dataclass(frozen=True)
class Control:
    """One thing that must not be possible."""

    name: str
    held: bool
    tried: str
    found: str
    """What was seen; empty: nothing but refusals."""
    remedy: str
    """What to do when it does not hold."""


@dataclass(frozen=True)
class Examination:
    """What was proven, and whether that is enough for a stranger's code."""

    controls: tuple[Control, ...]
    tier: str
    waived: tuple[str, ...] = ()
    """Controls that the operator does without."""
    when: float = field(default_factory=time.time)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What is missing, each with its remedy; empty when nothing is."""
        missing = [c for c in self.controls if not c.held and c.name not in self.waived]
        return tuple(f"{c.name}: {c.found or 'could not be proven'} ({c.remedy})" for c in missing)

    @property
    def sufficient(self) -> bool:
        return not self.reasons


_kept: dict[tuple[Settings, int], tuple[float, Examination]] = {}
_lock = threading.Lock()


def examine(fresh: bool = False) -> Examination:
    """The proof for this process, made now if there is none of the last minutes.

    Args:
        fresh: make it now in any case.
    """
    try:
        settings = read_settings()
    except SandboxUnavailable as error:
        return Examination((_control("start", False, "; ".join(error.reasons)),), "none")
    key = (settings, os.geteuid())
    with _lock:
        kept = _kept.get(key)
        if not fresh and kept is not None and time.monotonic() - kept[0] < KEPT_SECONDS:
            return kept[1]
        made = _examine(settings)
        _kept[key] = (time.monotonic(), made)
        return made


def _examine(settings: Settings) -> Examination:
    waived = tuple({"memory": "memory_group", "landlock": "landlock"}[name] for name in settings.without)
    try:
        controls = tuple(_try_everything(settings))
    except SandboxUnavailable as error:
        controls = (_control("start", False, "; ".join(error.reasons)),)
    except (OSError, WorkerLost, ProtocolError, msgspec.MsgspecError) as error:
        refused = any(word in str(error) for word in ("namespace", "uid map", "Operation not permitted", "proc"))
        remedy = NAMESPACES_REFUSED if refused else ""
        controls = (_control("start", False, f"{type(error).__name__}: {error}", remedy),)
    return Examination(controls, settings.tier, waived)


def _try_everything(settings: Settings) -> list[Control]:
    """Every control of a canary that was started and loaded. Raises what keeps it from starting."""
    secret = secrets.token_hex(16)
    with (
        tempfile.TemporaryDirectory(prefix="aliquot-canary-") as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        os.chmod(folder, 0o755)
        marker = Path(folder, "marker")
        marker.write_text(secret)
        marker.chmod(0o644)
        os.environ[variable := f"ALIQUOT_CANARY_{os.getpid()}"] = secret
        try:
            process = WorkerProcess(contained_launcher(Containment(), CANARY, LIMITS, settings), LIMITS)
        finally:
            del os.environ[variable]
        try:
            said = _ask(process, Contain(1, LIMITS, process.launch.walls, False, PROBE_SECONDS))
            worker = worker_of(process.pid, process.launch)
            if worker is None:
                raise OSError("the canary cannot be found below its sandbox")
            held = (*process.controls, *said.controls)
            controls = [_control(f.name, f.held, "" if f.held else f.found) for f in findings(worker, process.launch)]
            controls += [c for c in _read_back(held) if settings.tier == "bwrap" or c.name != "landlock"]
            argument = {
                "marker": str(marker),
                "secret": secret,
                "tier": settings.tier,
                "release": os.uname().release,
                "hidden": [str(Path.home() / ".ssh"), str(Path.cwd()), "/etc/hostname", "/var/log"],
                "port": server.getsockname()[1],
                "scratch_mb": LIMITS.scratch_mb,
                "shared_mb": LIMITS.shared_mb,
                "processes": LIMITS.processes,
                "memory_mb": LIMITS.memory_mb,
            }
            loaded = _ask(process, Load(2, CANARY, argument, PROBE_SECONDS))
            if loaded.error:
                raise OSError(loaded.error)
            for name in (name for name in PROBES if OF_ONE_TIER.get(name, settings.tier) == settings.tier):
                controls.append(_probe(process, name))
            _probe(process, "leave_daemon")
            everything = [process.pid, *descendants(process.pid)]
            controls.append(_memory(process))
        finally:
            process.kill()
        controls.append(_all_gone(everything))
    return controls


def _ask(process: WorkerProcess, request: Contain | Load | Call) -> Reply:
    reply = decode_reply(process.exchange(frame(request), PROBE_SECONDS))
    if reply.nonce != request.nonce:
        raise ProtocolError("the canary answered another request")
    return reply


def _read_back(held: tuple[str, ...]) -> list[Control]:
    limits = [name for name in (*REQUIRED, "rlimit_as") if name.startswith("rlimit_") and name not in held]
    landlock = any(name.startswith("landlock_") for name in held)
    return [
        _control("limits", not limits, f"not held: {', '.join(limits)}" if limits else ""),
        _control("landlock", landlock, "" if landlock else "the kernel has none"),
        _control("memory_group", "cgroup_memory" in held, "" if "cgroup_memory" in held else "no group can be made"),
    ]


def _probe(process: WorkerProcess, name: str) -> Control:
    try:
        reply = _ask(process, Call(secrets.randbits(63), "probe", [name], PROBE_SECONDS))
    except (WorkerLost, ProtocolError, msgspec.MsgspecError) as error:
        return _control(name, False, str(error))
    if reply.error or len(reply.items) != 1:
        return _control(name, False, reply.error.strip().rpartition("\n")[2])
    return _control(name, reply.items[0] == "", str(reply.items[0]) and f"the canary succeeded: {reply.items[0]}")


def _memory(process: WorkerProcess) -> Control:
    """Comes last: that the whole worker is killed is one way of holding it."""
    try:
        reply = _ask(process, Call(secrets.randbits(63), "probe", ["memory_capped"], PROBE_SECONDS))
        return _control("memory_capped", reply.items == [""] and not reply.error, str(reply.items or reply.error))
    except WorkerLost as lost:
        return _control("memory_capped", "MiB together" in str(lost), str(lost))
    except (ProtocolError, msgspec.MsgspecError) as error:
        return _control("memory_capped", False, str(error))


def _all_gone(pids: list[int]) -> Control:
    deadline = time.monotonic() + GONE_SECONDS
    while left := [pid for pid in pids if _lives(pid)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.002)
    return _control("killed_whole", len(pids) >= 4 and not left, f"{len(left)} of {len(pids)} processes are left")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _control(name: str, held: bool, found: str, remedy: str = "") -> Control:
    return Control(name, held, TRIED.get(name, ""), "" if held else found, remedy or REMEDIES.get(name, KERNEL))


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
