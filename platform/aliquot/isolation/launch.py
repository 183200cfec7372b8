"""How a worker process is started, and the limits that it puts on itself.

Always true: a control is reported only after it was applied and read back, so `controls` is evidence, not intention.
A `Launch` is everything that one worker is made of and all that has to be given back when it ends; `bubblewrap` and
`gvisor` make stronger ones, without the host or the worker knowing. Limits are set by the worker itself before it
imports anything of an author's, because code run between fork and exec is not safe in a process with threads.
"""

from __future__ import annotations

import os
import resource
import site
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from aliquot.isolation.cgroups import Group
    from aliquot.isolation.frames import Walls

MEBIBYTE = 2**20
BOOT = (
    "import sys; sys.argv.pop(0); sys.path.extend(filter(None, sys.argv.pop().split(':')));"
    "from aliquot.isolation.worker import main; main(int(sys.argv[0]))"
)
"""Program of a worker that does not find this project by itself; arguments: the reply descriptor, folders to add."""
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",  # glibc reserves 64 MiB of address space for each further arena
}


class Limits(msgspec.Struct, frozen=True):
    """What one worker may take of the machine. A child process of a worker gets the same limits for itself; where the
    worker is contained, `memory_mb`, `processes` and `cores` hold all of its processes together too."""

    memory_mb: int = 2048
    """Address space, MiB."""
    open_files: int = 256
    """Descriptors open at once."""
    file_mb: int = 64
    """Size of any file it writes, MiB."""
    processes: int = 64
    """Processes and threads at once. Holds contained workers only."""
    scratch_mb: int = 64
    """Everything in its /tmp together, MiB; its /dev/shm may take a quarter of that. Holds contained workers only."""
    cores: float = 1.0
    """Processor time per second. Holds contained workers only, and where control groups can be made."""

    @property
    def group_mb(self) -> int:
        """Memory of all its processes together, with what it writes to its file systems in memory, MiB."""
        return self.memory_mb + self.scratch_mb + self.shared_mb

    @property
    def shared_mb(self) -> int:
        return max(1, self.scratch_mb // 4)


@dataclass
class Launch:
    """Everything needed to start one worker, and to give back what it held."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    directory: str
    """Working directory of the process that is started."""
    controls: tuple[str, ...]
    """Controls that hold by the way it is started."""
    walls: Walls | None = None
    """What the worker is told to put up around itself; None: limits only."""
    descriptors: tuple[int, ...] = ()
    """To be inherited, beside the one for replies."""
    lasting: bool = False
    """Whether it dies with the thread that starts it, so that a lasting one must."""
    replies_on_output: bool = False
    """Whether only the standard descriptors get through, so that replies come on the standard output."""
    uid: int | None = None
    """User it must run as; None: ours."""
    group: Group | None = None
    held: ExitStack = field(default_factory=ExitStack)
    """What is given back when the worker has ended."""


Launcher = Callable[[int], Launch]
"""Makes the launch of a worker that answers on this descriptor."""


def trusted_launcher(python: str | None = None) -> Launcher:
    """A process of its own session, in an empty folder, with an environment that holds nothing of the supervisor's.

    Args:
        python: interpreter of an environment of its own; None: ours.
    """

    def launch(reply_descriptor: int) -> Launch:
        held = ExitStack()
        scratch = held.enter_context(tempfile.TemporaryDirectory(prefix="aliquot-worker-", ignore_cleanup_errors=True))
        environment = ENVIRONMENT | {"HOME": scratch, "TMPDIR": scratch}
        argv: tuple[str, ...] = (sys.executable, "-P", "-B", "-u", "-m", "aliquot.isolation.worker")
        last: tuple[str, ...] = (str(reply_descriptor),)
        if python is not None:
            sources = held.enter_context(tempfile.TemporaryDirectory(prefix="aliquot-rooms-"))
            _link_rooms(sources)
            argv, last = (python, "-I", "-B", "-u", "-c", BOOT), (*last, sources)
        elif site.ENABLE_USER_SITE:
            environment["PYTHONUSERBASE"] = site.getuserbase()
        return Launch((*argv, *last), environment, scratch, ("process", "session", "env_scrubbed"), held=held)

    return launch


def apply_limits(limits: Limits, contained: bool = False, address_space: bool = True) -> tuple[str, ...]:
    """Limit the calling process for good. Returns the names of the limits that hold, as read back from the kernel.

    Args:
        contained: it is alone under its user id or in its namespace, so that processes can be counted; and what only
            a stranger would ask for is taken away.
        address_space: whether that is limited too.
    """
    wanted = {
        "rlimit_nofile": ("NOFILE", limits.open_files),
        "rlimit_fsize": ("FSIZE", limits.file_mb * MEBIBYTE),
        "rlimit_core": ("CORE", 0),
    }
    if address_space:
        wanted["rlimit_as"] = ("AS", limits.memory_mb * MEBIBYTE)
    if contained:
        wanted["rlimit_nproc"] = ("NPROC", limits.processes)
        wanted["rlimit_memlock"] = ("MEMLOCK", MEBIBYTE)
        wanted["rlimit_msgqueue"] = ("MSGQUEUE", 0)
        wanted["rlimit_sigpending"] = ("SIGPENDING", 1024)
        wanted["rlimit_nice"] = ("NICE", 0)
        wanted["rlimit_rtprio"] = ("RTPRIO", 0)
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


def _limit(name: str, value: int) -> bool:
    kind = getattr(resource, f"RLIMIT_{name}", None)
    if kind is None:  # a system without this limit: the control is then not reported
        return False
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (value, value))
    except (ValueError, OSError):
        return False
    return resource.getrlimit(kind) == (value, value)


def _link_rooms(folder: str) -> None:
    from aliquot.isolation.view import rooms

    os.mkdir(os.path.join(folder, "aliquot"))
    for name, room in rooms().items():
        os.symlink(room, os.path.join(folder, "aliquot", name))
