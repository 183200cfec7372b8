"""Models from files give what the library that trained them gives; nothing is run that is not trusted."""

from __future__ import annotations

import hashlib
import os
import pickle
from typing import Any

import joblib
import numpy as np
import pytest

from aliquot.domain import ConfigError, Design
from aliquot.verifiers.builtin.general.learned_model import LearnedModel
from aliquot.verifiers.registry import validate_config
from aliquot.verifiers.sdk import Score

PARAMETERS = {
    "type": "parameters",
    "columns": [
        {"parameter": "temperature"},
        {"parameter": "loading"},
        {"parameter": "base", "choices": ["NaH", "KOH"]},
    ],
}
ROWS = [(t, p, b) for t in (20.0, 60.0, 100.0) for p in (1.0, 5.0, 9.0) for b in ("NaH", "KOH")]


def judge(config: dict[str, Any], value: Any, kind: str = "conditions") -> Score:
    verifier = LearnedModel(LearnedModel.Config.model_validate(config))
    (score,) = verifier.verify([Design(kind=kind, value=value)])
    return score


def setting(temperature: float, loading: float, base: str) -> dict[str, Any]:
    return {"temperature": temperature, "loading": loading, "base": base}


@pytest.fixture(scope="module")
def matrix() -> np.ndarray:
    return np.array([[t, p, b == "NaH", b == "KOH"] for t, p, b in ROWS], dtype=float)


@pytest.fixture(scope="module")
def forest(matrix, tmp_path_factory):
    from sklearn.ensemble import RandomForestRegressor

    path = tmp_path_factory.mktemp("models") / "forest.joblib"
    model = RandomForestRegressor(10, random_state=0).fit(matrix, matrix @ [0.5, 2.0, 10.0, 0.0])
    joblib.dump(model, path)
    return path, model


def test_a_forest_of_scikit_learn_gives_what_it_gave_where_it_was_trained(forest, matrix):
    path, model = forest
    config = {"features": PARAMETERS, "model": {"type": "sklearn", "file": str(path), "trust": True}}
    for row, known in zip(ROWS[::4], matrix[::4], strict=True):
        assert judge(config, setting(*row)).score == pytest.approx(model.predict([known])[0])


def test_a_classifier_gives_the_probability_of_the_class_asked_for(matrix, tmp_path):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=2000).fit(matrix, matrix[:, 0] > 50)
    (path := tmp_path / "classifier.pkl").write_bytes(pickle.dumps(model))
    config = {"features": PARAMETERS, "model": {"type": "sklearn", "file": str(path), "trust": True, "output": 1}}
    assert judge(config, setting(80.0, 5.0, "NaH")).score == pytest.approx(model.predict_proba([[80, 5, 1, 0]])[0, 1])


def test_a_network_of_torch_gives_what_torch_gives(tmp_path):
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 5), torch.nn.GELU(), torch.nn.Linear(5, 3)
    ).double()
    state = {name: tensor.contiguous() for name, tensor in net.state_dict().items()}
    scaled = {**state, "mean": torch.tensor([60.0, 5, 0, 0]).double(), "scale": torch.tensor([40.0, 4, 1, 1]).double()}
    torch.save(state, tmp_path / "net.pt")
    save_file(scaled, tmp_path / "net.safetensors")
    x = torch.tensor([[80.0, 3.0, 0.0, 1.0]]).double()
    raw = net(x).detach().numpy()[0]
    shifted = torch.softmax(net((x - scaled["mean"]) / scaled["scale"]), 1).detach().numpy()[0]
    torch_model = {"type": "torch", "file": str(tmp_path / "net.pt"), "activation": "gelu", "output": 2}
    safe_model = {**torch_model, "type": "safetensors", "file": str(tmp_path / "net.safetensors"), "link": "softmax"}
    at = setting(80.0, 3.0, "KOH")
    assert judge({"features": PARAMETERS, "model": torch_model}, at).score == pytest.approx(raw[2], abs=1e-9)
    assert judge({"features": PARAMETERS, "model": safe_model}, at).score == pytest.approx(shifted[2], abs=1e-9)


