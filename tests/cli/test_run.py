"""`aliquot run`: from a file to results, stopped and resumed, refused before anything is made."""

from __future__ import annotations

import csv
import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from aliquot.cli import app
from aliquot.cli.run import _next_folder


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty working directory."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def invoke(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_campaign_leaves_its_results_and_says_where(small_file, here):
    result = invoke("run", small_file)
    assert result.exit_code == 0, result.output
    folder = here / "runs/small-1"
    rows = list(csv.DictReader((folder / "results.csv").open()))
    assert len(rows) == 12
    assert json.loads((folder / "summary.json").read_text())["experiments"]["budget"] == 12
    assert (folder / "report.html").exists() and (folder / "config.yaml").exists()
    assert "runs/small-1/report.html" in result.output
    assert "--logdir runs/small-1" in result.output


def test_a_second_run_gets_a_folder_of_its_own(here):
    (here / "runs/small-7").mkdir(parents=True)
    (here / "runs/small-old").mkdir()
    assert _next_folder("Small") == Path("runs/small-8")
    assert _next_folder("Small Molecules, 2") == Path("runs/small-molecules-2-1")


def test_out_names_the_folder_and_set_changes_a_value(small_file, here):
    result = invoke("run", small_file, "--out", "mine", "--set", "budget.experiments=4", "--quiet")
    assert result.exit_code == 0, result.output
    assert yaml.safe_load((here / "mine/config.yaml").read_text())["budget"]["experiments"] == 4
    assert "Experiments" not in result.output


def test_an_unknown_key_is_one_message_with_its_path_and_makes_nothing(small_file, here):
    result = invoke("run", small_file, "--set", "budget.experimants=4")
    assert result.exit_code == 2
    assert "budget.experimants" in result.stderr and "did you mean 'experiments'" in result.stderr
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("arguments", [["run"], ["run", "missing.yaml"], ["run", "--resume", "nowhere"]])
def test_what_cannot_be_run_exits_2_and_makes_nothing(arguments, here):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 2
    assert list(here.iterdir()) == []


def test_a_folder_with_a_run_takes_no_second(small_file, here):
    assert invoke("run", small_file, "--out", "mine", "-q", "--set", "budget.experiments=4").exit_code == 0
    before = (here / "mine/results.csv").read_bytes()
    again = invoke("run", small_file, "--out", "mine")
    assert again.exit_code == 2 and "holds a run already" in again.stderr
    assert (here / "mine/results.csv").read_bytes() == before


def test_a_stopped_run_says_how_to_go_on_and_that_command_finishes_it(small_file, here):
    command = [sys.executable, "-m", "aliquot.cli", "run", str(small_file), "--set", "budget.experiments=60"]
    stopped = start_and_stop(command, signal.SIGINT)
    assert stopped.returncode == 130, stopped.stdout
    (again,) = re.findall(r"^\s+(\S*aliquot run --resume .*)$", stopped.stdout, re.MULTILINE)
    arguments = shlex.split(again)[1:]
    assert arguments == ["run", "--resume", "runs/small-1"]

    other = invoke("run", small_file, "--resume", "runs/small-1")
    assert other.exit_code == 2 and "another budget" in other.stderr
    finished = invoke(*arguments)
    assert finished.exit_code == 0, finished.output
    assert len(list(csv.DictReader((here / "runs/small-1/results.csv").open()))) == 60


def test_sigterm_stops_as_ctrl_c_does(small_file, here):
    command = [sys.executable, "-m", "aliquot.cli", "run", str(small_file), "--set", "budget.experiments=60"]
    assert start_and_stop(command, signal.SIGTERM).returncode == 130


def start_and_stop(command: list[str], number: signal.Signals) -> subprocess.CompletedProcess:
    """Run until the first line of progress, send the signal, wait for the end."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = []
    for text in process.stdout:
        said.append(text)
        if text.startswith("day "):
            process.send_signal(number)
            break
    said.append(process.stdout.read())
    return subprocess.CompletedProcess(command, process.wait(), "".join(said))
