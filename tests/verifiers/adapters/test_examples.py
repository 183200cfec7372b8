"""The examples of the documentation are the ones that run."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from aliquot.domain import Design
from aliquot.verifiers.adapters.prime_reward import PrimeReward
from aliquot.verifiers.ladder import VerifierLadder
from aliquot.verifiers.registry import ADAPTERS, validate_config
from aliquot.verifiers.stage import VerifierRef

ASPIRIN = Design(kind="molecule", value="CC(=O)Oc1ccccc1C(=O)O")


@pytest.fixture(scope="module")
def folder(project) -> Path:
    return project / "examples/plugins/adapters"


@pytest.fixture(scope="module")
def refs(folder) -> dict[str, VerifierRef]:
    read = yaml.safe_load((folder / "verifiers.yaml").read_text())["verifiers"]
    return {ref.type: ref for ref in map(VerifierRef.model_validate, read)}


def test_every_verifier_of_the_example_has_a_proper_configuration(refs, folder):
    assert {*refs} == {*ADAPTERS, "validity"} - {"http_job"}
    for ref in refs.values():
        validate_config(ref.type, ref.config, folder)


def test_the_component_the_program_and_the_server_judge(refs, folder, monkeypatch):
    monkeypatch.setenv("ALIQUOT_SANDBOX_PRIVATE", "127.0.0.0/8")
    server = subprocess.Popen([sys.executable, str(folder / "length_server.py")], stderr=subprocess.DEVNULL)
    try:
        wanted = ["validity", "reinvent_component", "external_process", "http"]
        with VerifierLadder([refs[type] for type in wanted], base=folder) as ladder:
            until = time.monotonic() + 30
            while not _listening() and time.monotonic() < until:
                time.sleep(0.05)
            (judgement,) = ladder.verify([ASPIRIN])
    finally:
        server.kill()
        server.wait()
    assert {name: v.error for name, v in judgement.verdicts.items() if v.error} == {}
    assert judgement.verdicts["polar_area"].values["area"] == pytest.approx(63.6)
    assert judgement.verdicts["polar_area"].score == pytest.approx(1.0, abs=1e-3)
    assert judgement.verdicts["rings"].score == 1 and judgement.verdicts["rings"].values == {"atoms": 13}
    assert judgement.verdicts["remote"].score == len(str(ASPIRIN.value)) and judgement.accepted


def test_the_reward_functions_judge(refs, folder):
    config = {**refs["prime_reward"].config, "file": folder / "short_rewards.py"}
    (score,) = PrimeReward(PrimeReward.Config.model_validate(config)).verify([ASPIRIN])
    assert score.score == 1.5 and score.values == {"short": 1.0, "ends_well": 1.0}


def test_the_documentation_names_every_adapter_and_all_that_it_can_be_told(project):
    text = (project / "docs/adapters.md").read_text()
    for name in ADAPTERS:
        assert f"`{name}`" in text
        fields = validate_schema(name)
        assert [field for field in fields if f"`{field}`" not in text] == [], name


def validate_schema(name: str) -> list[str]:
    from aliquot.isolation.loading import load_target

    schema = load_target(ADAPTERS[name]).Config.model_json_schema()
    assert [f for f, about in schema["properties"].items() if "description" not in json.loads(json.dumps(about))] == []
    return list(schema["properties"])


def _listening() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", 8900)) == 0
