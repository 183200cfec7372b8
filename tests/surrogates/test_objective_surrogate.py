"""What is known stands; what is missing is filled draw by draw."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aliquot.domain import ConditionsSpace, Objective, Ramp, Target
from aliquot.domain.spaces import Continuous
from aliquot.surrogates import ObjectiveSurrogate, RandomForestSurrogate, SurrogateError, SurrogateNotReady

SPACE = ConditionsSpace(parameters=(Continuous(name="x", low=0.0, high=1.0, levels=1000),))
OBJECTIVE = Objective(
    targets=(
        Target(assay="yield", desirability=Ramp(low=0.0, high=100.0)),
        Target(assay="waste", direction="minimise", desirability=Ramp(low=0.0, high=10.0), weight=2.0),
        Target(verifier="greenness", desirability=Ramp(low=0.0, high=1.0)),
    )
)


def designs_of(n: int, seed: int = 0):
    return [SPACE.design({"x": float(x)}) for x in np.random.default_rng(seed).uniform(size=n)]


def yields(design) -> float:
    return 100 * design.value["x"]


def wastes(design) -> float:
    return 2 + 6 * design.value["x"]


def observed(n: int, seed: int = 0) -> dict:
    designs = designs_of(n, seed)
    return {"yield": [(d, yields(d), 1.0) for d in designs], "waste": [(d, wastes(d), None) for d in designs]}


@pytest.fixture(scope="module")
def fitted() -> ObjectiveSurrogate:
    surrogate = ObjectiveSurrogate(OBJECTIVE, SPACE, seed=0)
    surrogate.fit(observed(60))
    return surrogate


def test_it_is_ready_once_every_assay_has_enough_designs():
    surrogate = ObjectiveSurrogate(OBJECTIVE, SPACE, seed=0, minimum_observations=10, trees=10)
    data = observed(10)
    assert not surrogate.ready
    surrogate.fit({"yield": data["yield"]})
    assert not surrogate.ready
    surrogate.fit({"yield": data["yield"], "waste": data["waste"][:9] * 2})  # replicates are no new designs
    assert not surrogate.ready
    surrogate.fit(data)
    assert surrogate.ready


def test_taken_back_measurements_take_readiness_back():
    surrogate = ObjectiveSurrogate(OBJECTIVE, SPACE, seed=0, minimum_observations=10, trees=10)
    surrogate.fit(observed(10))
    surrogate.fit({assay: found[:9] for assay, found in observed(10).items()})
    assert not surrogate.ready


def test_a_wholly_known_design_has_its_exact_value_and_no_doubt(fitted):
    designs = designs_of(3, seed=1)
    known = [{"yield": 31.7, "waste": 3.3, "greenness": 0.77}, {"greenness": 0.5}, {"yield": 10.0, "greenness": 0.5}]
    mean, sd = fitted.predict(designs, known)
    assert mean[0] == OBJECTIVE.value(known[0]) and sd[0] == 0.0
    assert sd[1] > 0 and sd[2] > 0
    alone, doubt = ObjectiveSurrogate(OBJECTIVE, SPACE, seed=0).predict(designs[:1], known[:1])  # needs no forest
    assert alone[0] == mean[0] and doubt[0] == 0.0


def test_it_finds_the_objective_of_new_designs(fitted):
    designs = designs_of(100, seed=2)
    mean, _ = fitted.predict(designs, [{"greenness": 0.8}] * 100)
    true = OBJECTIVE.value(
        {"yield": np.array([*map(yields, designs)]), "waste": np.array([*map(wastes, designs)]), "greenness": 0.8}
    )
    assert np.mean((mean - true) ** 2) < 0.1 * true.var()


def test_the_more_is_known_the_less_doubt_is_left(fitted):
    designs = designs_of(50, seed=3)
    _, nothing = fitted.predict(designs, [{"greenness": 0.8}] * 50)
    _, one = fitted.predict(designs, [{"greenness": 0.8, "waste": wastes(d)} for d in designs])
    assert one.mean() < nothing.mean()


def test_a_known_failure_counts_as_the_objective_says(fitted):
    mean, sd = fitted.predict(designs_of(1, seed=4), [{"greenness": 1.0, "waste": 0.0, "yield": math.nan}])
    assert mean[0] == 0.0 and sd[0] == 0.0


def test_the_objective_is_taken_draw_by_draw():
    # A steep ramp in the middle of the uncertainty: the mean of the objective is the share of draws beyond it,
    # which the objective of the mean (0 or 1) is not.
    objective = Objective(targets=(Target(assay="yield", desirability=Ramp(low=50.0, high=50.000001)),))
    surrogate = ObjectiveSurrogate(objective, SPACE, seed=5)
    rng = np.random.default_rng(0)
    data = [(d, float(rng.normal(50, 20)), None) for d in designs_of(40)]
    surrogate.fit({"yield": data})
    designs = designs_of(20, seed=6)
    mean, sd = surrogate.predict(designs, [{}] * 20)
    assert ((mean > 0.02) & (mean < 0.98)).mean() > 0.7
    assert sd == pytest.approx(np.sqrt(mean * (1 - mean)), abs=1e-6)  # Bernoulli: each draw is 0 or 1


def test_replicates_are_averaged_by_inverse_variance_where_their_errors_are_known():
    surrogate, plain = (
        ObjectiveSurrogate(OBJECTIVE, SPACE, seed=0, minimum_observations=4, trees=20) for _ in range(2)
    )
    designs = designs_of(4)
    both = {"yield": [], "waste": [(d, wastes(d), None) for d in designs]}
    once = {"yield": [], "waste": both["waste"]}
    for design in designs:
        value = yields(design)
        both["yield"] += [(design, value, 1.0), (design, value + 10.0, 3.0)]
        once["yield"] += [(design, value + 1.0, None)]  # (1 · v + (v + 10) / 9) / (1 + 1 / 9) = v + 1
    surrogate.fit(both)
    plain.fit(once)
    probe, known = designs_of(10, seed=7), [{"greenness": 1.0}] * 10
    assert surrogate.predict(probe, known)[0] == pytest.approx(plain.predict(probe, known)[0])


def test_an_assay_without_news_is_not_fitted_again(monkeypatch):
    surrogate = ObjectiveSurrogate(OBJECTIVE, SPACE, seed=0, trees=20)
    surrogate.fit(observed(20))
    sizes = []
    monkeypatch.setattr(RandomForestSurrogate, "fit", lambda self, designs, values: sizes.append(len(designs)))
    more = observed(21)
    surrogate.fit({"yield": more["yield"], "waste": more["waste"][:20]})
    assert sizes == [21]


def test_the_same_seed_and_data_give_the_same_numbers():
    def predict() -> tuple[np.ndarray, np.ndarray]:
        surrogate = ObjectiveSurrogate(OBJECTIVE, SPACE, seed=9, trees=20)
        surrogate.fit(observed(30))
        return surrogate.predict(designs_of(10, seed=8), [{"greenness": 0.3}] * 10)

    for one, other in zip(predict(), predict(), strict=True):
        assert np.array_equal(one, other)


def test_an_objective_of_verifier_scores_needs_no_lab():
    objective = Objective(targets=(Target(verifier="greenness", desirability=Ramp(low=0.0, high=1.0)),))
    surrogate = ObjectiveSurrogate(objective, SPACE, seed=0)
    surrogate.fit({})
    mean, sd = surrogate.predict(designs_of(2), [{"greenness": 0.25}, {"greenness": 0.5}])
    assert surrogate.ready and mean.tolist() == [0.25, 0.5] and sd.tolist() == [0.0, 0.0]


def test_no_designs_are_no_predictions(fitted):
    mean, sd = fitted.predict([], [])
    assert mean.shape == sd.shape == (0,)


def test_what_it_cannot_fill_is_refused(fitted):
    with pytest.raises(SurrogateError, match="has no score of verifier 'greenness'"):
        fitted.predict(designs_of(1), [{}])
    with pytest.raises(SurrogateNotReady, match="assay 'yield' has fewer than 16 measured designs"):
        ObjectiveSurrogate(OBJECTIVE, SPACE, seed=0).predict(designs_of(1), [{"greenness": 1.0}])
    with pytest.raises(SurrogateError, match="2 designs and known values for 1"):
        fitted.predict(designs_of(2), [{}])
