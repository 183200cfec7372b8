"""The shape of the source: a namespace across four roots, floors, light SDKs, types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOTS = ("platform", "verifiers", "lab_adapters", "trainer")


def rooms(project: Path) -> list[Path]:
    found = [path for root in ROOTS for path in (project / root / "aliquot").iterdir()]
    return [path for path in found if path.is_dir() and path.name != "__pycache__"]


def test_the_namespace_has_no_init_that_would_hide_its_other_roots(project):
    for root in ROOTS:
        assert not (project / root / "__init__.py").exists()
        assert not (project / root / "aliquot" / "__init__.py").exists()


def test_every_room_is_a_package_that_carries_its_types(project):
    for room in rooms(project):
        assert (room / "__init__.py").is_file(), room
        assert (room / "py.typed").is_file(), room


def test_every_room_imports_only_from_the_floors_below_it(project):
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("module", ["aliquot.verifiers.sdk", "aliquot.lab_adapters.sdk", "aliquot.domain"])
def test_what_a_plugin_author_imports_is_light(module):
    heavy = ("torch", "rdkit", "sqlmodel", "sqlalchemy", "sklearn", "transformers", "fastapi", "msgspec", "yaml")
    code = f"import sys, {module}; print(*(set({heavy!r}) & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == []


@pytest.mark.parametrize("module", ["aliquot.verifiers.sdk", "aliquot.lab_adapters.sdk", "aliquot.domain"])
def test_an_sdk_needs_nothing_but_the_base_dependencies(module):
    """Every module that is not ours, the standard library's, or brought by pydantic and numpy, is refused."""
    code = f"""
import sys
from importlib.metadata import packages_distributions, requires
from packaging.requirements import Requirement

allowed, waiting = {{"aliquot"}}, ["pydantic", "numpy"]
while waiting:
    name = waiting.pop()
    if name not in allowed:
        allowed.add(name)
        needs = map(Requirement, requires(name) or [])
        waiting += [n.name.replace("-", "_") for n in needs if n.marker is None or n.marker.evaluate({{"extra": ""}})]
owners = packages_distributions()
before = set(sys.modules)
import {module}
new = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*sorted(n for n in new if n in owners and not allowed & {{o.replace("-", "_") for o in owners[n]}}))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == []
