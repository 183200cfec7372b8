"""A new package passes its own tests and the checks before its author has changed a word."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from aliquot.domain import ConfigError
from aliquot.verifiers.kit.check import check
from aliquot.verifiers.kit.judging import Settings
from aliquot.verifiers.kit.scaffold import new_verifier


def test_its_own_tests_pass(package):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."]
    done = subprocess.run(
        command, cwd=package, env={"PYTHONPATH": ".", "PATH": "/usr/bin"}, capture_output=True, text=True
    )
    assert done.returncode == 0 and "6 passed" in done.stdout, done.stdout + done.stderr


def test_it_passes_the_checks_in_the_sandbox(package):
    report = check(str(package), settings=Settings(rounds=3, examples=10, ordinary=5))
    assert report.passed, [f"{f.check}: {f.why}" for f in report.failed]
    assert report.contained and report.name == "my-pep" and "seccomp" in report.controls


def test_its_entry_point_names_its_class(package):
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["aliquot.verifiers"] == {"my-pep": "my_pep:MyPep"}
    assert "class MyPep(" in (package / "my_pep.py").read_text()


@pytest.mark.parametrize("name", ["", "../x", "My", "1st", "class", "a/b", "x" * 80])
def test_a_name_that_cannot_be_one_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="a name has small letters"):
        new_verifier(name, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_nothing_of_ones_own_is_overwritten(tmp_path):
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(ConfigError, match="there is something in it"):
        new_verifier("mine", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
