"""Every command of the README is run: here, or by the test that is named for it. A new one without a case fails."""

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

SMALL = [
    "budget.experiments=6", "proposing.group_size=8", "proposing.max_in_flight=6", "selecting.per_round=3",
    "selecting.minimum_observations=4",
]  # fmt: skip
"""What makes an example campaign last seconds."""

COVERED = {
    "make run": "tests/cli/test_examples.py::test_the_main_job_runs_from_its_file",
    "make serve": "tests/api/test_served_campaign.py::test_a_scientist_submits_waits_and_takes_the_results",
    "make test": "tests/packaging/test_make.py::test_test_checks_style_and_types_before_it_runs_the_tests",
    "make lint": "tests/packaging/test_make.py::test_test_checks_style_and_types_before_it_runs_the_tests",
    'make bench ARGS="learning --json"': "tests/packaging/test_make.py::test_arguments_reach_the_commands",
    "curl -H 'Content-Type: application/yaml' --data-binary @examples/campaigns/conditions.yaml "
    "http://127.0.0.1:8000/api/v1/campaigns": "tests/cli/test_examples.py::test_every_example_is_accepted_over_http",
    "aliquot pretrain examples/pretraining/zinc_moe.yaml": (
        "tests/cli/test_examples.py::test_a_prior_is_pretrained_from_its_example"
    ),
    "aliquot plugin check ./my-verifier": (
        "tests/verifiers/kit/test_scaffold.py::test_it_passes_the_checks_in_the_sandbox"
    ),
}
"""Commands that take too long, or need a server, and the tests that run them smaller."""

ACTIVATE = "source .venv/bin/activate"


def readme(project: Path) -> str:
    return (project / "README.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(project: Path) -> list[str]:
    lines = "".join(blocks(readme(project), "console")).splitlines()
    assert all(text.startswith("$ ") for text in lines)
    return [text.removeprefix("$ ") for text in lines]


def test_every_command_is_run_here_or_covered_by_name(project):
    found = commands(project)
    quick = ("check", "run", "doctor", "plugin new", "plugin pack")
    here = [c for c in found if c.startswith((*(f"aliquot {name}" for name in quick), "tensorboard"))]
    here = [c for c in here if c not in COVERED]
    assert set(found) - set(here) - {ACTIVATE} == set(COVERED)
    for name in COVERED.values():
        path, _, test = name.partition("::")
        assert f"def {test}(" in (project / path).read_text(), name


def test_the_quick_commands_work_in_order_as_written_but_smaller(project, tmp_path):
    shutil.copytree(project / "examples", tmp_path / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = []
    for command in commands(project):
        words = shlex.split(command)
        if command in COVERED or command == ACTIVATE:
            continue
        if words[:2] == ["aliquot", "run"] and "--resume" not in words:
            words += [word for assignment in SMALL for word in ("--set", assignment)]
        if words[0] == "tensorboard":
            words.append("--version_tb")
        done = subprocess.run(words, cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        ran.append(command)
    assert len(ran) >= 6
    for name in ("first", "soluble", "study"):
        assert (tmp_path / "runs" / name / "report.html").exists()


def test_the_verifier_it_shows_is_the_one_that_is_shipped(project):
    shown = [block for block in blocks(readme(project), "python") if "class Hydrophobicity" in block]
    assert shown == [(project / "examples/plugins/hydrophobicity.py").read_text()]


def test_the_campaign_section_it_shows_names_the_shipped_verifier(project, monkeypatch):
    from aliquot.campaigns.load import load

    monkeypatch.chdir(project)
    (section,) = blocks(readme(project), "yaml")
    (verifier,) = yaml.safe_load(section)["verifiers"]
    spec = load(project / "examples/campaigns/sequence.yaml", [f"verifiers=[{verifier}]"])
    assert spec.verifiers[0].config == {"maximum": 0.4}


def test_the_client_it_shows_is_the_client_there_is(project):
    (shown,) = [block for block in blocks(readme(project), "python") if "Client" in block]
    compile(shown, "README.md", "exec")
    from aliquot.client import Campaign, Client

    used = set(re.findall(r"(client|campaign)\.(\w+)\(", shown))
    assert used == {("client", "submit"), ("campaign", "wait"), ("campaign", "results")}
    assert all(hasattr(Client if owner == "client" else Campaign, name) for owner, name in used)


@pytest.mark.parametrize("link", ["examples/campaigns/druglike.yaml", "examples/plugins/hydrophobicity.py"])
def test_what_it_links_to_is_there(project, link):
    assert f"]({link})" in readme(project)
    assert (project / link).is_file()
