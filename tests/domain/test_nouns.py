"""The nouns refuse what would later mislead."""

import math

import numpy as np
import pytest
from pydantic import ValidationError

from aliquot.domain import (
    RULES,
    Objective,
    Outcome,
    Ramp,
    RewardRule,
    StopReason,
    Target,
    Trajectory,
    Verdict,
    VerdictError,
    VersionSpan,
    Window,
)

WHOLE = {
    "prompt": np.array([1], np.int32),
    "tokens": np.array([3, 3, 5, 2], np.int32),
    "logprobs": np.array([-1.2, -0.9, -2.3, -0.4], np.float32),
    "versions": (VersionSpan(version=7, start=0, end=3), VersionSpan(version=8, start=3, end=4)),
    "experts": np.array([[[0, 1], [2, 3]]] * 4, np.uint8),
    "engine": "torch",
    "dtype": "float32",
    "stop": StopReason.EOS,
}


def test_a_trajectory_knows_its_oldest_version_and_its_content():
    one = Trajectory(**WHOLE)
    assert one.version == 7
    assert one.digest == Trajectory(**WHOLE).digest
    assert one.digest != Trajectory(**(WHOLE | {"tokens": np.array([3, 3, 6, 2], np.int32)})).digest


@pytest.mark.parametrize(
    "change",
    [
        {"logprobs": np.array([-1.0, np.nan, -1.0, -1.0], np.float32)},
        {"logprobs": np.array([-1.0, 0.5, -1.0, -1.0], np.float32)},
        {"logprobs": np.array([-1.0], np.float32)},
        {"versions": (VersionSpan(version=7, start=0, end=2), VersionSpan(version=8, start=3, end=4))},
        {"versions": (VersionSpan(version=7, start=0, end=3),)},
        {"experts": np.zeros((3, 2, 2), np.uint8)},
        {"tokens": np.array([], np.int32)},
    ],
)
def test_a_trajectory_that_does_not_fit_together_is_never_born(change):
    with pytest.raises(ValidationError):
        Trajectory(**(WHOLE | change))


def test_an_infrastructure_error_is_never_a_score():
    said = {"verifier": "v", "version": "1", "digest": "d"}
    with pytest.raises(ValidationError):
        Verdict(**said, score=0.0, accepted=False, error=VerdictError(message="boom"))
    with pytest.raises(ValidationError):
        VerdictError(outcome=Outcome.MEASURED, message="boom")
    assert RULES[Outcome.INFRASTRUCTURE_ERROR] is RewardRule.MISSING


OBJECTIVE = Objective(
    targets=(
        Target(assay="potency", desirability=Ramp(low=4, high=8), weight=2),
        Target(assay="logp", desirability=Window(low=1, high=3, tolerance=2)),
        Target(verifier="alerts", direction="minimise", desirability=Ramp(low=0, high=4)),
    ),
    floor=0.01,
)


def test_desirabilities_join_as_derringer_and_suich_say():
    value = float(OBJECTIVE.value({"potency": 6.0, "logp": 4.0, "alerts": 1.0}))
    assert value == pytest.approx((0.5**2 * 0.5 * 0.75) ** 0.25)
    assert float(OBJECTIVE.value({"potency": 3.0, "logp": 2.0, "alerts": 0.0})) == 0.01
    many = OBJECTIVE.value({"potency": np.array([6.0, 8.0]), "logp": 2.0, "alerts": 0.0})
    assert many == pytest.approx([0.25**0.25, 1.0])


def test_a_reported_failure_counts_as_its_declared_value():
    failed = Target(assay="a", desirability=Ramp(low=0, high=10), failure_value=5.0)
    assert float(Objective(targets=(failed,)).value({"a": math.nan})) == 0.5
    undeclared = Target(assay="a", desirability=Ramp(low=0, high=10))
    assert float(Objective(targets=(undeclared,)).value({"a": math.nan})) == 0.0
