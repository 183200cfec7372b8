"""A worker behind bubblewrap: namespaces, an allow-list of files, a system call filter, no privilege.

Two recipes, picked by who we are:

* *ordinary user*: bubblewrap makes a user namespace; the worker is nobody in it and can make no further ones.
* *root*: root makes the mounts without a user namespace, then `setpriv` drops to a user id of the worker's own. A user
  namespace made by root would leave the worker root to the host's procfs, whose files (`core_pattern`) it could write.

Always true: bubblewrap itself starts with an empty environment, for its own would be readable in the worker's /proc;
the root file system and /dev are read-only, and what is writable (/tmp, /dev/shm) has a cap; the supervisor reads
nothing of what a worker wrote to files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from glob import glob

from aliquot.isolation import cgroups, seccomp
from aliquot.isolation.containment import Containment, SandboxUnavailable
from aliquot.isolation.frames import Walls
from aliquot.isolation.launch import BOOT, ENVIRONMENT, MEBIBYTE, Launch, Launcher, Limits
from aliquot.isolation.proxy import PORT, Proxy
from aliquot.isolation.settings import Settings
from aliquot.isolation.slots import take_slot
from aliquot.isolation.view import View, view_of

NOBODY = 65534
"""Who a worker is in its own user namespace."""
UNSHARED = ("pid", "net", "ipc", "uts", "cgroup")
KEPT = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
"""What `setpriv` needs to give everything up, these included."""
PROXY_SOCKET = "/run/aliquot/proxy"
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts")
GPU_DEVICES = ("/dev/nvidia*", "/dev/nvidia-caps", "/dev/dri", "/dev/kfd")
WRITABLE = ("/tmp", "/dev/shm")
CONTROLS = ("bubblewrap", "filesystem", "env_scrubbed", "scratch_capped")


def bubblewrap_launcher(containment: Containment, target: str, limits: Limits, settings: Settings) -> Launcher:
    """Launches of workers for one service.

    Raises (the launcher, when called):
        SandboxUnavailable: bubblewrap is missing, or a path cannot be shown.
        OSError: no user id is free, or no filter is known for this architecture.
    """

    def launch(reply_descriptor: int) -> Launch:
        if settings.program is None:
            raise SandboxUnavailable(("bubblewrap is not installed: apt install bubblewrap (or dnf, pacman, apk)",))
        view = view_of(containment, target, settings.pythons)
        with ExitStack() as held:
            uid = None
            if os.geteuid() == 0:
                slot = take_slot(settings.uids)
                held.callback(slot.release)
                uid = slot.uid
            places = cgroups.find_places(settings.groups)
            group = cgroups.Group.make(places, limits.group_mb, limits.processes + 3, limits.cores)
            held.callback(group.close)
            program = seccomp.program_file(bool(containment.network))
            held.callback(os.close, program)
            proxy = held.enter_context(Proxy(containment.network, settings.private)) if containment.network else None
            gpus = tuple(path for pattern in GPU_DEVICES for path in glob(pattern)) if containment.gpu else ()
            walls = Walls(
                readable=(*view.readable, "/proc"),
                writable=WRITABLE,
                devices=(*DEVICES, *gpus),
                port=PORT if proxy else None,
                proxy=PROXY_SOCKET if proxy else "",
                landlock="landlock" not in settings.without,
                address_space=not containment.gpu,
            )
            argv = (
                *group.enter(),
                settings.program,
                *_namespaces(uid),
                *_files(view, limits, gpus, proxy.path if proxy else None),
                *_environment(bool(proxy)),
                *("--die-with-parent", "--new-session", "--seccomp", str(program)),
                *(_become(uid) if uid is not None else ()),
                *(view.python, "-I", "-B", "-u", "-c", BOOT, str(reply_descriptor), ":".join(view.imports)),
            )
            return Launch(
                argv=argv,
                environment={},
                directory="/",
                controls=(*CONTROLS, *group.controls),
                walls=walls,
                descriptors=(program,),
                lasting=True,
                uid=uid,
                group=group,
                held=held.pop_all(),
            )

    return launch


def _namespaces(uid: int | None) -> Iterator[str]:
    yield from (f"--unshare-{name}" for name in UNSHARED)
    yield from ("--hostname", "worker", "--cap-drop", "ALL")
    if uid is None:
        yield from ("--unshare-user", "--disable-userns", "--uid", str(NOBODY), "--gid", str(NOBODY))
    else:
        for capability in KEPT:
            yield from ("--cap-add", capability)


def _files(view: View, limits: Limits, gpus: tuple[str, ...], proxy: str | None) -> Iterator[str]:
    """Mounts in order: file systems in memory first, then what is shown, with folders that anybody may pass above."""
    yield from ("--proc", "/proc", "--dev", "/dev")
    for path, size in zip(WRITABLE, (limits.scratch_mb, limits.shared_mb), strict=True):
        yield from ("--perms", "1777", "--size", str(size * MEBIBYTE), "--tmpfs", path)
    made = {"/", "/proc", "/dev", *WRITABLE}
    binds = [(here, there) for here, there in view.binds]
    if proxy:
        binds.append((proxy, PROXY_SOCKET))
    for here, there in binds:
        for folder in _above(there):
            if folder not in made and not any(folder.startswith(f"{shown}/") for _, shown in binds if shown in made):
                yield from ("--perms", "0755", "--dir", folder)
                made.add(folder)
        yield from ("--ro-bind", here, there)
        made.add(there)
    for target, path in view.links:
        yield from ("--symlink", target, path)
    for path in gpus:
        yield from ("--dev-bind", path, path)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp")


def _above(path: str) -> list[str]:
    """Folders above a path, outermost first, without the root."""
    parts = path.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: i + 1]) for i in range(len(parts))]


def _environment(proxied: bool) -> Iterator[str]:
    yield "--clearenv"
    values = ENVIRONMENT | {"HOME": "/tmp", "TMPDIR": "/tmp", "LOGNAME": "worker"}
    if proxied:
        address = f"http://127.0.0.1:{PORT}"
        values |= {name: address for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")}
    for name, value in values.items():
        yield from ("--setenv", name, value)


def _become(uid: int) -> tuple[str, ...]:
    return (
        *("setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--no-new-privs"),
        *("--bounding-set=-all", "--inh-caps=-all", "--"),
    )
