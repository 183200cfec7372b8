"""The activity models: fetched for real, held against published values and against scikit-learn."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from aliquot.domain import ConfigError, Design
from aliquot.verifiers.builtin.molecules import fetch_bioactivity
from aliquot.verifiers.builtin.molecules.bioactivity import Bioactivity, BioactivityConfig
from aliquot.verifiers.builtin.molecules.bioactivity_models import Forest, SupportVectors, load, save
from aliquot.verifiers.builtin.molecules.pickled_arrays import NDARRAY, Record
from aliquot.verifiers.ladder import VerifierLadder
from aliquot.verifiers.stage import VerifierRef

TUTORIAL = (
    "CC(C)(C)[C@H]1CCc2c(sc(NC(=O)COc3ccc(Cl)cc3)c2C(N)=O)C1",
    "C[C@@H]1CCc2c(sc(NC(=O)c3ccco3)c2C(N)=O)C1",
    "CCNC(=O)c1ccc(NC(=O)N2CC[C@H](C)[C@H](O)C2)c(C)c1",
    "C[C@@H]1CCN(C(=O)CCCc2ccccc2)C[C@@H]1O",
    "COc1cc(N(C)CCN(C)C)c(NC(=O)C=C)cc1Nc2nccc(n2)c3cn(C)c4ccccc34",
)
"""The molecules of PyTDC's tutorial on oracles."""


@pytest.mark.parametrize(
    ("model", "values"),
    [
        ("gsk3b", [0.03, 0.02, 0.0, 0.0, 0.54]),  # PyTDC's tutorial
        ("jnk3", [0.01, None, 0.0, 0.01, None]),  # PyTDC's tests
        ("drd2", [0.0015465365340340924, None, None, None, None]),  # PyTDC, as the tests of the package poli record it
    ],
)
def test_a_model_gives_what_the_therapeutics_data_commons_give(model, values, activity_models, judge):
    scores = judge(Bioactivity(BioactivityConfig(model=model, files=activity_models)), *TUTORIAL)
    for score, value in zip(scores, values, strict=True):
        assert value is None or score.score == pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("model", ["gsk3b", "jnk3", "drd2"])
def test_its_controls_hold_and_malformed_smiles_are_named(model, activity_models, judge):
    config = BioactivityConfig(model=model, files=activity_models)
    verifier = Bioactivity(config)
    controls = verifier.controls_for(config)
    scores = judge(verifier, *(str(control.design.value) for control in controls))
    assert len(controls) == 2 and controls[0].at_least > 0.5
    assert [c.breach(s.score, s.accepted) for c, s in zip(controls, scores, strict=True)] == ["", ""]
    with pytest.raises(ValueError, match="'c1cccc1' is not a valid SMILES"):
        judge(verifier, "c1cccc1")


def test_a_minimum_refuses(activity_models, judge):
    verifier = Bioactivity(BioactivityConfig(model="gsk3b", files=activity_models, minimum=0.5))
    low, high = judge(verifier, TUTORIAL[0], TUTORIAL[4])
    assert not low.accepted and low.reason == "predicted activity 0.030 is below 0.5" and high.accepted


def test_in_a_campaign_it_finds_the_folder_of_the_user(activity_models, monkeypatch):
    monkeypatch.setenv("ALIQUOT_CACHE", str(activity_models.parent))
    with VerifierLadder([VerifierRef(type="bioactivity", config={"model": "gsk3b"})], kind="molecule") as ladder:
        (judgement,) = ladder.verify([Design(kind="molecule", value=TUTORIAL[4])])
    assert judgement.verdicts["bioactivity"].score == pytest.approx(0.54)


def test_without_the_models_the_configuration_says_how_to_fetch_them(monkeypatch, tmp_path):
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path))
    with pytest.raises(ConfigError) as error:
        VerifierLadder([VerifierRef(type="bioactivity", config={"model": "jnk3"})], kind="molecule")
    assert "0.config.files" in str(error.value) and f"there is no {tmp_path}/bioactivity/jnk3.npz" in str(error.value)
    assert fetch_bioactivity.COMMAND in str(error.value)


