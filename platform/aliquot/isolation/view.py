"""What a contained worker sees of the machine's files: an allow-list, all of it read-only.

Always true: nothing is shown but the system's libraries and programs (/usr), a Python interpreter with its packages,
the light rooms of this project, the file or package of the target, and the paths that its `Containment` names. No home
folder, no /etc but four files of the linker and the clock, no working directory. No path of an environment is followed
out of it, for the packages in it are not ours.
"""

from __future__ import annotations

import importlib.util
import os
import site
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import aliquot
from aliquot.isolation.containment import Containment, SandboxUnavailable
from aliquot.isolation.loading import split_target

ROOMS = ("clock", "domain", "isolation", "lab_adapters", "verifiers")
"""The parts of the project that a plugin may import."""
SOURCES = "/opt/aliquot"
"""Where these rooms stand in a worker."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/alternatives")
CERTIFICATES = ("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls", "/etc/pki/ca-trust")
OF_A_PREFIX = ("bin", "lib", "lib64", "share", "pyvenv.cfg")
"""What is shown of an interpreter's folder; a home folder may be one."""
NEVER = ("/", "/boot", "/dev", "/etc", "/home", "/mnt", "/opt", "/proc", "/root", "/run", "/srv", "/sys", "/var")
"""Too much to be shown to anybody; single folders in them may be."""


@dataclass(frozen=True)
class View:
    """Files of one worker."""

    binds: tuple[tuple[str, str], ...]
    """(path here, path there), parents first."""
    links: tuple[tuple[str, str], ...]
    """(target, path there)."""
    python: str
    """The interpreter, as a path there."""
    imports: tuple[str, ...]
    """Folders to be added to its import path."""

    @property
    def readable(self) -> tuple[str, ...]:
        return tuple(there for _, there in self.binds)


def view_of(containment: Containment, target: str, pythons: tuple[str, ...] = ()) -> View:
    """The files that one service needs.

    Args:
        pythons: further folders of base interpreters that the operator allows.

    Raises:
        SandboxUnavailable: a path cannot be shown, or does not exist; the reason says which.
    """
    binds: dict[str, str] = {}
    links = []
    for path in SYSTEM:
        if os.path.islink(path):
            links.append((os.readlink(path), path))
        elif os.path.isdir(path):
            binds[path] = path
    for path in (*SETTINGS, *(CERTIFICATES if containment.network else ())):
        if os.path.exists(path):
            binds[path] = os.path.realpath(path)
    if containment.python is None:
        python, prefixes = sys.executable, {sys.prefix, sys.base_prefix, sys.exec_prefix}
        if site.ENABLE_USER_SITE and os.path.isdir(user := site.getusersitepackages()):
            binds[user] = user
    else:
        python, prefixes = containment.python, _prefixes_of(containment.python, pythons)
    for prefix in prefixes:
        binds.update(_shown_of(prefix))
    binds.update({f"{SOURCES}/aliquot/{name}": folder for name, folder in rooms().items()})
    imports = [SOURCES, *_user_site(containment)]
    for path in (*_source_of(target), *containment.read_only):
        binds[os.path.abspath(path)] = _allowed(path)
    ordered = sorted(binds.items(), key=lambda item: item[0].count("/"))
    shown: list[tuple[str, str]] = []
    for there, here in ordered:
        if not any(_within(there, above) and here == there for h, above in shown if h == above):
            shown.append((here, there))
    return View(tuple(shown), tuple(links), python, tuple(imports))


def rooms() -> dict[str, str]:
    """The folder of each light room, wherever this distribution is installed."""
    found: dict[str, str] = {}
    for root in aliquot.__path__:
        for name in ROOMS:
            if os.path.isdir(folder := os.path.join(root, name)):
                found.setdefault(name, folder)
    return found


def _user_site(containment: Containment) -> list[str]:
    return [site.getusersitepackages()] if containment.python is None and site.ENABLE_USER_SITE else []


def _source_of(target: str) -> list[str]:
    """The file of a one-file plugin, or the package or module that stands outside the interpreter's own folders."""
    location, _ = split_target(target)
    if location.endswith(".py"):
        return [location]
    top = location.partition(".")[0]
    if top == "aliquot":
        return []
    spec = importlib.util.find_spec(top)
    if spec is None:
        return []  # the worker will say so, with the traceback that the author wants
    return list(spec.submodule_search_locations or filter(None, [spec.origin]))


def _allowed(path: str) -> str:
    real = os.path.realpath(path)
    if not os.path.exists(real):
        raise SandboxUnavailable((f"{path} is to be shown to a plugin, and is not there",))
    home = os.path.realpath(Path.home())
    if real in NEVER or _within(home, real) or any(_within(real, tree) for tree in ("/proc", "/sys", "/dev")):
        raise SandboxUnavailable((f"{path} is too much to be shown to a plugin; name the folder in it that is needed",))
    return real


def _shown_of(prefix: str) -> dict[str, str]:
    """Of an interpreter's folder, the parts that it runs from; a link that leads out of the folder is not followed."""
    found = {}
    for name in OF_A_PREFIX:
        there = os.path.join(prefix, name)
        here = os.path.realpath(there)
        if os.path.exists(here) and (prefix == sys.prefix or _within(here, os.path.realpath(prefix))):
            found[there] = here
    return found


def _prefixes_of(python: str, pythons: tuple[str, ...]) -> set[str]:
    """The environment of an interpreter, and its base. Read from `pyvenv.cfg`; the interpreter itself is not run.

    What is written there may come from a package, so the base must be one that is known: ours, the system's, or one
    that the operator names.
    """
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    config = Path(prefix, "pyvenv.cfg")
    if not config.is_file():
        base = prefix
    else:
        lines = dict(line.partition("=")[::2] for line in config.read_text().splitlines() if "=" in line)
        entries = {key.strip(): value.strip() for key, value in lines.items()}
        base = os.path.dirname(os.path.realpath(entries.get("home", "")))
    known = [sys.base_prefix, sysconfig.get_config_var("prefix"), "/usr", "/usr/local", *pythons]
    if not any(os.path.realpath(base) == os.path.realpath(folder) for folder in known):
        raise SandboxUnavailable(
            (
                f"the interpreter {python} stands on {base}, which is not one that plugins may use here; "
                f"add it to ALIQUOT_SANDBOX_PYTHONS if it is sound",
            )
        )
    return {prefix, base}


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
