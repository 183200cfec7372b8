"""MolScore tasks, run by the package itself from PyPI, in an environment of its own and in the sandbox.

The environment is built once for a test run; 45 wheels, 170 MB to fetch.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import aliquot
from aliquot.domain import ConfigError, Design
from aliquot.verifiers import environment
from aliquot.verifiers.adapters.molscore import TESTED, MolScoreTask
from aliquot.verifiers.registry import validate_config
from aliquot.verifiers.sdk import NoScore

ALBUTEROL, ETHANOL, ASPIRIN = "CC(C)(C)NCC(O)c1ccc(O)c(CO)c1", "CCO", "CC(=O)Oc1ccccc1C(=O)O"
TASK = {
    "task": "mine",
    "output_dir": "./",
    "load_from_previous": False,
    "logging": False,
    "monitor_app": False,
    "diversity_filter": {"run": False},
    "scoring_functions": [
        {"name": "MolecularDescriptors", "run": True, "parameters": {"prefix": "desc", "n_jobs": 1}},
        {"name": "Isomer", "run": False, "parameters": {}},
    ],
    "scoring": {
        "method": "amean",
        "metrics": [
            {"name": "desc_QED", "weight": 1.0, "modifier": "raw", "parameters": {}},
            {"name": "desc_TPSA", "weight": 1.0, "modifier": "norm",
             "parameters": {"objective": "maximize", "max": 200.0, "min": 0.0}},
        ],
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def built(environment_of):
    environment_of(TESTED)


@pytest.fixture
def task(tmp_path):
    """Writes a task, changed as asked."""

    def write(**changes):
        (tmp_path / "task.json").write_text(json.dumps({**TASK, **changes}, indent=1))
        return tmp_path / "task.json"

    return write


def test_a_task_of_molscore_gives_its_published_value_and_nothing_is_remembered(verdicts):
    task = {"task": "GuacaMol:Albuterol_similarity"}
    first = verdicts("molscore", [ALBUTEROL, ETHANOL, "c1cccc1", ALBUTEROL], **task)
    assert [v.score for v in first] == [1.0, pytest.approx(0.144928, abs=1e-6), 0.0, 1.0]
    assert [v.accepted for v in first] == [True, True, False, True]
    assert first[1].values["Albuterol_Sim"] == pytest.approx(first[1].score * 0.75)
    assert {"bubblewrap", "no_network"} <= {*first[0].controls}
    again = verdicts("molscore", [ETHANOL], **task)
    assert again[0].score == first[1].score, "a verdict does not depend on what came before"


def test_a_task_of_ones_own_is_aggregated_and_its_metrics_are_rdkits(verdicts, task):
    from rdkit import Chem
    from rdkit.Chem import QED, rdMolDescriptors

    found = verdicts("molscore", [ASPIRIN, ALBUTEROL], file=str(task()), minimum=0.5)
    for smiles, verdict in zip([ASPIRIN, ALBUTEROL], found, strict=True):
        mol = Chem.MolFromSmiles(smiles)
        qed, tpsa = QED.qed(mol), rdMolDescriptors.CalcTPSA(mol)
        assert verdict.values == {"desc_QED": pytest.approx(qed), "desc_TPSA": pytest.approx(tpsa)}
        assert verdict.score == pytest.approx((qed + tpsa / 200) / 2)
        assert verdict.accepted == (verdict.score >= 0.5)


CASES = """
import json, sys
from aliquot.verifiers.adapters.molscore import _open_task
for case in json.load(sys.stdin):
    try:
        said = _open_task(case, sys.argv[1]).rows(["CC(=O)Oc1ccccc1C(=O)O", "CCO"])
    except Exception as error:
        said = str(error)
    print(json.dumps(said))
"""


def test_what_molscore_would_hide_is_told(task, tmp_path):
    """In one process, for the import of MolScore is what takes the time here."""
    descriptors = [{"name": "MolecularDescriptors", "run": True, "parameters": {"prefix": "desc", "n_jobs": 1}}]
    metric = {"name": "desc_Missing", "weight": 1.0, "modifier": "raw", "parameters": {}}
    absent = task(scoring_functions=descriptors, scoring={"method": "single", "metrics": [metric]}).rename(
        tmp_path / "absent.json"
    )
    lacking = task(scoring_functions=[{"name": "ChemistryFilter", "run": True, "parameters": {}}]).rename(
        tmp_path / "lacking.json"
    )
    cases = [str(absent), str(lacking), "GuacaMol:Albuterol", "Guacamole:Albuterol_similarity"]
    done = subprocess.run(
        [str(environment.python_of_pins(TESTED)), "-c", CASES, str(tmp_path / "out")],
        env={"PYTHONPATH": os.pathsep.join(str(Path(root).parent) for root in aliquot.__path__), "HOME": str(tmp_path)},
        input=json.dumps(cases), capture_output=True, text=True,
    )  # fmt: skip
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == 4, done.stderr
    assert "'desc_Missing' was not computed; there is desc_QED" in said[0]
    assert "ChemistryFilter of this task cannot be imported" in said[1]
    assert "has no task 'Albuterol'; there is Albuterol_similarity" in said[2]
    assert "no preset 'Guacamole'; there is GuacaMol" in said[3]


def test_a_metric_that_is_nan_for_one_molecule_takes_its_score_alone():
    rows = [
        {"invalid": False, "failed": ["vina_score"], "score": 1e-6, "metrics": {}},
        {"invalid": False, "failed": [], "score": 0.25, "metrics": {"vina_score": 0.25}},
    ]
    judge = MolScoreTask.__new__(MolScoreTask)
    judge.config = MolScoreTask.Config(task="GuacaMol:Albuterol_similarity")
    judge._task = SimpleNamespace(rows=lambda smiles: rows)
    one, other = judge.verify([Design(kind="molecule", value=s) for s in (ASPIRIN, ETHANOL)])
    assert isinstance(one, NoScore) and "vina_score could not be computed" in one.reason and other.score == 0.25


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"diversity_filter": {"run": True, "name": "Unique", "parameters": {}}}, "use the verifier `diversity`"),
        ({"scoring": {**TASK["scoring"], "method": "pareto_front"}}, "compares the molecules of a batch"),
        ({"scoring": {"method": "single", "metrics": [
            {"name": "desc_QED", "weight": 1, "modifier": "norm", "parameters": {"objective": "maximize"}}]}},
         "give norm a max and a min"),
        ({"scoring_functions": []}, "none of its scoring functions"),
    ],
)  # fmt: skip
def test_a_task_whose_scores_depend_on_each_other_is_refused_with_what_to_do(task, changes, says):
    with pytest.raises(ConfigError) as refused:
        validate_config("molscore", {"file": str(task(**changes))})
    assert says in str(refused.value)


def test_an_environment_that_is_not_built_is_told_with_the_command_that_builds_it(verdicts):
    with pytest.raises(ConfigError, match=r"\(molscore==1\.9\.4, …\) is not built yet: aliquot plugin prepare mol"):
        verdicts("molscore", [ASPIRIN], task="GuacaMol:Albuterol_similarity", requirements=["molscore==1.9.4"])
