"""The other commands, and what the command line is without its extras."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest
import yaml
from typer.testing import CliRunner

from aliquot.campaigns.load import load
from aliquot.cli import app, machine


def invoke(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_help_loads_nothing_heavy():
    code = (
        "import sys\nfrom aliquot.cli import app\ntry:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "print('heavy:', *({'torch', 'numpy', 'rdkit', 'sqlmodel', 'fastapi', 'aliquot.domain'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1].strip() == "heavy:"
    for command in ("run", "check", "pretrain", "serve", "doctor", "version"):
        assert command in said


def without(package: str, *arguments: str) -> subprocess.CompletedProcess:
    """The program on a machine where a package is not installed."""
    code = (
        f"import sys\nsys.modules[{package!r}] = None\nsys.argv = ['aliquot', *{arguments!r}]\n"
        "from aliquot.cli import app\napp()"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_a_plain_install_says_which_extra_the_command_line_is():
    done = without("typer", "version")
    assert done.returncode == 1 and done.stderr == "The command line is an extra: pip install 'aliquot[plugin]'\n"


def test_a_missing_library_is_advice_not_a_traceback(small_file):
    done = without("torch", "check", str(small_file))
    assert done.returncode == 2 and "pip install" in done.stderr and "Traceback" not in done.stderr


def test_version_is_that_of_the_distribution():
    assert invoke("version").output == f"aliquot {version('aliquot')}\n"


def test_check_prints_a_campaign_that_is_the_same_campaign(small_file, tmp_path):
    result = invoke("check", small_file, "--set", "seed=7")
    assert result.exit_code == 0, result.output
    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(result.stdout)
    assert load(resolved) == load(small_file, ["seed=7"])
    assert yaml.safe_load(result.stdout)["learning"]["anchor"]["coefficient"] > 0


def test_check_names_every_problem_at_once(small_file):
    result = invoke("check", small_file, "--set", "budget.experiments=0", "--set", "space.parameters=[]")
    assert result.exit_code == 2
    assert "2 problems" in result.stderr
    assert "budget.experiments" in result.stderr and "space.parameters" in result.stderr


@pytest.mark.parametrize("assignment, said", [
    ("objective.floor=1.0", "nothing to learn"),
    ("learning.learning_rate=0", "greater than 0"),
    ("proposing.group_size=1", "greater than or equal to 2"),
    ("learning.baseline.scale=group_std", "revisions: wait"),
    ("learning.loss={type: ppo}", "reuse: [{type: clipped"),
    ("learning.loss={type: ppoo}", "did you mean 'ppo'"),
    ("policy.top_p=0.9", "top_p"),
])  # fmt: skip
def test_a_config_that_cannot_learn_is_said_at_the_start(small_file, assignment, said):
    result = invoke("check", small_file, "--set", assignment)
    assert result.exit_code == 2 and said in result.output


def test_pretrain_refuses_a_missing_file():
    result = invoke("pretrain", "nowhere.yaml")
    assert result.exit_code == 2 and "nowhere.yaml" in result.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org"])
def test_serve_refuses_to_be_reached_from_elsewhere(host, tmp_path):
    result = invoke("serve", "--host", host, "--data", tmp_path / "data")
    assert result.exit_code == 2 and "only this machine may ask" in result.stderr
    assert not (tmp_path / "data").exists()


def test_doctor_says_of_everything_what_it_allows():
    result = invoke("doctor", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert set(found) == {
        "cores", "memory", "disk", "python", "rdkit", "torch", "gpu", "sandbox", "vllm", "ray", "postgresql",
        "chromium",
    }  # fmt: skip
    assert all(one["found"] and one["allows"] and isinstance(one["present"], bool) for one in found.values())
    table = invoke("doctor").stdout
    assert all(name in table for name in found)


def test_doctor_says_whether_plugins_of_strangers_can_run(monkeypatch, tmp_path):
    assert machine._sandbox().present
    monkeypatch.setenv("PATH", str(tmp_path))
    refused = machine._sandbox()
    assert not refused.present and "refused" in refused.allows
