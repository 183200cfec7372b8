"""`aliquot plugin …`: what a person types, what they read, and the exit code."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from aliquot.cli import app
from aliquot.verifiers.kit.report import Report

PLUGIN = """
from aliquot.verifiers.sdk import Fixture, PointwiseVerifier, Score, VerifierConfig

class Mine(PointwiseVerifier):
    '''Number of K.'''
    name, version = "mine", "1"
    kinds = ("sequence", "conditions")
    fixtures = (Fixture.full("sequence", "KKKK", at_least=4), Fixture.zero("sequence", "E", at_most=0),
                Fixture.malformed("sequence", ""), Fixture.seeded("sequence", "KEK"))

    class Config(VerifierConfig):
        factor: float = 1.0
        "What a K counts."

    def verify(self, designs):
        for design in designs:
            print("looking at", design.text)
            if design.value == "bad":
                raise ValueError("cannot do this one")
            yield Score(self.config.factor * str(design.value).count("K"), accepted=bool(design.value))
"""


def invoke(*arguments: object):
    return CliRunner().invoke(app, ["plugin", *map(str, arguments)])


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALIQUOT_PLUGINS", str(tmp_path / "home"))
    (tmp_path / "mine.py").write_text(PLUGIN)
    return "./mine.py:Mine"


def test_check_prints_what_it_found_or_one_object(mine, tmp_path):
    (tmp_path / "config.yaml").write_text("factor: 2\n")
    result = invoke("check", mine, "--trust", "--quick", "--json", "--config", "config.yaml")
    assert result.exit_code == 0, result.output
    report = Report.model_validate_json(result.stdout)
    assert report.passed and report.name == "mine" and not report.contained
    assert "WITHOUT the sandbox" in result.stderr


def test_check_fails_with_the_reason(mine, tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN.replace("at_least=4", "at_least=5"))
    result = invoke("check", mine, "--trust", "--quick")
    assert result.exit_code == 1
    assert "'KKKK' scored 4; at least 5 is right" in result.stdout and "NOT in the sandbox" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["qeed"], "did you mean 'qed'"),
        (["./nowhere.py:Mine"], "there is no file"),
        (["./mine.py:Mine", "--trust", "--config", "nowhere.yaml"], "cannot be read"),
        (["./mine.py:Mine", "--trust", "--config", "list.yaml"], "a mapping of keys"),
        (["./mine.py:Mine", "--trust", "--config", "wrong.yaml"], "did you mean 'factor'"),
    ],
)
def test_wrong_input_is_said_in_words_with_exit_2(mine, tmp_path, arguments, said):
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "wrong.yaml").write_text("facter: 1\n")
    result = invoke("check", *arguments)
    assert result.exit_code == 2 and said in result.stderr and "Traceback" not in result.output


def test_without_a_sandbox_a_strangers_code_is_refused_and_the_way_out_is_told(mine, monkeypatch):
    monkeypatch.setenv("ALIQUOT_SANDBOX_PROGRAM", "/nowhere/bwrap")
    refused = subprocess.run(
        [sys.executable, "-m", "aliquot.cli", "plugin", "check", mine], capture_output=True, text=True
    )
    assert refused.returncode == 1 and "--trust" in refused.stderr and "refused" in refused.stderr
    assert "looking at" not in refused.stdout + refused.stderr


def test_debug_runs_here_and_keeps_prints_and_tracebacks(mine):
    good = invoke("debug", mine, "KEK")
    assert good.exit_code == 0 and "looking at KEK" in good.stdout and '"score": 2.0' in good.stdout
    conditions = invoke("debug", mine, '{"a": "K"}')
    assert conditions.exit_code == 0 and "looking at a=K" in conditions.stdout
    bad = invoke("debug", mine, "bad")
    assert isinstance(bad.exception, ValueError) and "cannot do this one" in str(bad.exception)
    assert invoke("debug", mine, "{broken").exit_code == 2
    stopped = CliRunner().invoke(app, ["plugin", "debug", mine, "bad", "--pdb"], input="p design.text\nq\n")
    assert "'bad'" in stopped.stdout and stopped.exit_code == 1


def test_a_plugin_goes_from_a_folder_to_the_list_and_away(mine, tmp_path):
    assert invoke("new", "verifier", "my-pep").exit_code == 0
    packed = invoke("pack", "./my-pep", "--trust", "--out", "dist")
    assert packed.exit_code == 0 and packed.stdout.strip() == "dist/my-pep-1.aliquot.tar.gz"
    installed = invoke("install", packed.stdout.strip(), "--unapproved")
    assert installed.exit_code == 0 and "not approved" in installed.stdout
    (plugin,) = json.loads(invoke("list", "--json").stdout)["plugins"]
    assert plugin["name"] == "my-pep" and not plugin["approved"]
    assert "may be used" in invoke("approve", "my-pep").stdout
    listed = invoke("list").stdout
    assert "my-pep" in listed and "qed" in listed and "not approved" not in listed
    assert invoke("remove", "my-pep").exit_code == 0 and invoke("remove", "my-pep").exit_code == 2


def test_a_file_that_is_no_archive_is_refused(mine, tmp_path):
    (tmp_path / "bad.tar.gz").write_bytes(b"no archive")
    result = invoke("install", "bad.tar.gz")
    assert result.exit_code == 1 and "no plugin archive" in result.stderr
    assert invoke("install", "nowhere.tar.gz").exit_code == 2


def test_the_authors_own_tests_are_run(mine, tmp_path):
    invoke("new", "verifier", "my-pep")
    command = [sys.executable, "-m", "aliquot.cli", "plugin", "test", "./my-pep", "-q"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "6 passed" in done.stdout
    (tmp_path / "my-pep/tests/test_more.py").write_text("def test_it():\n    assert False\n")
    assert subprocess.run(command, capture_output=True, text=True).returncode == 1