def test_the_command_refuses_an_archive_that_is_not_the_one_and_writes_nothing(tmp_path):
    wheel, folder = tmp_path / "molscore-1.9.5-py3-none-any.whl", tmp_path / "models"
    wheel.write_bytes(b"PK\x03\x04 something else")
    module = fetch_bioactivity.COMMAND.removeprefix("python ").split()
    done = subprocess.run(
        [sys.executable, *module, "--wheel", str(wheel), "--folder", str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 1 and "it was not read" in done.stderr and fetch_bioactivity.SHA256 in done.stderr
    assert list(folder.iterdir()) == []


def test_a_download_that_fails_says_what_pip_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(fetch_bioactivity.FetchError, match=r"(?s)--wheel FILE.*No matching distribution"):
        fetch_bioactivity.fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_damaged_or_of_another_source_is_refused(activity_models, tmp_path):
    source = fetch_bioactivity.source_of("jnk3")
    model = load(Forest, activity_models / "jnk3.npz", source)
    save(model, tmp_path / "other.npz", {**source, "sha256": "0"})
    with pytest.raises(ValueError, match="comes from"):
        load(Forest, tmp_path / "other.npz", source)
    (tmp_path / "cut.npz").write_bytes((activity_models / "jnk3.npz").read_bytes()[:-4000])
    with pytest.raises(ValueError, match="fetch the models again"):
        load(Forest, tmp_path / "cut.npz", source)
    looped = model.absent.copy()
    looped[0] = 0
    with pytest.raises(ValueError, match="damaged"):
        Forest(model.feature, looped, model.present, model.active, model.roots)


def of_array(values) -> Record:
    return Record(NDARRAY, state=np.asarray(values))


def test_the_forest_agrees_with_scikit_learn_on_one_that_it_trained():
    from sklearn.ensemble import RandomForestClassifier

    random = np.random.default_rng(3)
    x = (random.random((300, 2048)) < 0.3).astype(float)
    y = (x[:, :5].sum(axis=1) + random.normal(0, 0.5, 300) > 1.5).astype(int)
    trained = RandomForestClassifier(20, min_samples_leaf=3, random_state=1, n_jobs=1).fit(x, y)
    trees = []
    for estimator in trained.estimators_:
        tree = estimator.tree_
        nodes = np.zeros(
            tree.node_count,
            [("left_child", "i8"), ("right_child", "i8"), ("feature", "i8"), ("threshold", "f8")],
        )
        nodes["left_child"], nodes["right_child"] = tree.children_left, tree.children_right
        nodes["feature"], nodes["threshold"] = tree.feature, tree.threshold
        state = {"nodes": of_array(nodes), "values": of_array(tree.value)}
        trees.append(Record("tree", state={"tree_": Record("Tree", state=state)}))
    forest = Forest.convert(Record("forest", state={"estimators_": trees}))
    asked = (random.random((50, 2048)) < 0.3).astype(float)
    expected = trained.predict_proba(asked)[:, 1]
    assert np.ptp(expected) > 0.2
    assert [forest.probability(row) for row in asked] == pytest.approx(expected.tolist())


def test_the_support_vectors_agree_with_libsvm():
    from sklearn.svm import _libsvm

    random = np.random.default_rng(5)
    x, asked = np.zeros((200, 2048)), np.zeros((40, 2048))
    x[:, ::128], asked[:, ::128] = random.poisson(2, (200, 16)), random.poisson(2, (40, 16))
    y = (x[:, :512].sum(axis=1) + random.normal(0, 1, 200) > 8).astype(float)
    gamma = 1 / 64
    support, vectors, n_support, dual, intercept, slope, offset, _, _ = _libsvm.fit(
        x, y, svm_type=0, kernel="rbf", C=128.0, gamma=gamma, probability=True, random_seed=2
    )
    state = {
        "kernel": "rbf", "_gamma": gamma, "classes_": of_array([0, 1]), "support_vectors_": of_array(vectors),
        "_dual_coef_": of_array(dual), "_intercept_": of_array(intercept), "_probA": of_array(slope),
        "_probB": of_array(offset),
    }  # fmt: skip
    machine = SupportVectors.convert(Record("svc", state=state))
    expected = _libsvm.predict_proba(
        asked, support, vectors, n_support, dual, intercept, slope, offset, svm_type=0, kernel="rbf", gamma=gamma
    )[:, 1]
    assert np.ptp(expected) > 0.2
    assert [machine.probability(row) for row in asked] == pytest.approx(expected.tolist(), rel=1e-9)
