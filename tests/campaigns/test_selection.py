"""Selection probabilities are exact."""

import numpy as np
import pytest

from aliquot.campaigns.selection import choose


@pytest.mark.parametrize(
    ("candidates", "places", "exploration"), [(10, 4, 0.5), (12, 3, 0.1), (7, 7, 0.3), (6, 2, 1.0)]
)
def test_each_design_is_chosen_as_often_as_said(candidates, places, exploration):
    rng, runs = np.random.default_rng(0), 4000
    acquisition, counts = rng.normal(size=candidates), np.zeros(candidates)
    for _ in range(runs):
        chosen, probability = choose(candidates, acquisition, places, exploration, rng)
        assert chosen.sum() == places
        counts += chosen
    deviation = np.sqrt(probability * (1 - probability) / runs)
    assert (np.abs(counts / runs - probability) <= 4.5 * deviation + 1e-12).all()
    assert probability.sum() == pytest.approx(places)
    assert probability.min() > 0 and probability[np.argmax(acquisition)] == probability.max()


def test_without_an_acquisition_all_chances_are_equal():
    chosen, probability = choose(8, None, 2, 0.1, np.random.default_rng(1))
    assert chosen.sum() == 2 and probability.tolist() == [0.25] * 8


def test_no_place_and_no_candidate_choose_nothing():
    assert choose(3, np.arange(3.0), 0, 0.5, np.random.default_rng(0))[1].tolist() == [0, 0, 0]
    assert choose(0, None, 4, 0.5, np.random.default_rng(0))[0].tolist() == []
    assert choose(2, np.arange(2.0), 5, 0.5, np.random.default_rng(0))[0].all()
