"""Import of what a target names. Runs in the worker; the supervisor never imports an author's code.

A target is `package.module:Name`, or `/absolute/path/file.py:Name` for a plugin that is one file. Such a file is
imported under a name of its own and its folder is not put on the import path, so its source is all there is of it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any


def split_target(target: str) -> tuple[str, str]:
    """(module or file, name). The name stands after the last colon."""
    location, _, name = target.rpartition(":")
    return location, name


def load_module(location: str) -> ModuleType:
    """The module of a dotted name or a `.py` file. Raises whatever its import raises."""
    if not location.endswith(".py"):
        return importlib.import_module(location)
    path = Path(location)
    spec = importlib.util.spec_from_file_location(f"aliquot_plugin_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no Python file {location}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def load_target(target: str) -> Any:
    """The object that a target names.

    Raises:
        ImportError: the module has no such name; the message says which one is near.
    """
    location, name = split_target(target)
    module = load_module(location)
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_")]
        near = get_close_matches(name, public, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ImportError(f"{location} has no {name!r}{hint}")
    return getattr(module, name)


def source_files(location: str) -> list[Path]:
    """Files that the code of an imported module or file lives in: that file, or every `.py` of its package's folder."""
    if location.endswith(".py"):
        return [Path(location)]
    module = sys.modules[location]
    file = Path(str(module.__file__))
    return sorted(file.parent.glob("*.py")) if module.__package__ else [file]
