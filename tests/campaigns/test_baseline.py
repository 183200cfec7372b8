from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from aliquot.campaigns.baseline import best_so_far, random_baseline
from aliquot.domain import Design, Objective

SAMPLES = [Design(kind="sequence", value=s) for s in ("AAAA", "KAAA", "KLAA", "KLVA", "KLVK")]
OBJECTIVE = Objective.model_validate(
    {"targets": [{"assay": "binding", "desirability": {"type": "ramp", "low": 0.0, "high": 1.0}}]}
)


def spec(**assay):
    """Truth: the share of KLVK that matches, 0, 1/4, 2/4, 3/4 and 1 for the samples."""
    binding = {"name": "binding", "unit": "au", "truth": {"type": "motif", "motifs": ["KLVK"]}}
    binding |= {"latency": {"type": "lognormal", "median_hours": 5.0}, "replicates": 2} | assay
    lab = SimpleNamespace(type="simulated", config={"assays": [binding]})
    return SimpleNamespace(lab=lab, objective=OBJECTIVE, verifiers=())


def test_best_so_far_is_that_of_every_order_the_values_can_come_in():
    values = np.array([0.1, 0.4, 0.4, 0.7, 0.9])
    runs = np.maximum.accumulate(np.array(list(itertools.permutations(values))), axis=1)
    band = best_so_far(values, 9)
    assert len(band.mean) == 5
    np.testing.assert_allclose(band.mean, runs.mean(axis=0))
    np.testing.assert_allclose(band.low, np.quantile(runs, 0.05, axis=0, method="inverted_cdf"))
    np.testing.assert_allclose(band.high, np.quantile(runs, 0.95, axis=0, method="inverted_cdf"))


def test_without_noise_the_lab_measures_the_truth_even_when_its_first_word_was_wrong():
    values = random_baseline(spec(revision=1.0, gross_error=3.0), SAMPLES)
    np.testing.assert_allclose(values, [0.0, 0.25, 0.5, 0.75, 1.0])


def test_what_never_answers_is_dropped_and_what_fails_counts_as_failed():
    assert len(random_baseline(spec(dropout=1.0), SAMPLES)) == 0
    np.testing.assert_array_equal(random_baseline(spec(failure=1.0), SAMPLES), np.zeros(5))


def test_a_design_that_the_lab_refuses_is_left_out():
    values = random_baseline(spec(), [Design(kind="molecule", value="CCO"), SAMPLES[4]])
    assert values == pytest.approx([1.0])


def test_a_real_lab_is_not_asked_for_a_baseline():
    real = spec()
    real.lab.type = "manual"
    assert random_baseline(real, SAMPLES) is None
