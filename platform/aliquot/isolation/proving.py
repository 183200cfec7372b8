"""Which launch a service gets, and whether a worker that was launched may be given a stranger's code.

Always true: a worker is admitted only when every control in `REQUIRED` was seen from outside or read back by the worker
before any of the plugin's code was imported; and only on a machine whose canary (`doctor`) proved that these controls
do what they say.
"""

from __future__ import annotations

from aliquot.isolation.containment import Containment, SandboxUnavailable
from aliquot.isolation.evidence import findings, worker_of
from aliquot.isolation.launch import Launcher, Limits, trusted_launcher
from aliquot.isolation.process import WorkerProcess
from aliquot.isolation.settings import Settings, read_settings

REQUIRED = (
    "no_new_privileges", "no_capabilities", "seccomp", "namespaces", "no_network", "unprivileged_user",
    "rlimit_nproc", "rlimit_nofile", "rlimit_fsize", "rlimit_core",
)  # fmt: skip
"""Of every contained worker, whatever the operator says."""


def launcher_for(containment: Containment, target: str, limits: Limits) -> Launcher:
    """The launches of one service.

    Raises:
        SandboxUnavailable: the code is not trusted, and the controls cannot be proven here.
    """
    if containment.trusted:
        return trusted_launcher(containment.python)
    from aliquot.isolation.doctor import examine

    examination = examine()
    if not examination.sufficient:
        raise SandboxUnavailable(examination.reasons)
    return contained_launcher(containment, target, limits, read_settings())


def contained_launcher(containment: Containment, target: str, limits: Limits, settings: Settings) -> Launcher:
    """Launches behind the sandbox that the operator chose."""
    if settings.tier == "runsc":
        from aliquot.isolation.gvisor import gvisor_launcher

        return gvisor_launcher(containment, target, limits, settings)
    from aliquot.isolation.bubblewrap import bubblewrap_launcher

    return bubblewrap_launcher(containment, target, limits, settings)


def admit(process: WorkerProcess, said: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """(process id of the worker, controls seen from outside) of one that may go on.

    Args:
        said: what the worker read back of its own limits, before it knew the plugin.

    Raises:
        SandboxUnavailable: a control does not hold.
    """
    if process.launch.walls is None:
        return process.pid, ()
    pid = worker_of(process.pid, process.launch)
    if pid is None:
        raise SandboxUnavailable(("the worker cannot be found below its sandbox, so nothing of it can be proven",))
    seen = findings(pid, process.launch)
    held = {*said, *process.controls, *(finding.name for finding in seen if finding.held)}
    if missing := missing_controls(held, read_settings(), process.launch.walls.address_space):
        about = {finding.name: finding.found for finding in seen}
        reasons = (f"{name} does not hold for a worker ({about.get(name, 'not read back')})" for name in missing)
        raise SandboxUnavailable(tuple(reasons))
    return pid, tuple(finding.name for finding in seen if finding.held)


def missing_controls(held: set[str], settings: Settings, address_space: bool = True) -> list[str]:
    """Controls that a worker must have and has not."""
    wanted = [*REQUIRED, *(["rlimit_as"] if address_space else [])]
    missing = [name for name in wanted if name not in held]
    if settings.tier == "runsc":  # a kernel of its own has no use for Landlock, and its privileges are those of nobody
        missing = [name for name in missing if name != "no_capabilities"]
    elif "landlock" not in settings.without and not any(name.startswith("landlock_") for name in held):
        missing.append("landlock")
    if "cgroup_memory" not in held and not ("memory" in settings.without and "watchdog_memory" in held):
        missing.append("memory")
    return missing
