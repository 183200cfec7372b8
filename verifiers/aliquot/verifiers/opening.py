"""From references to workers: what verifiers say of themselves, and the process that holds them.

Always true: no plugin is imported here. One that is not trusted is first imported in a sandbox that shows it its own
source and nothing else; only then, with what it said it needs, in one that gives it that. A file of the user's is shown
to a plugin only where the user's own configuration names it. An environment is never built here.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from aliquot.domain import ConfigError
from aliquot.isolation.containment import Containment
from aliquot.isolation.host import Failure, Service
from aliquot.isolation.launch import Limits
from aliquot.verifiers import adapters, builtin, digest, environment
from aliquot.verifiers.adapters import tokens
from aliquot.verifiers.description import Description
from aliquot.verifiers.registry import Reference
from aliquot.verifiers.sdk import Needs

HOST = "aliquot.verifiers.hosting:host"
INTRODUCTION = Needs(memory_mb=8192, startup_seconds=120.0)
"""What a verifier gets that has not said yet what it needs: only its import happens under it."""

DATA_FOLDERS = "ALIQUOT_DATA_FOLDERS"
"""Environment variable: folders, separated by colons, in which data files of a configuration must lie. Where strangers
submit campaigns it must be set; unset, any file that the supervisor may read can be named."""

Plugin = tuple[str, Reference, dict[str, Any]]
"""(name in the campaign, reference, configuration)."""


@dataclass(frozen=True)
class _Code:
    """Where the code of a plugin stands, and with what it runs."""

    files: dict[str, Path]
    """For the digest."""
    shown: tuple[str, ...]
    """Files and folders that the worker must see to import it."""
    import_from: tuple[str, ...]
    pins: tuple[str, ...]
    python: str | None


def introduce(plugins: Sequence[Plugin], base: Path | None = None, *, trust: bool = False) -> list[Description]:
    """What each says of itself under its configuration, with the digest that the supervisor computes.

    Args:
        base: folder from which paths in configurations start; default: the working directory.
        trust: run them without a sandbox, whatever they are.

    Raises:
        ConfigError: the code does not load, or is of another version than asked for. The path in it is `type`.
        SandboxUnavailable: one is not trusted, and this machine cannot contain it.
    """
    return [_introduced(plugin, base, trust) for plugin in plugins]


def open_service(
    plugins: Sequence[Plugin], base: Path | None = None, *, trust: bool = False
) -> tuple[Service, list[Description]]:
    """One worker that holds these, and what each says of itself. Where a configuration is wrong it is not started.

    Raises:
        ConfigError, SandboxUnavailable: as `introduce`; and what the construction of a verifier raises.
    """
    descriptions = introduce(plugins, base, trust=trust)
    needs = [description.needs for description in descriptions]
    hosted, shown = [], []
    for (name, reference, config), description in zip(plugins, descriptions, strict=True):
        seen, files = _with_absolute_paths(config, description, base)
        if reference.origin == "builtin":  # defaults that depend on the user, such as a folder in their home
            seen = {**description.config, **seen}
        shown += files
        hosted.append(_hosted(name, reference, seen, build=True))
        if reference.origin == "adapter" and not description.problems:
            hosted[-1]["secrets"] = tokens.secrets_of(seen)
    service = Service(
        ", ".join(name for name, _, _ in plugins),
        HOST,
        hosted,
        limits=limits_of(needs),
        startup_seconds=max(need.startup_seconds for need in needs),
        # The jobs of a slow verifier may be running in its worker.
        recycle_after=None if any(d.style == "slow" for d in descriptions) else 1000,
        containment=containment_of([reference for _, reference, _ in plugins], needs, shown, trust=trust),
    )
    if not any(description.problems for description in descriptions):
        _started(service, plugins[0][1])
    return service, descriptions


def limits_of(needs: Sequence[Needs]) -> Limits:
    """Limits of one worker that holds verifiers with these needs."""
    scratch = max(need.scratch_mb for need in needs)
    return Limits(
        memory_mb=max(need.memory_mb for need in needs),
        processes=max(need.processes for need in needs),
        scratch_mb=scratch,
        file_mb=scratch,
    )


def containment_of(
    references: Sequence[Reference], needs: Sequence[Needs], files: Sequence[Path] = (), *, trust: bool = False
) -> Containment:
    """What the worker of these may see and reach. Several may share a worker only where all are trusted."""
    codes = [_code(reference) for reference in references]
    return Containment(
        trusted=trust or all(reference.trusted for reference in references),
        python=next((code.python for code in codes if code.python), None) or _python_of_adapter(references, needs),
        read_only=(*(path for code in codes for path in code.shown), *map(str, files)),
        network=tuple(dict.fromkeys(host for need in needs for host in need.network)),
        gpu=any(need.gpu for need in needs),
    )


def source_of(reference: Reference) -> tuple[dict[str, Path], str]:
    """Files of a plugin by their path from its root, and the module or file that its class is in."""
    location = reference.target.rpartition(":")[0]
    if reference.folder is None:
        return {Path(location).name: Path(location)}, Path(location).name
    assert reference.root is not None
    return digest.files_of_folder(reference.root), location


def _introduced(plugin: Plugin, base: Path | None, trust: bool) -> Description:
    name, reference, config = plugin
    if reference.origin in ("builtin", "adapter"):
        from aliquot.verifiers.hosting import describe

        said = describe(reference.target, config)
    else:
        alone = Service(
            name,
            HOST,
            [_hosted(name, reference, config, build=False)],
            limits=limits_of([INTRODUCTION]),
            startup_seconds=INTRODUCTION.startup_seconds,
            containment=containment_of([reference], [INTRODUCTION], trust=trust),
        )
        try:
            said = _started(alone, reference)
        finally:
            alone.close()
    try:
        description = Description.model_validate(said)
    except ValidationError as error:
        raise _does_not_load(reference, f"what it says of itself is not right: {error}") from None
    if reference.version is not None and reference.version != description.version:
        remedy = f"{reference.version} was asked for, and version {description.version} is what is installed"
        raise ConfigError(f"verifier {reference.type}", [("type", reference.type, remedy)])
    _, files = _with_absolute_paths(config, description, base)
    code = _code(reference)
    pins = description.needs.requirements if reference.origin == "adapter" else code.pins
    whole = digest.digest_of(
        code.files, reference.target.rpartition(":")[2], description.config, pins, [path for path in files]
    )
    return description.model_copy(update={"digest": whole})


def _started(service: Service, reference: Reference) -> Any:
    """Start its worker; the first description in it.

    Raises:
        ConfigError: the code does not load.
    """
    (answer,) = service.call("describe", [0], seconds=10)
    if isinstance(answer, Failure):
        service.close()
        raise _does_not_load(reference, answer.message)
    return answer


def _does_not_load(reference: Reference, why: str) -> ConfigError:
    return ConfigError(f"verifier {reference.type}", [("type", reference.type, f"does not load: {why}")])


def _hosted(name: str, reference: Reference, config: dict[str, Any], build: bool) -> dict[str, Any]:
    path = list(_code(reference).import_from)
    return {"name": name, "target": reference.target, "config": config, "path": path, "build": build}


def _code(reference: Reference) -> _Code:
    location = reference.target.rpartition(":")[0]
    try:
        match reference.origin:
            case "builtin":
                return _Code(digest.files_of_folder(Path(builtin.__file__).parent), (), (), (), None)
            case "adapter":
                return _Code(digest.files_of_folder(Path(adapters.__file__).parent), (), (), (), None)
            case "path" if reference.folder is None:
                alone = _Code({"plugin.py": Path(location)}, (location,), (), (), None)
                return _with_environment(alone, Path(location))
            case "entry_point":
                files = digest.files_of_module(location)
                roots = dict.fromkeys(str(path).removesuffix(name).rstrip("/") for name, path in files.items())
                return _Code(files, tuple(dict.fromkeys(_tops(files))), tuple(roots), (), None)
            case _:
                assert reference.root is not None
                imported = (reference.folder,) if reference.folder else ()
                package = _Code(digest.files_of_folder(reference.root), (str(reference.root),), imported, (), None)
                own = reference.plugin.requirements if reference.plugin else ()
                return _with_environment(replace(package, pins=own), reference.root)
    except ModuleNotFoundError as error:
        raise _does_not_load(reference, str(error)) from None


def _tops(files: dict[str, Path]) -> list[str]:
    """The package's folder, or its one file."""
    return [str(path).removesuffix(name) + name.partition("/")[0] for name, path in files.items()]


