"""The forest predicts, knows how well, and repeats itself."""

from __future__ import annotations

import numpy as np
import pytest

from aliquot.domain import ConditionsSpace, MoleculeSpace, SequenceSpace
from aliquot.domain.spaces import Categorical, Continuous
from aliquot.surrogates import RandomForestSurrogate, SurrogateError, SurrogateNotReady

SPACE = ConditionsSpace(
    parameters=(
        Continuous(name="x", low=0.0, high=1.0, levels=1000),
        Continuous(name="y", low=0.0, high=1.0, levels=1000),
        Categorical(name="z", choices=("a", "b")),
    )
)


def designs_of(n: int, seed: int, low: float = 0.0, high: float = 1.0):
    rng = np.random.default_rng(seed)
    rows = zip(rng.uniform(low, high, n), rng.uniform(low, high, n), rng.choice(["a", "b"], n), strict=True)
    return [SPACE.design({"x": float(x), "y": float(y), "z": str(z)}) for x, y, z in rows]


def truth(designs) -> np.ndarray:
    return np.array([np.sin(5 * d.value["x"]) + d.value["y"] ** 2 + 0.5 * (d.value["z"] == "b") for d in designs])


def noisy(designs, seed: int, sd: float = 0.2) -> np.ndarray:
    return truth(designs) + sd * np.random.default_rng(seed).standard_normal(len(designs))


@pytest.fixture(scope="module")
def fitted() -> RandomForestSurrogate:
    designs = designs_of(200, seed=0)
    forest = RandomForestSurrogate(SPACE, seed=0)
    forest.fit(designs, noisy(designs, seed=1))
    return forest


def test_it_learns_a_known_function_from_noisy_values(fitted):
    new = designs_of(300, seed=2)
    error = np.mean((fitted.predict(new).mean - truth(new)) ** 2)
    assert error < 0.1 * truth(new).var()


def test_the_standard_deviation_is_that_of_a_new_measurement(fitted):
    new = designs_of(400, seed=3)
    prediction = fitted.predict(new)
    scaled = (noisy(new, seed=4) - prediction.mean) / prediction.sd
    assert np.sqrt(np.mean(scaled**2)) == pytest.approx(1.0, abs=0.2)
    assert np.mean(np.abs(scaled) < 1) == pytest.approx(0.68, abs=0.1)


def test_mean_and_standard_deviation_are_those_of_the_draws(fitted):
    prediction = fitted.predict(designs_of(20, seed=5))
    assert prediction.draws.shape == (100, 20)
    assert prediction.draws.mean(axis=0) == pytest.approx(prediction.mean)
    assert prediction.draws.std(axis=0) == pytest.approx(prediction.sd)


def test_it_is_less_sure_far_from_what_it_has_seen():
    space = MoleculeSpace()
    seen = [space.design("C" * n + end) for n in range(1, 16) for end in ("O", "N", "C(=O)O")]
    values = np.array([0.3 * len(d.value) + 1.5 * ("N" in d.value) for d in seen])
    forest = RandomForestSurrogate(space, seed=0)
    forest.fit(seen, values)
    strange = [space.design(s) for s in ("c1ccc2[nH]ccc2c1", "O=S(=O)(c1ccccc1)N1CCNCC1", "Fc1ccc(cc1)-c1ncccn1")]
    assert forest.predict(strange).sd.mean() > 1.5 * forest.predict(seen).sd.mean()


def test_out_of_bag_means_are_honest():
    designs = designs_of(150, seed=6)
    noise = np.random.default_rng(7).standard_normal(150)
    forest = RandomForestSurrogate(SPACE, seed=0)
    forest.fit(designs, noise)  # nothing to learn
    assert np.corrcoef(forest.predict(designs).mean, noise)[0, 1] > 0.7
    assert abs(np.corrcoef(forest.out_of_bag(), noise)[0, 1]) < 0.3


