"""The arithmetic of `delayed_learning`: curves, shifted curves, the laboratory, and the cache of finished runs."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from aliquot.trainer.config import LearningConfig
from benchmarks.delayed import cache, campaign, reinvent
from benchmarks.delayed.curve import shifted, top_auc, top_mean
from benchmarks.delayed.laboratory import DROPOUT, Laboratory
from benchmarks.delayed.tasks import FIRST, LAST, TASKS

SCORES = [0.4, 0.6, math.nan, 0.2]
"""Read every 2 calls: 0.5, then 0.4; area 2 · 0.5 / 2 + 2 · (0.5 + 0.4) / 2 = 1.4."""


def test_the_area_is_that_of_trapezoids_from_zero_over_the_budget():
    assert top_auc(SCORES, calls=4, every=2) == pytest.approx(1.4 / 4)


def test_a_run_that_ends_early_keeps_its_last_value():
    assert top_auc(SCORES, calls=8, every=2) == pytest.approx((1.4 + 4 * 0.4) / 8)


def test_a_last_reading_off_the_grid_counts_for_its_own_width():
    assert top_auc([*SCORES, 1.0], calls=5, every=2) == pytest.approx((1.4 + (0.4 + 2.2 / 4) / 2) / 5)


def test_calls_beyond_the_budget_count_for_nothing():
    assert top_auc([*SCORES, 1.0, 1.0], calls=4, every=2) == top_auc(SCORES, calls=4, every=2)


def test_a_shifted_curve_is_zero_for_the_delay_and_then_the_same():
    late = shifted(SCORES, 4)
    assert top_auc(late, calls=8, every=2) == pytest.approx(1.4 / 8)
    assert top_auc(late, calls=8, every=2, start=4) == pytest.approx(1.4 / 4)


def test_only_the_ten_best_count_and_unanswered_calls_have_no_score():
    assert top_mean(np.array([0.0, math.nan, *[0.5] * 9, 1.0])) == pytest.approx(0.55)
    assert top_mean(np.array([math.nan])) == 0.0


def test_a_target_is_like_itself_and_lacks_the_property():
    found = TASKS["perindopril"].measured("CCCC(NC(C)C(=O)N1C2CCCCC2CC1C(=O)O)C(=O)OCC")
    assert found == {FIRST: pytest.approx(1.0), LAST: 0.0}
    assert TASKS["perindopril"].score(found) == 0.0
    assert TASKS["perindopril"].score({FIRST: 0.49}) == pytest.approx(0.49)
    assert TASKS["perindopril"].score({FIRST: 0.49, LAST: 2.0}) == pytest.approx(0.7)


@pytest.fixture
def delayed():
    laboratory = Laboratory(TASKS["albuterol"], 40, seed=3)
    out, heard = [], []
    for i in range(800):
        laboratory.call(f"k{i}", "CCO")
        heard += laboratory.answers()
        out.append(i + 1 - len({answer.key for answer in heard if answer.last}))
    return laboratory, out, heard


def test_as_many_calls_are_out_as_was_asked_for(delayed):
    laboratory, out, heard = delayed
    lost = int(np.isnan(laboratory.scores).sum())
    assert lost / 800 == pytest.approx(DROPOUT, abs=0.04)
    times = {(answer.key, answer.last): answer.at - int(answer.key[1:]) for answer in heard}
    whole = [took for (_, last), took in times.items() if last]
    assert np.mean(whole) == pytest.approx(40, rel=0.1)
    assert out[-1] - lost == pytest.approx(40 * (1 - DROPOUT), rel=0.3)


def test_the_first_part_comes_after_a_third_of_the_time_and_the_last_is_final(delayed):
    _, _, heard = delayed
    times = {(answer.key, answer.last): answer.at - int(answer.key[1:]) for answer in heard}
    both = [key for key, last in times if last]
    assert len(both) > 600
    assert all(times[key, False] == pytest.approx(times[key, True] / 3) for key in both)
    assert [answer.at for answer in heard] == sorted(answer.at for answer in heard)


def test_without_delay_a_call_is_answered_at_once_and_whole():
    laboratory = Laboratory(TASKS["albuterol"], 0, seed=3)
    for i in range(50):
        laboratory.call(f"k{i}", "CCO")
    answers = laboratory.answers()
    assert len(answers) == 50 - int(np.isnan(laboratory.scores).sum())
    assert all(answer.last for answer in answers)


def test_what_a_call_meets_does_not_depend_on_the_delay():
    scores = []
    for in_flight in (0, 40):
        laboratory = Laboratory(TASKS["albuterol"], in_flight, seed=5)
        for i in range(60):
            laboratory.call(f"k{i}", "CCO")
        scores.append(laboratory.scores)
    np.testing.assert_array_equal(*scores)


def test_reinvents_loss_is_the_squared_gap_and_the_penalty_of_likely_sequences():
    # gaps −40 + 500 · 0.1 + 30 = 40 and −20 + 0 + 25 = 5; penalty 5000 · (1/30 + 1/25) / 2
    found = reinvent.loss(torch.tensor([-30.0, -25.0]), torch.tensor([-40.0, -20.0]), torch.tensor([0.1, 0.0]))
    assert float(found) == pytest.approx((1600 + 25) / 2 + 5000 * (1 / 30 + 1 / 25) / 2)


def test_a_finished_run_is_read_and_not_computed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "FOLDER", tmp_path)
    monkeypatch.setattr(cache, "ROOT", tmp_path)
    job = cache.Job("albuterol", "ours_0", 0, 2, seed=0, group=4, learning={"learning_rate": 1e-3})
    job.path.write_text('{"scores": [0.25, null], "counts": {"steps": 3.0}, "seconds": 1.5, "code": "x"}')
    outcome = cache.results([job], processes=1, say=lambda _: None)["albuterol.ours_0.seed0"].outcome
    np.testing.assert_array_equal(outcome.scores, [0.25, math.nan])
    assert (outcome.counts, outcome.seconds) == ({"steps": 3.0}, 1.5)


def test_every_setting_and_every_default_is_in_the_name_of_a_result():
    job = cache.Job("albuterol", "ours_0", 0, 2, seed=0, group=4, learning={})
    same = replace(job, learning=LearningConfig().model_dump(mode="json"))
    others = [
        replace(job, in_flight=1), replace(job, calls=3), replace(job, group=5), replace(job, task="perindopril"),
        replace(job, seed=1), replace(job, learning={"tolerance": 0.1}), replace(job, learning=None),
    ]  # fmt: skip
    assert same.path == job.path
    assert len({job.path, *(other.path for other in others)}) == 8


def test_every_call_of_a_campaign_is_counted_and_late_answers_are_learned():
    torch.set_num_threads(1)
    learning = {"batch_size": 8, "tolerance": 0.0, "sampler": {"type": "oldest_first"}}
    outcome = campaign.run("albuterol", in_flight=10, calls=40, seed=0, group=8, learning=learning)
    counts = outcome.counts
    assert len(outcome.scores) == counts["calls"] == 40
    assert counts["unanswered"] == np.isnan(outcome.scores).sum()
    assert counts["samples"] == 8 * counts["rounds"]
    assert counts["steps"] > 0 and counts["staleness_versions"] > 0 and counts["dropped"] == 0
    assert all(0 <= score <= 1 for score in outcome.scores if not math.isnan(score))