def _with_environment(code: _Code, plugin: Path) -> _Code:
    pins = code.pins or environment.pins_of(plugin)
    if not pins:
        return code
    if (python := environment.python_of_pins(pins)) is None:
        remedy = f"its own environment ({', '.join(pins)}) is not built yet; aliquot plugin check builds it"
        raise ConfigError("verifier", [("type", str(plugin), remedy)])
    return replace(code, pins=pins, python=python)


def _python_of_adapter(references: Sequence[Reference], needs: Sequence[Needs]) -> str | None:
    """The interpreter of the environment that an adapter's configuration asks for."""
    for reference, need in zip(references, needs, strict=False):  # an adapter is alone in its worker
        if reference.origin != "adapter" or not need.requirements:
            continue
        if (python := environment.python_of_pins(need.requirements)) is None:
            pins = ", ".join([pin for pin in need.requirements if not pin.startswith("-")][:3])
            remedy = f"its own environment ({pins}, …) is not built yet: aliquot plugin prepare {reference.type}"
            raise ConfigError("verifier", [("type", reference.type, remedy)])
        return python
    return None


def _with_absolute_paths(
    config: dict[str, Any], description: Description, base: Path | None
) -> tuple[dict[str, Any], list[Path]]:
    """The configuration with every data file under its absolute path, and those files.

    Raises:
        ConfigError: a file is not there.
    """
    seen, files = copy.deepcopy(config), []
    for file in description.files:
        holder: Any = seen
        try:
            for key in file.location[:-1]:
                holder = holder[key]
            written = holder[file.location[-1]]
        except (KeyError, IndexError, TypeError):  # a default of the author's: the user names no file
            continue
        if not isinstance(written, str) or Path(written) != Path(file.value):
            continue  # what the user wrote there is no such path: nothing of theirs is shown
        path = ((base or Path.cwd()) / Path(written).expanduser()).resolve()
        if not path.exists():
            place = ".".join(["config", *map(str, file.location)])
            raise ConfigError(description.name, [(place, written, f"there is no file {path}")])
        if not _may_be_shown(path):
            place = ".".join(["config", *map(str, file.location)])
            remedy = f"{path} lies in none of the folders that the operator opens to plugins ({DATA_FOLDERS})"
            raise ConfigError(description.name, [(place, written, remedy)])
        holder[file.location[-1]] = str(path)
        files.append(path)
    return seen, files


def _may_be_shown(path: Path) -> bool:
    folders = os.environ.get(DATA_FOLDERS)
    return folders is None or any(
        path.is_relative_to(Path(folder).resolve()) for folder in folders.split(":") if folder
    )