def test_out_of_bag_means_are_those_of_scikit_learn():
    from sklearn.ensemble import RandomForestRegressor

    from aliquot.surrogates.features import featuriser_of

    designs = designs_of(80, seed=8)
    values = noisy(designs, seed=9)
    forest = RandomForestSurrogate(SPACE, seed=11)
    forest.fit(designs, values)
    peer = RandomForestRegressor(100, max_features=4, min_samples_leaf=2, random_state=11, oob_score=True)
    peer.fit(featuriser_of(SPACE)(designs), values)
    assert forest.out_of_bag() == pytest.approx(peer.oob_prediction_)


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    designs, new = designs_of(60, seed=0), designs_of(30, seed=1)
    values = noisy(designs, seed=2)

    def draws(seed: int) -> np.ndarray:
        forest = RandomForestSurrogate(SPACE, seed, trees=20)
        forest.fit(designs, values)
        return forest.predict(new).draws

    assert np.array_equal(draws(1), draws(1))
    assert not np.array_equal(draws(1), draws(2))


def test_it_learns_molecules_and_sequences_better_than_their_mean():
    from rdkit import Chem
    from rdkit.Chem.QED import qed

    molecules = MoleculeSpace()
    rings, tails = ("c1ccccc1", "c1ccncc1", "C1CCCCC1", "C1CCOC1", "c1ccsc1"), ("O", "N", "Cl", "OC(=O)", "N#C", "CC")
    made = [molecules.design(f"{'C' * n}{end}") for n in range(3) for end in rings]
    made += [molecules.design(f"{tail}{'C' * n}{ring}") for n in range(1, 4) for ring in rings for tail in tails]
    weights = np.array([qed(Chem.MolFromSmiles(d.value)) for d in made])

    peptides = SequenceSpace(alphabet="protein", max_length=12)
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACDEFGHIKL"), rng.integers(4, 12))) for _ in range(120)]
    chains = [peptides.design(text) for text in dict.fromkeys(texts)]
    charges = np.array([d.value.count("K") + 2 * d.value.startswith("A") for d in chains], dtype=float)

    for space, designs, values in ((molecules, made, weights), (peptides, chains, charges)):
        order = np.random.default_rng(1).permutation(len(designs))
        train, test = order[: len(order) * 2 // 3], order[len(order) * 2 // 3 :]
        forest = RandomForestSurrogate(space, seed=0)
        forest.fit([designs[i] for i in train], values[train])
        error = np.mean((forest.predict([designs[i] for i in test]).mean - values[test]) ** 2)
        assert error < 0.5 * np.mean((values[train].mean() - values[test]) ** 2)


def test_equal_values_are_predicted_without_doubt():
    designs = designs_of(20, seed=0)
    forest = RandomForestSurrogate(SPACE, seed=0)
    forest.fit(designs, np.full(20, 2.5))
    prediction = forest.predict(designs_of(5, seed=1))
    assert prediction.mean == pytest.approx([2.5] * 5) and prediction.sd == pytest.approx([0.0] * 5)


def test_two_designs_are_enough_to_begin():
    forest = RandomForestSurrogate(SPACE, seed=0)
    forest.fit(designs_of(2, seed=0), np.array([1.0, 3.0]))
    assert np.isfinite(forest.predict(designs_of(4, seed=1)).draws).all()
    assert forest.predict([]).draws.shape == (100, 0)


def test_what_it_cannot_learn_from_is_refused():
    designs = designs_of(3, seed=0)
    forest = RandomForestSurrogate(SPACE, seed=0)
    with pytest.raises(SurrogateError, match="value 1 is nan; leave it out"):
        forest.fit(designs, np.array([1.0, np.nan, 2.0]))
    with pytest.raises(SurrogateError, match=r"3 designs and values of shape \(2,\)"):
        forest.fit(designs, np.zeros(2))
    with pytest.raises(SurrogateError, match="trees=3"):
        RandomForestSurrogate(SPACE, seed=0, trees=3)
    with pytest.raises(SurrogateNotReady):
        forest.predict(designs)
    with pytest.raises(SurrogateNotReady):
        forest.out_of_bag()
