"""Plugins that were installed from an archive: where they are and what is known of them. Only read here.

    FOLDER/plugins/NAME-VERSION-DIGEST/manifest.json    an `InstalledPlugin`
    FOLDER/plugins/NAME-VERSION-DIGEST/source/…         exactly the files of the archive
    FOLDER/environments/DIGEST/…                        virtual environments, by the digest of their pins

Always true: a folder that has a manifest is whole (the manifest is written last, the folder is then moved into place),
and its name holds the digest of its files. `kit.install` writes here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue, ValidationError

from aliquot.domain import Noun

NAME = re.compile(r"[a-z0-9][a-z0-9_.\-]{0,63}")
"""Names of plugins, and of their versions in lower case."""


class InstalledPlugin(Noun):
    """One plugin that was installed from an archive."""

    name: str = Field(pattern=f"^{NAME.pattern}$")
    version: str = Field(min_length=1, max_length=64)
    kind: Literal["verifier"] = "verifier"
    target: str
    """`package.module:Class` or `file.py:Class`, as seen from `source/`."""
    digest: str
    """Of every file in the archive."""
    requirements: tuple[str, ...] = ()
    """Pins of its own environment; empty: it uses the project's."""
    environment: str | None = None
    """Digest of that environment, the name of its folder."""
    approved: bool = False
    """Whether an administrator lets campaigns use it."""
    approved_by: str = ""
    installed_at: float = 0.0
    """Seconds since 1970."""
    notes: dict[str, JsonValue] = {}
    """What whoever installed it wants to keep: who uploaded it, when."""


def home() -> Path:
    """Where plugins are kept: `$ALIQUOT_PLUGINS`, or the user's data folder."""
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(os.environ.get("ALIQUOT_PLUGINS") or f"{data}/aliquot").expanduser()


def folder_of(plugin: InstalledPlugin, home_: Path | None = None) -> Path:
    return (home_ or home()) / "plugins" / f"{plugin.name}-{plugin.version}-{plugin.digest[:16]}"


def python_of(plugin: InstalledPlugin, home_: Path | None = None) -> str | None:
    """The interpreter of its own environment; None: it has none of its own."""
    if plugin.environment is None:
        return None
    return str((home_ or home()) / "environments" / plugin.environment / "bin" / "python")


def installed(home_: Path | None = None) -> list[InstalledPlugin]:
    """Every plugin there is, by name, the newest installation of each first."""
    return sorted(_manifests(home_ or home()), key=lambda plugin: (plugin.name, -plugin.installed_at))


def _manifests(folder: Path) -> Iterator[InstalledPlugin]:
    for path in (folder / "plugins").glob("*/manifest.json"):
        try:
            yield InstalledPlugin.model_validate(json.loads(path.read_text()))
        except (OSError, ValueError, ValidationError):  # half removed, or not ours
            continue
