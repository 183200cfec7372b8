"""Actions that do not help become stronger ones, and a restored watch goes on as if nothing had been."""

import io
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.trainer.monitors import Action, MonitorsConfig, Watch, strongest

BROKEN = {"loss": 1.0, "gradient_norm": math.nan}
SOUND = {"loss": 1.0, "gradient_norm": 1.0}


def diverged(watch, first_step):
    """Alarms of enough steps of invalid designs, after enough sound ones."""
    found = []
    for step in range(first_step, first_step + 30):
        found += watch.after(step, {"validity": 1.0 if step < first_step + 10 else 0.0})
        if found:
            return found
    return found


def test_skips_of_broken_gradients_that_do_not_help_become_a_roll_back():
    watch = Watch(MonitorsConfig(most_skips=3))
    actions = [watch.before(step, BROKEN)[0].action for step in range(1, 6)]
    assert actions == [Action.SKIP_STEP] * 3 + [Action.ROLL_BACK] + [Action.SKIP_STEP]


def test_a_spike_that_comes_again_and_again_is_followed_with_less_learning_rate():
    watch = Watch(MonitorsConfig(most_skips=2))
    usual = {"gradient_norm": 1.0, "coefficient_mean_abs": 1.0, "due": 1.0}
    for step in range(20):
        assert watch.before(step, usual) == []
    actions = [watch.before(20, usual | {"gradient_norm": 100.0})[0].action for _ in range(3)]
    assert actions == [Action.SKIP_STEP] * 2 + [Action.LOWER_LEARNING_RATE]
    assert watch.learning_rate_scale == 0.5


def test_a_sound_step_ends_a_row_of_skips():
    watch = Watch(MonitorsConfig(most_skips=1))
    for step in range(10):
        assert watch.before(2 * step, BROKEN)[0].action is Action.SKIP_STEP
        assert watch.before(2 * step + 1, SOUND) == []


def test_a_roll_back_that_does_not_help_becomes_a_pause_and_says_why():
    watch = Watch(MonitorsConfig())
    state = watch.state()
    first = strongest(diverged(watch, 100))
    assert first.action is Action.ROLL_BACK and first.since == 110 + 0
    watch.restore(state)
    second = strongest(diverged(watch, 90))
    assert second.action is Action.PAUSE
    assert f"roll-back at step {first.step} has not helped" in second.message


def test_a_roll_back_long_after_another_is_one():
    watch = Watch(MonitorsConfig(settle=50))
    state = watch.state()
    first = strongest(diverged(watch, 0))
    watch.restore(state)
    assert strongest(diverged(watch, first.step + 60)).action is Action.ROLL_BACK


def test_the_learning_rate_halves_at_an_alarm_keeps_a_rest_and_recovers():
    config = MonitorsConfig.model_validate(
        {"divergence": {"breaches": 1, "out_of": 1, "cool_down": 0}, "recovery": 10, "least_rate": 0.25}
    )
    watch, scales = Watch(config), []
    for step in range(4):
        assert watch.after(step, {"ess_token": 0.1})[0].action is Action.LOWER_LEARNING_RATE
        scales.append(watch.learning_rate_scale)
    assert scales == [0.5, 0.25, 0.25, 0.25]
    for step in range(4, 14):
        watch.after(step, {"ess_token": 1.0})
    assert watch.learning_rate_scale == pytest.approx(0.5)
    for step in range(14, 200):
        watch.after(step, {"ess_token": 1.0})
    assert watch.learning_rate_scale == 1.0


def test_a_warning_changes_no_learning_rate():
    watch = Watch(MonitorsConfig())
    warned = [alarm for step in range(9) for alarm in watch.after(step, {"kl_fresh": 1.0})]
    assert warned and watch.learning_rate_scale == 1.0


def test_a_roll_back_lowers_the_learning_rate_and_restoring_does_not_raise_it():
    watch = Watch(MonitorsConfig())
    state = watch.state()
    diverged(watch, 0)
    watch.restore(state)
    assert watch.learning_rate_scale == 0.5


def test_a_step_is_judged_before_it_only_by_what_can_still_stop_it():
    config = MonitorsConfig()
    assert {name for name, monitor in config.monitors.items() if monitor.before} == {"non_finite", "gradient_spike"}
    watch = Watch(config)
    assert all(watch.after(step, BROKEN) == [] for step in range(20))
    assert all(watch.before(step, {"kl_fresh": 9.0}) == [] for step in range(20))


def test_the_strongest_alarm_speaks_for_its_step():
    names = [action.value for action in sorted(Action, key=lambda one: one.strength)]
    assert names == ["warn", "lower_learning_rate", "skip_step", "roll_back", "pause"]
    assert strongest([]) is None
    config = MonitorsConfig.model_validate({name: {"breaches": 1, "out_of": 1} for name in ("precision", "divergence")})
    alarms = Watch(config).after(1, {"kl_fresh": 1.0, "ess_token": 0.0})
    assert [alarm.action for alarm in alarms] == [Action.WARN, Action.LOWER_LEARNING_RATE]
    assert strongest(alarms).monitor == "divergence"


def test_an_alarm_is_plain_json_even_of_what_is_not_a_number():
    (alarm,) = Watch(MonitorsConfig()).before(7, BROKEN)
    written = alarm.model_dump(mode="json")
    assert written["value"] is None and written["limit"] is None
    assert {key: written[key] for key in ("monitor", "action", "step", "since", "metric")} == {
        "monitor": "non_finite", "action": "skip_step", "step": 7, "since": 7, "metric": "gradient_norm",
    }  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(cut=st.integers(0, 120), seed=st.integers(0, 3))
def test_a_watch_restored_from_a_checkpoint_says_what_the_uninterrupted_one_says(sound, cut, seed):
    readings = sound(seed, steps=120)
    for reading in readings[60:]:
        reading |= {"kl_fresh": 1.0, "entropy": 0.1, "ess_token": 0.1} | ({"size": 90.0} if "size" in reading else {})
    whole, broken, said = Watch(MonitorsConfig()), Watch(MonitorsConfig()), []
    for step, reading in enumerate(readings):
        if step == cut:
            file = io.BytesIO()
            torch.save(broken.state(), file)
            file.seek(0)
            broken = Watch(MonitorsConfig())
            broken.restore(torch.load(file, weights_only=True))
        one = whole.before(step, reading) + whole.after(step, reading)
        assert one == broken.before(step, reading) + broken.after(step, reading)
        assert whole.learning_rate_scale == broken.learning_rate_scale
        said += one
    assert said


def test_restored_to_before_the_first_step_a_watch_knows_nothing_but_what_the_roll_back_taught():
    watch = Watch(MonitorsConfig())
    first = diverged(watch, 0)
    watch.restore(None)
    assert watch.learning_rate_scale == 0.5
    again = diverged(watch, 0)
    assert again[0].step == first[0].step and again[0].action is Action.PAUSE


def test_a_checkpoint_from_before_a_monitor_was_turned_on_is_taken():
    state = Watch(MonitorsConfig(size_drift=None)).state()
    watch = Watch(MonitorsConfig())
    watch.restore(state)
    assert watch.after(1, {"size": 3.0}) == []
