"""Where labs come from: built in, installed, or written in one file.

A campaign names its lab by `type`: a built-in name, the name of an entry point of the group `aliquot.lab_adapters`, or
`path/to/file.py:Class`. The other keys of the section are that lab's own configuration.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from aliquot.clock import Clock
from aliquot.domain import ConfigError
from aliquot.lab_adapters.sdk import LabAdapter

GROUP = "aliquot.lab_adapters"
TYPE = "lab.type"
"""Where a campaign names its lab, for messages."""
BUILT_IN = {"simulated": "aliquot.lab_adapters.simulated:SimulatedLab"}


def lab_types() -> tuple[str, ...]:
    """Names that `type` may have here, sorted; files come on top."""
    return tuple(sorted({*BUILT_IN, *(point.name for point in entry_points(group=GROUP))}))


def lab_class(lab_type: str, source: str = "lab", folder: Path = Path()) -> type[LabAdapter]:
    """The adapter that a name or `file.py:Class` stands for; a relative file is looked up from `folder`.

    Raises:
        ConfigError: nothing of that name, no such file or class, or not a `LabAdapter`.
    """
    if lab_type in BUILT_IN:
        module, _, name = BUILT_IN[lab_type].partition(":")
        return getattr(importlib.import_module(module), name)
    try:
        found = _from_file(lab_type, folder) if ".py:" in lab_type else _installed(lab_type)
    except _NotFound as error:
        raise ConfigError(source, [(TYPE, lab_type, str(error))]) from error
    if not (isinstance(found, type) and issubclass(found, LabAdapter)):
        remedy = "must name a subclass of aliquot.lab_adapters.sdk.LabAdapter"
        raise ConfigError(source, [(TYPE, lab_type, remedy)])
    return found


def create_lab(
    lab_type: str, config: Mapping[str, Any], clock: Clock, source: str = "lab", folder: Path = Path()
) -> LabAdapter:
    """A campaign's lab, with its validated configuration.

    Args:
        config: the keys of the campaign's `lab` section beside `type`.
        source: the file they stand in, for messages.

    Raises:
        ConfigError: as `lab_class`, or a key of the configuration is wrong.
        LabError: the lab cannot be reached.
    """
    adapter = lab_class(lab_type, source, folder)
    try:
        validated = adapter.Config.model_validate(config)
    except ValidationError as error:
        raise ConfigError.of(source, error, adapter.Config, prefix="lab") from None
    return adapter(validated, clock)


class _NotFound(Exception):
    """No adapter there, and what to write instead."""


def _installed(name: str) -> Any:
    points = entry_points(group=GROUP, name=name)
    if not points:
        raise _NotFound(f"no lab of this name; known: {', '.join(lab_types())}, or path/to/file.py:Class")
    point = next(iter(points))
    try:
        return point.load()
    except Exception as error:  # the author's code: whatever it raises becomes a typed error here
        raise _NotFound(f"{point.value} does not import: {type(error).__name__}: {error}") from error


def _from_file(reference: str, folder: Path) -> Any:
    file, _, name = reference.rpartition(":")
    path = (folder / file).resolve()
    if not path.is_file():
        raise _NotFound(f"there is no file {path}")
    module_name = f"aliquot_lab_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    module = sys.modules.get(module_name)
    if module is None:
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # the author's code: whatever it raises becomes a typed error here
            del sys.modules[module_name]
            raise _NotFound(f"{path.name} does not import: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        classes = [n for n, v in vars(module).items() if isinstance(v, type) and v.__module__ == module_name]
        raise _NotFound(f"{path.name} has no class {name}; it has {', '.join(classes) or 'none'}")
    return getattr(module, name)
