"""Every file under `examples/` does what it says."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import yaml
from starlette.testclient import TestClient
from typer.testing import CliRunner

from aliquot.api.app import create_app
from aliquot.campaigns.load import load
from aliquot.cli import app

CAMPAIGNS = ("druglike", "conditions", "sequence")
SMALL = (
    "budget.experiments=6", "proposing.group_size=8", "proposing.max_in_flight=6", "selecting.per_round=3",
    "selecting.minimum_observations=4",
)  # fmt: skip


def invoke(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_every_example_campaign_has_a_case_here(project):
    assert {path.stem for path in (project / "examples/campaigns").iterdir()} == set(CAMPAIGNS)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_example_campaign_is_one_that_can_run(project, name):
    spec = load(project / f"examples/campaigns/{name}.yaml")
    assert spec.name == name


def test_every_example_is_accepted_over_http(project, tmp_path):
    client = TestClient(create_app(tmp_path), base_url="http://127.0.0.1")
    for name in CAMPAIGNS:
        body = (project / f"examples/campaigns/{name}.yaml").read_bytes()
        made = client.post("/api/v1/campaigns", content=body, headers={"content-type": "application/yaml"})
        assert made.status_code == 201, made.text


def test_the_main_job_runs_from_its_file(project, tmp_path):
    folder = tmp_path / "run"
    small = [word for assignment in SMALL for word in ("--set", assignment)]
    result = invoke("run", project / "examples/campaigns/druglike.yaml", "--out", folder, *small)
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader((folder / "results.csv").open()))
    assert len(rows) == 6 and {"potency [pIC50]", "solubility [logS]", "permeability [logBB]"} <= set(rows[0])


def test_a_prior_is_pretrained_from_its_example(project, tmp_path, monkeypatch):
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path / "cache"))
    config = yaml.safe_load((project / "examples/pretraining/zinc_moe.yaml").read_text())
    output = tmp_path / "prior"
    small = {
        "corpus": config["corpus"] | {"limit": 400, "holdout": 20},
        "architecture": config["architecture"] | {"hidden_size": 16, "layers": 1, "heads": 2, "feed_forward_size": 16},
        "schedule": config["schedule"] | {"steps": 4, "batch_size": 8},
        "evaluate_samples": 20,
        "output": str(output),
    }
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(config | small))
    result = invoke("pretrain", path, "--work", tmp_path / "work")
    assert result.exit_code == 0, result.output
    assert (output / "model.safetensors").exists() and str(output) in result.output


@pytest.mark.parametrize("name", ["zinc_moe", "zinc_dense"])
def test_every_pretraining_example_is_read(project, name):
    from aliquot.trainer.pretraining.driver import read_config

    assert read_config(Path(project / f"examples/pretraining/{name}.yaml")).name == name