def test_a_published_equation_is_a_model_too():
    """The ESOL equation of Delaney (2004), less its aromatic share, for benzene: 0.16 − 0.63·1.6866 − 0.0062·78.114."""
    config = {
        "features": {"type": "descriptors", "names": ["MolLogP", "MolWt", "NumRotatableBonds"]},
        "model": {"type": "linear", "coefficients": [-0.63, -0.0062, 0.066], "intercept": 0.16},
    }
    assert judge(config, "c1ccccc1", "molecule").score == pytest.approx(
        0.16 - 0.63 * 1.6866 - 0.0062 * 78.114, abs=1e-4
    )
    logistic = {**config, "model": {**config["model"], "coefficients": [0, 0, 0], "intercept": 0, "link": "logistic"}}
    assert judge(logistic, "c1ccccc1", "molecule").score == 0.5


def test_features_of_molecules_and_sequences_are_those_of_their_definition():
    from rdkit import Chem
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    bits = GetMorganGenerator(radius=2, fpSize=64).GetFingerprint(Chem.MolFromSmiles("CCO")).GetNumOnBits()
    ones = {"type": "linear", "coefficients": [1.0] * 64}
    assert judge({"features": {"type": "morgan", "size": 64}, "model": ones}, "CCO", "molecule").score == bits
    pairs = {"type": "composition", "alphabet": "AC", "k": 2}  # AA AC CA CC
    weights = {"type": "linear", "coefficients": [1.0, 10.0, 100.0, 1000.0]}
    assert judge({"features": pairs, "model": weights}, "AACAC", "sequence").score == pytest.approx((1 + 20 + 100) / 4)


POINTS = [[0.0], [1.0], [2.0], [3.0], [4.0]]
ONE = {"type": "parameters", "columns": [{"parameter": "x"}]}
DOUBLE = {"type": "linear", "coefficients": [2.0]}


def test_neighbours_are_counted_in_standard_deviations_of_the_training_set():
    domain = {"points": POINTS, "neighbours": 2, "quantile": 1.0}
    config = {"features": ONE, "model": DOUBLE, "domain": domain}
    spread = np.std(POINTS)
    inside = judge(config, {"x": 2.5})
    assert inside.values["distance"] == pytest.approx(0.5 / spread) and inside.accepted
    assert inside.values["limit"] == pytest.approx(1.5 / spread)  # the end points: 1 and 2 away
    outside = judge(config, {"x": 6.0})  # 2 and 3 away
    assert (outside.score, outside.accepted) == (12.0, False) and outside.values["inside"] is False
    flagged = judge({**config, "domain": {**domain, "outside": "flag"}}, {"x": 6.0})
    assert flagged.accepted and flagged.values["inside"] is False


def test_leverage_is_that_of_the_regression_through_the_training_set():
    """h = 1/n + (x − x̄)² / Σ(xᵢ − x̄)², and the limit 3 (p + 1) / n."""
    config = {"features": ONE, "model": DOUBLE, "domain": {"points": POINTS, "method": "leverage"}}
    score = judge(config, {"x": 5.0})
    assert score.values["distance"] == pytest.approx(1 / 5 + (5 - 2) ** 2 / 10)
    assert score.values["limit"] == pytest.approx(3 * 2 / 5) and score.accepted
    assert not judge(config, {"x": 6.0}).accepted


def test_fingerprints_are_compared_by_tanimoto():
    features = {"type": "composition", "alphabet": "AC", "k": 1}
    domain = {"points": [[1, 0], [1, 0], [0, 1]], "neighbours": 1, "distance": "tanimoto", "quantile": 0.5}
    config = {"features": features, "model": {"type": "linear", "coefficients": [1.0, 0.0]}, "domain": domain}
    assert judge(config, "AAAA", "sequence").values["distance"] == 0
    # (½, ½) against (1, 0): common ½, union ½ + 1 − ½
    assert judge(config, "AC", "sequence").values["distance"] == pytest.approx(1 - 0.5 / 1.0)


@pytest.mark.parametrize("form", ["npy", "csv", "csv with a header"])
def test_the_training_set_comes_from_a_file(tmp_path, form):
    path = tmp_path / f"training.{form[:3]}"
    if form == "npy":
        np.save(path, np.array(POINTS))
    else:
        path.write_text("x\n" * ("header" in form) + "\n".join(str(p[0]) for p in POINTS), encoding="utf-8")
    config = {"features": ONE, "model": DOUBLE, "domain": {"training": str(path), "neighbours": 2, "quantile": 1.0}}
    assert judge(config, {"x": 2.5}).values["distance"] == pytest.approx(0.5 / np.std(POINTS))


