"""A benchmark says what it measured, what was promised, and whether it was met; it cannot say otherwise."""

import importlib
import json

import pytest

from benchmarks.__main__ import NAMES
from benchmarks.harness import Goal, Report, interval


def test_an_interval_over_three_seeds_is_students_t():
    mean, low, high = interval([1.0, 2.0, 3.0])
    half = 4.302652729911275 / 3**0.5  # t(0.975, 2 degrees of freedom), sample deviation 1
    assert (mean, low, high) == pytest.approx((2.0, 2.0 - half, 2.0 + half))


def test_a_goal_is_met_only_when_its_metric_satisfies_it():
    report = Report("x", {"a": 0.5, "b": 2.0}, [Goal("a", ">=", 0.5), Goal("b", "<=", 1.9)], [0, 1, 2])
    found = json.loads(json.dumps(report.as_json()))
    assert [goal["met"] for goal in found["goals"]] == [True, False]
    assert set(found) == {"name", "metrics", "goals", "seeds", "machine", "versions"}
    with pytest.raises(KeyError):
        Report("x", {}, [Goal("absent", ">=", 0.0)]).as_json()


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_named_can_be_run(name):
    assert callable(importlib.import_module(f"benchmarks.{name}").run)
