"""How long results take, and whether the slow ones are learned like the fast ones."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from aliquot.trainer.learning.completion import Latency, completion_metrics, starvation


def test_the_latency_estimate_is_the_product_limit_worked_by_hand():
    # back after 1, 2, 4; still out after 2 and 5: S = 4/5, then 3/4 of that, then 1/2 of that
    latency = Latency.of(np.array([1.0, 2.0, 2.0, 4.0, 5.0]), np.array([True, True, False, True, False]))
    assert latency.times.tolist() == [1.0, 2.0, 4.0]
    assert latency.chances == pytest.approx([0.2, 0.4, 0.7])
    assert latency.within(0.5) == 0.0 and latency.within(2.0) == pytest.approx(0.4)
    assert latency.within(100.0) == pytest.approx(0.7)
    assert latency.quantile(0.5) == 2.0 and latency.quantile(1.0) == 4.0


def test_what_is_still_out_does_not_make_results_look_fast():
    random = np.random.default_rng(0)
    true, age = random.exponential(10.0, 4000), random.uniform(0, 20, 4000)
    back = true <= age
    latency = Latency.of(np.minimum(true, age), back)
    assert latency.within(10.0) == pytest.approx(1 - np.exp(-1), abs=0.03)
    assert (true[back] <= 10.0).mean() > 0.75  # what the results that are back say by themselves


def test_nothing_is_known_of_a_lab_that_never_answered():
    latency = Latency.of(np.array([3.0, 4.0]), np.array([False, False]))
    assert latency.within(10.0) == 0.0 and latency.quantile(0.999) == float("inf")


def test_starvation_is_the_kolmogorov_smirnov_distance():
    times = np.array([1.0, 2.0, 2.0, 3.0, 5.0, 8.0])
    learned, owed = np.array([1.0, 1, 1, 0, 0, 0]), np.ones(6)
    assert starvation(times, learned, owed) == pytest.approx(ks_2samp(times[:3], times).statistic)
    assert starvation(times, owed, owed) == 0.0
    assert starvation(times, 3 * owed, owed) == pytest.approx(0.0)
    assert starvation(times, np.zeros(6), owed) == 0.0


def test_quantiles_are_weighted_and_in_hours():
    hours = 3600 * np.array([1.0, 2.0, 10.0])
    found = completion_metrics(hours, np.array([1.0, 0.0, 0.0]), np.array([1.0, 1.0, 8.0]))
    assert found["completion_hours_learned_p90"] == 1.0
    assert found["completion_hours_returned_p50"] == 10.0
    assert found["starvation"] == pytest.approx(0.9)
    assert completion_metrics(np.zeros(0), np.zeros(0), np.zeros(0)) == {}