class Bomb:
    """Opens as whatever it likes, after it has run what it likes."""

    def __init__(self, marker: str):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (self.marker,)


@pytest.mark.parametrize("type", ["torch", "safetensors", "sklearn"])
def test_a_file_that_runs_code_is_not_run_without_trust(tmp_path, type):
    path, marker = tmp_path / "bomb.pt", tmp_path / "it-ran"
    path.write_bytes(pickle.dumps(Bomb(str(marker)), protocol=2))
    config = {"features": ONE, "model": {"type": type, "file": str(path)}}
    with pytest.raises(ValueError, match="weights|safetensors"):
        judge(config, {"x": 1.0})
    assert not marker.exists()


def test_a_training_set_is_never_unpickled(tmp_path):
    path, marker = tmp_path / "training.npy", tmp_path / "it-ran"
    np.save(path, np.array([[Bomb(str(marker))]], dtype=object), allow_pickle=True)
    config = {"features": ONE, "model": DOUBLE, "domain": {"training": str(path)}}
    with pytest.raises(ValueError, match="no matrix of numbers"):
        judge(config, {"x": 1.0})
    assert not marker.exists()


def test_a_trusted_file_with_another_digest_is_not_opened(tmp_path):
    path, marker = tmp_path / "model.joblib", tmp_path / "it-ran"
    path.write_bytes(pickle.dumps(Bomb(str(marker))))
    digest = hashlib.sha256(b"what was meant").hexdigest()
    model = {"type": "sklearn", "file": str(path), "trust": True, "sha256": digest}
    with pytest.raises(ValueError, match="another file than the campaign names"):
        judge({"features": ONE, "model": model}, {"x": 1.0})
    assert not marker.exists()


def test_a_file_that_does_not_fit_says_what_it_has(forest, tmp_path):
    path, _ = forest
    sklearn = {"type": "sklearn", "file": str(path), "trust": True}
    with pytest.raises(ValueError, match="trained on 4 features, and 1 are configured"):
        judge({"features": ONE, "model": sklearn}, {"x": 1.0})
    with pytest.raises(ValueError, match="gives no probabilities"):
        judge({"features": PARAMETERS, "model": {**sklearn, "output": 1}}, setting(20.0, 1.0, "NaH"))
    from safetensors.numpy import save_file

    save_file({"0.weight": np.ones((2, 3)), "0.bias": np.ones(2)}, tmp_path / "net.safetensors")
    net = {"type": "safetensors", "file": str(tmp_path / "net.safetensors")}
    with pytest.raises(ValueError, match="layer 0 is 2 x 3 with 2 biases, but 1 numbers come in"):
        judge({"features": ONE, "model": net}, {"x": 1.0})
    save_file({"embedding": np.ones((2, 3))}, tmp_path / "net.safetensors")
    with pytest.raises(ValueError, match="has a tensor 'embedding'"):
        judge({"features": ONE, "model": net}, {"x": 1.0})
    with pytest.raises(ValueError, match="3 coefficients for 1 features"):
        judge({"features": ONE, "model": {"type": "linear", "coefficients": [1, 2, 3]}}, {"x": 1.0})
    with pytest.raises(ValueError, match="the training set is 1 x 2"):
        judge({"features": ONE, "model": DOUBLE, "domain": {"points": [[1, 2]]}}, {"x": 1.0})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": {"type": "sklearn", "file": "m.joblib"}}, "set `trust: true` if it is yours"),
        ({"features": {"type": "descriptors", "names": ["MolLogQ"]}}, "RDKit has no descriptor MolLogQ"),
        ({"domain": {}}, "give either `training`, a file, or `points`"),
        ({"model": {"type": "onnx"}}, "config.model"),
        ({"minimum": 2, "maximum": 1}, "nothing can pass"),
    ],
)
def test_a_wrong_configuration_says_where_and_how_to_mend_it(change, says):
    with pytest.raises(ConfigError) as error:
        validate_config("learned_model", {"features": ONE, "model": DOUBLE, **change})
    assert says in str(error.value)


def test_what_the_model_never_saw_is_an_error_and_never_a_score():
    with pytest.raises(ValueError, match="base='LDA' is unknown to the model; it was trained on NaH, KOH"):
        judge({"features": PARAMETERS, "model": {**DOUBLE, "coefficients": [1, 1, 1, 1]}}, setting(1.0, 1.0, "LDA"))
