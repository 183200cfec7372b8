"""How a worker process is started, and which controls hold it.

Always true: a control is reported only after it was applied and read back, so `controls` is evidence, not intention.
`launch_recipe` is the one place that decides how a worker starts; a stronger recipe (namespaces, seccomp) replaces it
without the host or the worker knowing. Limits are set by the worker itself before it imports anything of an author's,
because code run between fork and exec is not safe in a process with threads.
"""

from __future__ import annotations

import os
import resource
import site
import sys
import time
from dataclasses import dataclass

import msgspec

MEBIBYTE = 2**20


class Limits(msgspec.Struct, frozen=True):
    """What one worker may take of the machine. A child process of a worker gets the same limits for itself."""

    memory_mb: int = 2048
    """Address space, MiB."""
    open_files: int = 256
    """Descriptors open at once."""
    file_mb: int = 64
    """Size of any file it writes, MiB."""


@dataclass(frozen=True)
class Recipe:
    """Everything needed to start one worker."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    directory: str
    """Working directory: scratch space of this worker alone."""
    controls: tuple[str, ...]
    """Controls that hold by the way it is started."""


def launch_recipe(reply_descriptor: int, scratch: str) -> Recipe:
    """A process of its own session, with an environment that holds nothing of the supervisor's.

    Args:
        reply_descriptor: the inherited descriptor on which the worker answers.
        scratch: an empty directory for it to work in.
    """
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": scratch,
        "TMPDIR": scratch,
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",  # glibc reserves 64 MiB of address space for each further arena
    }
    if site.ENABLE_USER_SITE:
        environment["PYTHONUSERBASE"] = site.getuserbase()
    return Recipe(
        argv=(sys.executable, "-P", "-B", "-u", "-m", "aliquot.isolation.worker", str(reply_descriptor)),
        environment=environment,
        directory=scratch,
        controls=("process", "session", "env_scrubbed"),
    )


def apply_limits(limits: Limits) -> tuple[str, ...]:
    """Limit the calling process for good. Returns the names of the limits that hold, as read back from the kernel."""
    wanted = {
        "rlimit_as": (resource.RLIMIT_AS, limits.memory_mb * MEBIBYTE),
        "rlimit_nofile": (resource.RLIMIT_NOFILE, limits.open_files),
        "rlimit_fsize": (resource.RLIMIT_FSIZE, limits.file_mb * MEBIBYTE),
        "rlimit_core": (resource.RLIMIT_CORE, 0),
    }
    return tuple(name for name, (kind, value) in wanted.items() if _limit(kind, value))


def allow_processor_time(seconds: float) -> bool:
    """Let the calling process use about `seconds` more on every core, then end it by SIGXCPU.

    This is the backstop for a worker that holds the interpreter lock for ever after its supervisor is gone; while the
    supervisor lives, its own deadline comes first. Returns whether the limit holds.
    """
    soft = int(time.process_time() + (seconds + 1) * (os.cpu_count() or 1)) + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
    return resource.getrlimit(resource.RLIMIT_CPU)[0] == soft


def _limit(kind: int, value: int) -> bool:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (value, value))
    except (ValueError, OSError):  # a system without this limit: the control is then not reported
        return False
    return resource.getrlimit(kind) == (value, value)
