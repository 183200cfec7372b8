"""Each monitor is provoked by the trouble it is for, and silent in sound runs of the same length."""

import math

import pytest
from pydantic import ValidationError

from aliquot.trainer.monitors import Action, MonitorsConfig, Watch
from aliquot.trainer.monitors.designs import SizeDrift
from aliquot.trainer.monitors.memory import Memory
from aliquot.trainer.monitors.numerics import GradientSpike
from aliquot.trainer.monitors.rewards import ComponentDominance

START = 100
"""The step at which trouble begins."""


def to(value):
    return lambda _: value


def times(factor):
    return lambda value: factor * value


TROUBLE = {
    "gradient is not a number": ("non_finite", Action.SKIP_STEP, {"gradient_norm": to(math.nan)}),
    "loss is infinite": ("non_finite", Action.SKIP_STEP, {"loss": to(math.inf)}),
    "gradients explode": ("gradient_spike", Action.SKIP_STEP, {"gradient_norm": times(100)}),
    "engine serves other weights": ("precision", Action.WARN, {"kl_fresh": to(0.05)}),
    "gradient underflows": ("precision", Action.WARN, {"gradient_norm": to(0.0)}),
    "samples without weight": ("divergence", Action.LOWER_LEARNING_RATE, {"ess_token": to(0.1)}),
    "policy runs away": ("divergence", Action.LOWER_LEARNING_RATE, {"kl_k3": to(1.5)}),
    "policy almost sure": ("entropy_collapse", Action.LOWER_LEARNING_RATE, {"entropy": to(0.1)}),
    "a layer loses an expert": ("dead_experts", Action.WARN, {"router/layer1/dead_experts": to(1.0)}),
    "copies": ("mode_collapse", Action.LOWER_LEARNING_RATE, {"duplicate_share": to(0.9)}),
    "one scaffold": ("mode_collapse", Action.LOWER_LEARNING_RATE, {"scaffold_share": to(0.9)}),
    "invalid designs": ("validity_drift", Action.ROLL_BACK, {"validity": to(0.4)}),
    "designs grow": ("size_drift", Action.WARN, {"size": times(2.0)}),
    "designs shrink": ("size_drift", Action.WARN, {"size": times(0.4)}),
    "surrogate is exploited": ("proxy_gap", Action.WARN, {"proxy_gap": to(0.7)}),
    "potency bought with solubility": (
        "component_dominance", Action.WARN, {"component/potency": to(0.95), "component/solubility": to(0.05)},
    ),
    "replicates disagree": ("replicate_disagreement", Action.WARN, {"replicate_disagreement": to(4.0)}),
}  # fmt: skip


def alarms(readings, config=None):
    watch, found = Watch(config or MonitorsConfig()), []
    for step, reading in enumerate(readings):
        found += watch.before(step, reading)
        found += watch.after(step, reading)
    return found


@pytest.mark.parametrize("trouble", TROUBLE)
def test_trouble_raises_its_monitor_and_no_other_before_it(trouble, sound):
    name, action, changes = TROUBLE[trouble]
    readings = sound(seed=1)
    for reading in readings[START:]:
        reading |= {metric: change(reading[metric]) for metric, change in changes.items() if metric in reading}
    found = alarms(readings)
    mine = [alarm for alarm in found if alarm.monitor == name]
    assert mine, f"{name} was silent"
    assert all(alarm.step >= START and alarm.since >= START for alarm in found)
    assert mine[0].action is action
    assert mine[0].metric in mine[0].message
    assert {alarm.monitor for alarm in found} == {name}


@pytest.mark.parametrize("seed", range(10))
def test_a_sound_run_is_silent(seed, sound):
    assert alarms(sound(seed)) == []


def test_every_monitor_is_provoked_here():
    assert {name for name, _, _ in TROUBLE.values()} == set(MonitorsConfig().monitors)


def test_what_a_reading_does_not_name_is_not_judged():
    assert alarms([{"unheard_of": math.nan}] * 50 + [{}] * 50) == []


def test_a_large_gradient_of_large_coefficients_is_no_spike(sound):
    readings = sound(seed=2)
    readings[START] |= {
        "coefficient_mean_abs": readings[START]["coefficient_mean_abs"] * 100,
        "gradient_norm": readings[START]["gradient_norm"] * 100,
    }
    assert alarms(readings) == []


def test_the_limit_of_a_gradient_is_eight_medians_when_norms_agree():
    memory, spike = Memory(), GradientSpike()
    reading = {"gradient_norm": 2.0, "coefficient_mean_abs": 0.5, "due": 16.0}
    for _ in range(spike.least):
        assert spike.judge(reading, memory) is None
    judged = spike.judge(reading | {"gradient_norm": 15.0}, memory)
    assert judged.limit == pytest.approx(16.0) and not judged.breach
    assert spike.judge(reading | {"gradient_norm": 17.0}, memory).breach


def test_a_spike_is_not_compared_with_later():
    memory, spike = Memory(), GradientSpike()
    for norm in [1.0] * 20 + [1e6] * 100:
        judged = spike.judge({"gradient_norm": norm, "coefficient_mean_abs": 1.0, "due": 1.0}, memory)
    assert judged.breach and max(memory.series["norm"]) == 1.0


def test_one_target_that_falls_alone_dominates_nothing():
    memory, monitor = Memory(), ComponentDominance()
    for _ in range(monitor.first):
        monitor.judge({"component/a": 0.5, "component/b": 0.5}, memory)
    for _ in range(20):
        judged = monitor.judge({"component/a": 0.5, "component/b": 0.0}, memory)
    assert not judged.breach
    for _ in range(20):
        judged = monitor.judge({"component/a": 1.0, "component/b": 0.0}, memory)
    assert judged.breach and judged.metric == "component/b"


def test_a_reading_in_too_small_a_batch_says_nothing_of_experts(sound):
    readings = [reading | {"due": 2.0, "router/layer0/dead_experts": 9.0} for reading in sound(seed=3)]
    assert not [alarm for alarm in alarms(readings) if alarm.monitor == "dead_experts"]


def test_single_breaches_are_not_an_alarm(sound):
    readings = sound(seed=4)
    for step in range(0, len(readings), 4):
        readings[step]["ess_token"] = 0.05
    assert alarms(readings) == []


def test_after_an_alarm_a_monitor_is_silent_for_its_cool_down():
    config = MonitorsConfig(size_drift=SizeDrift(cool_down=30))
    readings = [{"size": 20.0}] * 20 + [{"size": 60.0}] * 100
    steps = [alarm.step for alarm in alarms(readings, config)]
    assert len(steps) > 1 and all(b - a >= 30 for a, b in zip(steps, steps[1:], strict=False))


def test_null_turns_a_monitor_off_and_an_action_can_be_chosen(sound):
    readings = sound(seed=5)
    for reading in readings[START:]:
        reading["kl_fresh"] = 1.0
    assert alarms(readings, MonitorsConfig.model_validate({"precision": None})) == []
    paused = alarms(readings, MonitorsConfig.model_validate({"precision": {"action": "pause"}}))
    assert paused[0].action is Action.PAUSE


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"size_drift": {"breaches": 9}}, "lower `breaches`"),
        ({"size_drift": {"action": "skip_step"}}, "roll_back"),
        ({"size_drft": {}}, "size_drft"),
    ],
)
def test_a_section_that_cannot_work_says_how_to_mend_it(section, words):
    with pytest.raises(ValidationError, match=words):
        MonitorsConfig.model_validate(section)
