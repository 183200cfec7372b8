"""A worker behind gVisor: a kernel of its own, in user space, between the plugin and the machine's.

For shared hosting, where a flaw in the machine's kernel must not be a plugin's way out; a system call costs more here.
Chosen by `ALIQUOT_SANDBOX=runsc`. The files shown and the limits are those of bubblewrap's worker. gVisor passes on no
descriptors but the standard ones, so replies come on the standard output, and what the plugin prints goes to the
standard error. It needs root; hosts cannot be allowed (`network`), nor GPUs.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from aliquot.isolation import cgroups
from aliquot.isolation.containment import Containment, SandboxUnavailable
from aliquot.isolation.frames import Walls
from aliquot.isolation.launch import BOOT, ENVIRONMENT, MEBIBYTE, Launch, Launcher, Limits
from aliquot.isolation.settings import Settings
from aliquot.isolation.slots import take_slot
from aliquot.isolation.view import View, view_of

REPLIES = 1
CONTROLS = ("gvisor", "filesystem", "env_scrubbed", "scratch_capped")
OVERHEAD_MB = 256
"""What gVisor's own processes may take beside the worker."""
HELPERS = 512
"""Threads and processes of gVisor itself."""
DIE_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
"""gVisor's processes follow `runsc run`; nothing ties that one to us."""
NAMESPACES = ("pid", "network", "ipc", "uts", "mount")


def gvisor_launcher(containment: Containment, target: str, limits: Limits, settings: Settings) -> Launcher:
    """Launches of workers for one service.

    Raises (the launcher, when called):
        SandboxUnavailable: `runsc` is missing, we are not root, or the containment asks for what this tier has not.
    """

    def launch(reply_descriptor: int) -> Launch:
        if settings.program is None:
            raise SandboxUnavailable(("gVisor is not installed: apt install runsc, or see gvisor.dev",))
        if os.geteuid() != 0:
            raise SandboxUnavailable(("gVisor is started by root here; an ordinary user has ALIQUOT_SANDBOX=bwrap",))
        if containment.network or containment.gpu:
            raise SandboxUnavailable(("a plugin that needs a network or a GPU cannot run behind gVisor here",))
        view = view_of(containment, target, settings.pythons)
        with ExitStack() as held:
            slot = take_slot(settings.uids)
            held.callback(slot.release)
            folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="aliquot-gvisor-")))
            group = cgroups.Group.make(
                cgroups.find_places(settings.groups),
                limits.group_mb + OVERHEAD_MB,
                limits.processes + HELPERS,
                limits.cores + 1,
            )
            held.callback(group.close)
            (folder / "rootfs").mkdir()
            for link_target, path in view.links:
                (folder / "rootfs" / path.lstrip("/")).symlink_to(link_target)
            configuration = bundle(view, limits, slot.uid)
            (folder / "config.json").write_text(json.dumps(configuration))
            name = f"aliquot-{os.getpid()}-{secrets.token_hex(4)}"
            runsc: tuple[str, ...] = (
                settings.program,
                "--root",
                str(folder / "state"),
                "--network=none",
                "--ignore-cgroups",
            )
            if settings.platform:
                runsc = (*runsc, f"--platform={settings.platform}")
            held.callback(_delete, (*runsc, "delete", "--force", name))
            return Launch(
                argv=(*group.enter(), *DIE_WITH_US, *runsc, "run", "--bundle", str(folder), name),
                environment={"PATH": ENVIRONMENT["PATH"]},
                directory="/",
                controls=(*CONTROLS, *group.controls),
                walls=Walls((), ("/tmp", "/dev/shm"), (), None, "", landlock=False, address_space=True),
                lasting=True,
                replies_on_output=True,
                uid=slot.uid,
                group=group,
                held=held.pop_all(),
            )

    return launch


def bundle(view: View, limits: Limits, uid: int) -> dict[str, Any]:
    """The configuration that runsc reads, as the OCI runtime specification 1.0.2 has it."""
    environment = ENVIRONMENT | {"HOME": "/tmp", "TMPDIR": "/tmp", "LOGNAME": "worker"}
    argv = [view.python, "-I", "-B", "-u", "-c", BOOT, str(REPLIES), ":".join(view.imports)]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": uid, "gid": uid},
            "args": argv,
            "env": [f"{name}={value}" for name, value in environment.items()],
            "cwd": "/tmp",
            "capabilities": {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")},
            "noNewPrivileges": True,
        },
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "worker",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            _memory("/tmp", limits.scratch_mb),
            _memory("/dev/shm", limits.shared_mb),
            *(
                {"destination": there, "type": "bind", "source": here, "options": ["ro", "rbind", "nosuid", "nodev"]}
                for here, there in view.binds
            ),
        ],
        "linux": {"namespaces": [{"type": name} for name in NAMESPACES]},
    }


def _memory(path: str, megabytes: int) -> dict[str, Any]:
    options = ["nosuid", "nodev", "mode=1777", f"size={megabytes * MEBIBYTE}"]
    return {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": options}


def _delete(command: tuple[str, ...]) -> None:
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    shutil.rmtree(command[2], ignore_errors=True)
