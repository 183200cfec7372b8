"""What a verdict of a plugin depends on, as one digest: its code, the libraries it imports, its configuration.

Always true: the digest is made by the supervisor from files, and nothing that the plugin says of itself enters it but
its configuration with defaults filled in. Verdicts of equal digest on the same design are the same verdict.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LEAVE_OUT = ("__pycache__", ".git", ".venv", ".pytest_cache", ".hypothesis", ".mypy_cache", ".ruff_cache")
"""Folders that are by-products of the code."""
CHUNK = 2**20


def digest_of(
    files: Mapping[str, Path], name: str, config: Any, pins: Sequence[str] = (), shown: Iterable[Path] = ()
) -> str:
    """Digest of a plugin under a configuration, 64 hex digits.

    Args:
        files: by the name that does not depend on where the plugin stands.
        name: what stands after the colon of its target.
        pins: the requirements of its own environment; without them, the installed versions of what it imports count.
        shown: the user's data files that it reads.
    """
    whole = hashlib.sha256()
    for relative in sorted(files):
        whole.update(json.dumps([relative, digest_of_file(files[relative])]).encode())
    libraries = sorted(pins) if pins else libraries_of(files.values())
    data = [digest_of_path(path) for path in shown]
    whole.update(json.dumps([name, config, libraries, data], sort_keys=True).encode())
    return whole.hexdigest()


def files_of_folder(folder: Path) -> dict[str, Path]:
    """Every file of a package's folder that is not a by-product, by its path from there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        left_out = set(relative.parts) & {*LEAVE_OUT} or path.suffix in (".pyc", ".pyo")
        if path.is_file() and not path.is_symlink() and not left_out:
            found[relative.as_posix()] = path
    return found


def files_of_module(module: str) -> dict[str, Path]:
    """Files of the top-level package (or the one file) of a dotted name, found without importing anything of it.

    Raises:
        ModuleNotFoundError: no such package is installed.
    """
    top = module.partition(".")[0]
    spec = find_spec(top)  # of a top-level name: nothing is imported
    if spec is None:
        raise ModuleNotFoundError(f"there is no module {top!r} in this environment", name=top)
    if spec.submodule_search_locations:
        folders = [Path(folder) for folder in spec.submodule_search_locations]
        return {f"{top}/{name}": path for folder in folders for name, path in files_of_folder(folder).items()}
    return {f"{top}.py": Path(str(spec.origin))}


def digest_of_file(path: Path) -> str:
    content = hashlib.sha256()
    with path.open("rb") as stream:
        while part := stream.read(CHUNK):
            content.update(part)
    return content.hexdigest()


def digest_of_path(path: Path) -> str:
    """Of a file, or of a folder's files with their names."""
    if path.is_file():
        return digest_of_file(path)
    return hashlib.sha256(
        json.dumps([(name, digest_of_file(file)) for name, file in files_of_folder(path).items()]).encode()
    ).hexdigest()


def libraries_of(files: Iterable[Path]) -> list[str]:
    """Installed distributions that Python files import, as `name==version`, read off their syntax."""
    modules: set[str] = set()
    for path in files:
        if path.suffix == ".py":
            modules |= _imports(path, path.stat().st_mtime_ns)
    found = {_distribution(module) for module in modules - {*sys.stdlib_module_names, "aliquot"}}
    return sorted(name for name in found if name)


@lru_cache(maxsize=2048)
def _imports(path: Path, changed: int) -> frozenset[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # it will not import either
        return frozenset()
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module.partition(".")[0])
    return frozenset(modules)


@lru_cache(maxsize=512)
def _distribution(module: str) -> str:
    names = [module]
    try:
        return f"{module}=={version(module)}"
    except PackageNotFoundError:
        names = _owners().get(module, [])
    return " ".join(f"{name}=={version(name)}" for name in sorted(names))


@lru_cache(maxsize=1)
def _owners() -> Mapping[str, list[str]]:
    return packages_distributions()
