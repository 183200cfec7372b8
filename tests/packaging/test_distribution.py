"""What is built and what is declared: the wheel is whole, and the ranges admit those of vLLM 0.33."""

from __future__ import annotations

import ast
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOTS = ("platform", "verifiers", "lab_adapters", "trainer")
VLLM_0_33 = ("fastapi>=0.133,<0.137", "pydantic>=2.12", "jsonschema>=4.23")


@pytest.fixture(scope="module")
def built(project, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=project, capture_output=True, check=True)
    return folder


@pytest.fixture(scope="module")
def declared(project) -> dict[str, list[Requirement]]:
    """Requirements by extra; the base ones under `""`."""
    section = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    groups = {"": section["dependencies"], **section["optional-dependencies"]}
    return {extra: [Requirement(text) for text in texts] for extra, texts in groups.items()}


def sources(project: Path) -> dict[str, Path]:
    """Every file of the package, by the name it has once installed."""
    found = {}
    for root in ROOTS:
        for path in (project / root / "aliquot").rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                found[path.relative_to(project / root).as_posix()] = path
    return found


def test_the_wheel_holds_every_file_of_the_four_roots_and_no_other(project, built):
    (wheel,) = built.glob("*.whl")
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    assert names == set(sources(project))
    assert "aliquot/__init__.py" not in names
    assert {"aliquot/ledger/migrations/script.py.mako", "aliquot/api/templates/index.html"} <= names
    assert {
        f"aliquot/trainer/policies/shipped/{name}/model.safetensors" for name in ("zinc-dense", "zinc-moe")
    } <= names


def test_the_source_distribution_builds_again(project, built):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    expected = {path.relative_to(project).as_posix() for path in sources(project).values()}
    assert expected | {"pyproject.toml", "README.md", "LICENSE", "Makefile", "tests/conftest.py"} <= names


def test_a_plain_install_needs_pydantic_and_numpy_alone(declared):
    assert {one.name for one in declared[""]} == {"pydantic", "numpy"}


def test_every_promised_extra_is_there(declared):
    assert {"plugin", "train", "server", "chem", "postgres", "ray", "vllm", "labs", "all"} <= set(declared)


def test_every_library_that_is_imported_is_declared(project, declared):
    known = {canonicalize_name(one.name) for group in declared.values() for one in group}
    owners = packages_distributions()
    for name, path in sources(project).items():
        if path.suffix != ".py":
            continue
        tree = ast.parse(path.read_text())
        pinned = {
            canonicalize_name(node.value.partition("==")[0])
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "==" in node.value
        }  # what runs in an environment of its own says in its pins what it imports there
        for node in ast.walk(tree):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules = [node.module]
            for top in {module.partition(".")[0] for module in modules} - {"aliquot", *sys.stdlib_module_names}:
                if canonicalize_name(top) in pinned:
                    continue
                assert top in owners, f"{name} imports {top}, which no installed distribution provides"
                assert known & {canonicalize_name(owner) for owner in owners[top]}, f"{name} imports {top}: undeclared"


def resolve(project: Path, tmp_path: Path, *pins: str) -> subprocess.CompletedProcess:
    """Resolve everything that installs without a GPU under these pins; what is installed and fits is kept."""
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("\n".join(pins))
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-build-isolation", "--no-input"]
    command += ["--disable-pip-version-check", "-c", str(constraints), f"{project}[server,plugin,train,chem]"]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)


def test_a_resolver_finds_versions_that_vllm_accepts_too(project, tmp_path, declared):
    done = resolve(project, tmp_path, *VLLM_0_33)
    assert done.returncode == 0, done.stderr
    (torch,) = {str(one.specifier) for one in declared["train"] if one.name == "torch"}
    assert all(Requirement(f"torch{torch}").specifier.contains(version) for version in ("2.13.0", "2.14.0", "2.14.1"))


def test_the_resolver_run_can_fail(project, tmp_path):
    done = resolve(project, tmp_path, "fastapi>=0.137")
    assert done.returncode != 0
    assert "fastapi" in done.stdout + done.stderr
