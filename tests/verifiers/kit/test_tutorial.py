"""The tutorial's code is the examples' code, its commands work as written, and its table is the list of checks."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from aliquot.verifiers.kit import checks
from aliquot.verifiers.kit.check import check
from aliquot.verifiers.kit.judging import Settings
from aliquot.verifiers.stage import VerifierRef

TARGETS = {
    "net_charge.py": "NetCharge",
    "peptide_length.py": "peptide_length",
    "first_of_its_kind.py": "FirstOfItsKind",
    "folding_queue.py": "FoldingQueue",
}


@pytest.fixture(scope="module")
def tutorial(project) -> str:
    return (project / "docs/plugins.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_code_it_shows_is_the_code_that_is_shipped(project, tutorial):
    shown = {}
    for block in blocks(tutorial, "python"):
        place, _, code = block.partition("\n")
        shown[place.removeprefix("# examples/plugins/")] = code
    assert shown == {name: (project / "examples/plugins" / name).read_text() for name in TARGETS}


@pytest.mark.parametrize("name", TARGETS)
def test_every_example_passes_the_checks_in_the_sandbox(project, name):
    target = f"{project / 'examples/plugins' / name}:{TARGETS[name]}"
    report = check(target, settings=Settings(rounds=3, examples=10, ordinary=5))
    assert report.passed and report.contained, [f"{f.check}: {f.why}" for f in report.failed]


def test_the_commands_work_in_order_as_written(project, tutorial, tmp_path):
    shutil.copytree(project / "examples", tmp_path / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "ALIQUOT_PLUGINS": str(tmp_path / "plugins")}
    lines = "".join(blocks(tutorial, "console")).splitlines()
    assert len(lines) >= 9 and all(line.startswith("$ aliquot plugin ") for line in lines)
    for line in lines:
        words = shlex.split(line.removeprefix("$ "))
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    assert not list((tmp_path / "plugins/plugins").iterdir())


def test_the_table_names_every_check(tutorial):
    rows = re.findall(r"^\| (`.*?) \|", tutorial, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {"loads", "gameability", *dict(checks.table())}


def test_the_campaign_section_is_one(tutorial):
    (section,) = blocks(tutorial, "yaml")
    refs = [VerifierRef.model_validate(one) for one in yaml.safe_load(section)["verifiers"]]
    assert [ref.required for ref in refs] == [True, True, False] and refs[2].weight == 2
