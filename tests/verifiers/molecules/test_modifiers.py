"""Each modifier against values worked by hand from its definition."""

from __future__ import annotations

from math import exp, inf

import numpy as np
import pytest

from aliquot.domain import Ramp, Window
from aliquot.verifiers.builtin.molecules import modifiers


@pytest.mark.parametrize(
    ("modifier", "x", "options", "value"),
    [
        ("linear", 8.0, {}, 8.0),
        ("linear", 8.0, {"slope": 0.25}, 2.0),
        ("squared", 3.0, {"target": 5.0, "coefficient": 0.1}, 0.6),
        ("squared", 5.0, {"target": 5.0}, 1.0),
        ("absolute", 4.25, {"target": 5.0}, 0.25),
        ("gaussian", 2.0, {"mu": 2.0, "sigma": 0.5}, 1.0),
        ("gaussian", 0.0, {"mu": 2.0, "sigma": 0.5}, exp(-8)),
        ("max_gaussian", 130.0, {"mu": 100, "sigma": 10}, 1.0),
        ("max_gaussian", 80.0, {"mu": 100, "sigma": 10}, exp(-2)),
        ("max_gaussian", -inf, {"mu": 100, "sigma": 10}, 0.0),
        ("min_gaussian", -3.0, {"mu": 1, "sigma": 1}, 1.0),
        ("min_gaussian", 4.0, {"mu": 1, "sigma": 1}, exp(-4.5)),
        ("min_gaussian", inf, {"mu": 1, "sigma": 1}, 0.0),
        ("clipped", 0.3, {"upper": 0.75}, 0.4),
        ("clipped", 0.9, {"upper": 0.75}, 1.0),
        ("clipped", -1.0, {"upper": 0.75}, 0.0),
        ("clipped", 4.0, {"upper": 2.0, "lower": 6.0, "high": 10.0, "low": 5.0}, 7.5),
        ("clipped", 1.0, {"upper": 2.0, "lower": 6.0, "high": 10.0, "low": 5.0}, 10.0),
        ("smooth_clipped", 4.0, {"upper": 6.0, "lower": 2.0}, 0.5),
        ("smooth_clipped", 6.0, {"upper": 6.0, "lower": 2.0}, 1 / (1 + exp(-2))),
        ("smooth_clipped", -1e6, {"upper": 6.0, "lower": 2.0, "high": 3.0, "low": 1.0}, 1.0),
        ("smooth_clipped", -1e6, {"upper": 2.0, "lower": 6.0, "high": 3.0, "low": 1.0}, 3.0),
        ("thresholded", 0.3, {"threshold": 0.6}, 0.5),
        ("thresholded", 9.0, {"threshold": 0.6}, 1.0),
        ("thresholded", -0.6, {"threshold": 0.6}, -1.0),
    ],
)
def test_a_modifier_has_the_value_of_its_definition_for_a_number_and_in_an_array(modifier, x, options, value):
    function = getattr(modifiers, modifier)
    assert function(x, **options) == pytest.approx(value)
    assert np.allclose(function(np.array([[x], [x]]), **options), [[value], [value]])


def test_what_the_objective_expresses_already_is_the_same_there():
    x = np.linspace(-2, 8, 41)
    assert np.allclose(modifiers.clipped(x, upper=5, lower=1), Ramp(low=1, high=5).of(x, True))
    assert np.allclose(modifiers.clipped(x, upper=1, lower=5), Ramp(low=1, high=5).of(x, False))
    triangle = np.maximum(modifiers.absolute(x, target=3), 0)
    assert np.allclose(triangle, Window(low=3, high=3, tolerance=1).of(x, True))
