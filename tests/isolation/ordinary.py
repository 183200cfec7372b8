"""How root runs a command here as an ordinary user, so that both recipes of the sandbox are tested by one run.

The interpreter often stands in root's own home, which nobody else may enter. In a mount namespace of its own, each
closed folder above what the command needs is covered by an empty one that is open, with only the needed folders in it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

UID = 60001


def as_ordinary_user(*command: str, needs: tuple[str, ...] = ()) -> list[str]:
    """A command line that root can start; it runs `command` as `UID`, which has no privilege at all."""
    argv = ["bwrap", "--dev-bind", "/", "/"]
    covered: list[str] = []
    for path in dict.fromkeys(map(os.path.realpath, (sys.base_prefix, sys.prefix, *needs))):
        closed = next((str(p) for p in reversed(Path(path).parents) if not p.stat().st_mode & 0o001), None)
        if closed is None:
            continue
        if closed not in covered:
            argv += ["--perms", "0755", "--tmpfs", closed]
            covered.append(closed)
        for folder in reversed(Path(path).parents):
            if str(folder).startswith(f"{closed}/"):
                argv += ["--perms", "0755", "--dir", str(folder)]
        argv += ["--ro-bind", path, path]
    argv += ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", "--inh-caps=-all", "--"]
    return [*argv, *command]
