"""The statistics, against other libraries and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.stats import median_abs_deviation

from aliquot.trainer.monitors.memory import Memory, level

numbers = st.floats(-1e6, 1e6)


@given(st.lists(numbers, min_size=1, max_size=40))
def test_a_level_is_the_median_and_the_normalised_median_deviation(values):
    found = level(values)
    assert found.centre == pytest.approx(np.median(values))
    assert found.spread == pytest.approx(median_abs_deviation(values, scale="normal"), rel=1e-4, abs=1e-9)


@given(st.lists(numbers, min_size=4, max_size=4), st.lists(numbers, min_size=1, max_size=30))
def test_the_smoothed_series_is_a_first_order_filter_that_starts_at_the_centre(first, rest):
    memory, weight = Memory(), 0.25
    assert [memory.drift("x", value, 4, weight, 3.0) for value in first] == [None] * 4
    found = [memory.drift("x", value, 4, weight, 3.0).value for value in rest]
    centre = float(np.median(first))
    expected, _ = lfilter([weight], [1, weight - 1], rest, zi=[(1 - weight) * centre])
    assert found == pytest.approx(list(expected), rel=1e-9, abs=1e-6)


def test_the_chart_allows_what_chance_moves_a_moving_average_by():
    memory = Memory()
    for value in (1.0, 2.0, 3.0, 4.0, 5.0):
        memory.drift("x", value, 5, 0.25, 3.0)
    found = memory.drift("x", 7.0, 5, 0.25, 3.0)
    assert found.centre == 3.0 and found.value == 4.0
    assert found.noise == pytest.approx(3 * 1.4826 * (0.25 / 1.75) ** 0.5)


def test_a_steady_run_rarely_leaves_the_chart():
    left, rng = 0, np.random.default_rng(0)
    for _ in range(200):
        memory = Memory()
        for value in rng.normal(10, 2, size=60):
            found = memory.drift("x", value, 30, 0.25, 3.0)
        left += abs(found.value - found.centre) > found.noise
    assert left / 200 < 0.1


@given(st.lists(numbers, max_size=12), st.integers(1, 6))
def test_only_the_newest_values_are_kept(values, newest):
    memory = Memory()
    for value in values:
        memory.keep("x", value, newest)
    assert memory.series.get("x", []) == values[-newest:]
