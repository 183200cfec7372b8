"""The learning rule: unbiased values, baselines blind to their own outcome, and books that balance."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.domain import Tier
from aliquot.trainer.learning import DivergenceGauge, TierConfig, advantages, doubly_robust, shrunk, split_coefficient
from aliquot.trainer.learning.values import RunningValue

TIERS = TierConfig()
numbers = st.floats(-3, 3, allow_nan=False)


def test_the_doubly_robust_value_is_unbiased_whatever_was_predicted():
    reward, probability = 0.8, 0.3
    for predicted in (0.0, 0.5, 1.0):
        mean = probability * doubly_robust(reward, predicted, probability, 10.0) + (1 - probability) * predicted
        assert mean == pytest.approx(reward)
    naive = probability * reward + (1 - probability) * 0.5
    assert abs(naive - reward) > 0.2


def test_the_inverse_probability_is_bounded():
    assert doubly_robust(1.0, 0.0, 0.01, 5.0) == 5.0
    with pytest.raises(ValueError, match="selection probability"):
        doubly_robust(1.0, 0.0, 0.0, 5.0)


def test_a_noisy_result_is_shrunk_to_the_posterior_mean_of_two_normal_beliefs():
    grid = np.linspace(-5, 5, 200_001)
    density = np.exp(-((grid - 0.9) ** 2) / (2 * 0.2**2) - (grid - 0.4) ** 2 / (2 * 0.1**2))
    assert shrunk(0.9, 0.2, 0.4, 0.1) == pytest.approx((grid * density).sum() / density.sum(), abs=1e-6)
    assert shrunk(0.9, 0.0, 0.4, 0.1) == 0.9 and shrunk(0.9, None, 0.4, 0.1) == 0.9
    assert shrunk(0.9, 0.2, 0.4, 0.0) == 0.4


def test_a_groups_prior_can_be_told_without_the_groups_own_values():
    random, values = np.random.default_rng(0), []
    running, others = RunningValue(decay=0.9), RunningValue(decay=0.9)
    own = []
    for index, value in enumerate(random.uniform(size=30)):
        running.add(value)
        if index in (3, 17, 29):
            own.append((running.count, value))
            others.mean, others.square, others.weight = 0.9 * others.mean, 0.9 * others.square, 0.9 * others.weight
        else:
            others.add(value)
        values.append(value)
    assert running.without(own) == pytest.approx((others.average, others.deviation))
    alone = RunningValue()
    alone.add(0.7)
    assert alone.without([(1, 0.7)]) == (0.0, 0.0)


def test_advantages_are_as_worked_by_hand():
    values = np.array([1.0, 0.5, np.nan])
    assert advantages(values, prior=0.0, scale=0.5, kappa=0.0).tolist() == [1.0, -1.0, 0.0]
    shrunk = advantages(values, prior=0.2, scale=1.0, kappa=4.0)
    assert shrunk[0] == pytest.approx(1.0 - (4 * 0.2 + 0.5) / 5)
    assert advantages(np.array([0.7]), 0.0, 1.0, 0.0).tolist() == [0.0]


@given(st.lists(numbers, min_size=2, max_size=6), st.integers(0, 5), numbers, st.floats(0, 8))
def test_a_baseline_never_sees_its_own_outcome(values, which, other, kappa):
    values, i = np.array(values), which % len(values)
    changed = values.copy()
    changed[i] = other
    before, after = advantages(values, 0.3, 1.0, kappa), advantages(changed, 0.3, 1.0, kappa)
    assert after[i] - before[i] == pytest.approx(other - values[i], abs=1e-9)


@given(
    st.lists(numbers, min_size=1, max_size=8),
    st.lists(st.sampled_from(list(Tier)), min_size=9, max_size=9),
    st.lists(st.floats(0, 1), min_size=9, max_size=9),
    st.booleans(),
)
@settings(max_examples=300)
def test_applied_and_masked_add_up_and_a_retraction_leaves_nothing_standing(targets, tiers, kept, replace):
    applied = masked = 0.0
    for target, tier, share in zip([*targets, 0.0], tiers, kept, strict=False):
        due = target - applied - masked
        unlearn, first, mask, _ = split_coefficient(due, applied, masked, tier, replace)
        applied, masked = applied + unlearn + share * first, masked + mask + (1 - share) * first
        assert applied + masked == pytest.approx(target, abs=1e-9)
    unlearn, first, mask, _ = split_coefficient(-applied - masked, applied, masked, Tier.ANCIENT, replace)
    assert applied + unlearn == pytest.approx(0.0, abs=1e-9) and first == pytest.approx(0.0, abs=1e-9)
    assert masked + mask == pytest.approx(0.0, abs=1e-9)


def test_what_was_applied_is_taken_back_in_every_tier():
    for tier in Tier:
        assert split_coefficient(-0.5, 0.5, 0.0, tier)[:3] == (-0.5, 0.0, 0.0)
        assert split_coefficient(0.5, -0.5, 0.0, tier)[:3] == (0.5, 0.0, 0.0)


def test_tiers_hold_back_first_coefficients_only():
    assert split_coefficient(0.5, 0.0, 0.0, Tier.ANCIENT)[:3] == (0.0, 0.0, 0.5)
    assert split_coefficient(-0.5, 0.0, 0.0, Tier.OLD)[:3] == (0.0, -0.5, 0.0)
    # half of it un-learns, the other half is a first coefficient that an ancient sample may not add
    assert split_coefficient(-1.0, 0.5, 0.0, Tier.ANCIENT)[:3] == (-0.5, 0.0, -0.5)
    # what was only masked is not un-learned from the policy
    assert split_coefficient(-0.5, 0.0, 0.5, Tier.FRESH)[:3] == (0.0, 0.0, -0.5)


def test_replacing_takes_all_back_and_decides_anew_over_the_whole():
    assert split_coefficient(0.2, 0.5, 0.1, Tier.FRESH, replace=True)[:3] == pytest.approx((-0.5, 0.8, -0.1))
    assert split_coefficient(0.2, 0.5, 0.1, Tier.ANCIENT, replace=True)[:3] == pytest.approx((-0.5, 0.0, 0.7))


def test_a_tier_is_read_from_the_pair_of_versions():
    gauge = DivergenceGauge()
    assert gauge.of(3) == 0.0
    gauge.read(3, k3_sum=10.0, tokens=100.0)
    gauge.read(9, k3_sum=0.0, tokens=50.0)
    assert gauge.of(3) == pytest.approx(0.1) and gauge.of(4) == pytest.approx(0.1) and gauge.of(8) == 0.0
    assert TIERS.tier(0.1) is Tier.MODERATE and TIERS.tier(math.inf) is Tier.ANCIENT
