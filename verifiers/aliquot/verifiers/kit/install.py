"""Plugins come and go: install an archive, approve it, remove it. Where they stand is told in `store`.

Always true: what is installed is exactly what the archive's digest names; installing the same archive twice changes
nothing; nothing of the plugin runs here, in particular no `setup.py`. One that nobody approved is there and unusable.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

from aliquot.domain import ConfigError
from aliquot.verifiers import environment, store
from aliquot.verifiers.kit.archive import ArchiveRefused, pack, unpack
from aliquot.verifiers.opening import introduce, source_of
from aliquot.verifiers.registry import ADAPTERS, BUILTINS, resolve
from aliquot.verifiers.store import InstalledPlugin


def pack_plugin(target: str, out: Path, *, base: Path | None = None, trust: bool = False) -> Path:
    """The archive of a plugin that is a file or a folder. It is described once, to learn its name and version.

    Raises:
        ConfigError: it does not load, or is a built-in or an installed package.
        ArchiveRefused: it is too large, or has names that cannot be.
        SandboxUnavailable: it is not trusted, and this machine cannot contain it.
    """
    reference = resolve(target, base)
    if reference.origin != "path" or reference.root is None:
        raise ConfigError("aliquot plugin pack", [("TARGET", target, "give a file, ./my.py:MyVerifier, or a folder")])
    (said,) = introduce([("plugin", reference, {})], base, trust=trust)
    files, location = source_of(reference)
    named = f"{location}:{reference.target.rpartition(':')[2]}"
    pins = environment.pins_of(reference.root)
    return pack(files, out, name=said.name, version=said.version, target=named, requirements=pins)


def install(
    archive: Path,
    folder: Path | None = None,
    *,
    approved: bool = False,
    approved_by: str = "",
    wheels: Path | None = None,
    notes: dict | None = None,
) -> InstalledPlugin:
    """Install an archive. Once it is approved, its own environment is built where it has pins.

    Args:
        folder: where plugins are kept; default: `store.home()`.
        approved: whether campaigns may use it at once.
        wheels: a folder of wheels for its environment; then nothing is fetched from anywhere else.
        notes: what to keep with it: who uploaded it.

    Raises:
        ArchiveRefused: the archive is not one, or is not what its manifest says.
        ConfigError: its pins are none.
        EnvironmentFailed: its environment could not be built.
    """
    home = folder or store.home()
    plugins = home / "plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".installing-", dir=plugins) as temporary:
        made = Path(temporary) / "plugin"
        source = made / "source"
        source.mkdir(parents=True)
        packed = unpack(archive, source)
        if packed.name in (*BUILTINS, *ADAPTERS):
            raise ArchiveRefused(f"{packed.name!r} is the name of a built-in verifier; call it something else")
        if wrong := [pin for pin in packed.requirements if not environment.PIN.fullmatch(pin)]:
            raise ArchiveRefused(f"{wrong[0]!r} is no pin; write it as `name==version`")
        plugin = InstalledPlugin(
            name=packed.name,
            version=packed.version,
            target=packed.target,
            digest=packed.digest,
            requirements=packed.requirements,
            environment=environment.digest_of_pins(packed.requirements) if packed.requirements else None,
            approved=approved,
            approved_by=approved_by if approved else "",
            installed_at=time.time(),
            notes=notes or {},
        )
        if plugin.requirements and approved:
            environment.build(plugin.requirements, home, wheels=wheels)
        place = store.folder_of(plugin, home)
        if not (place / "manifest.json").exists():
            shutil.rmtree(place, ignore_errors=True)  # half removed
            (made / "manifest.json").write_text(plugin.model_dump_json(indent=1))
            with contextlib.suppress(OSError):  # another process was quicker, with the same files
                os.replace(made, place)
    held = InstalledPlugin.model_validate_json((place / "manifest.json").read_text())
    if approved and not held.approved:
        return approve(held.name, held.version, home, by=approved_by, wheels=wheels)
    return held


def approve(
    name: str, version: str | None = None, folder: Path | None = None, *, by: str = "", wheels: Path | None = None
) -> InstalledPlugin:
    """Let campaigns use a plugin, the newest of its installations where no version is given; its environment is built.

    Raises:
        ConfigError: there is none of this name and version.
        EnvironmentFailed: its environment could not be built; it is not approved.
    """
    home = folder or store.home()
    plugin = _found(name, version, home)[0].model_copy(update={"approved": True, "approved_by": by})
    if plugin.requirements:
        environment.build(plugin.requirements, home, wheels=wheels)
    place = store.folder_of(plugin, home) / "manifest.json"
    beside = place.with_suffix(".new")
    beside.write_text(plugin.model_dump_json(indent=1))
    os.replace(beside, place)
    return plugin


def remove(name: str, version: str | None = None, folder: Path | None = None) -> list[InstalledPlugin]:
    """Remove a plugin, all its versions where none is given, and environments that no other plugin uses.

    Raises:
        ConfigError: there is none of this name and version.
    """
    home = folder or store.home()
    gone = _found(name, version, home)
    for plugin in gone:
        place = store.folder_of(plugin, home)
        (place / "manifest.json").unlink()  # from here on it is not there
        shutil.rmtree(place)
    used = {plugin.environment for plugin in store.installed(home)}
    for digest in {plugin.environment for plugin in gone if plugin.environment} - used:
        shutil.rmtree(home / "environments" / digest, ignore_errors=True)
    return gone


def _found(name: str, version: str | None, home: Path) -> list[InstalledPlugin]:
    found = [p for p in store.installed(home) if p.name == name and version in (None, p.version)]
    if not found:
        there = ", ".join(f"{p.name} {p.version}" for p in store.installed(home)) or "none"
        raise ConfigError("plugins", [("NAME", name, f"no such plugin is installed; there is {there}")])
    return found
