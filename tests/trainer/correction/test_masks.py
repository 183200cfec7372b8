"""Masks of first coefficients against hand-worked values."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from aliquot.trainer.correction import Geometric, MaskConfig, OffPolicy, Product, SecondMoment, Veto

D = torch.tensor([[0.1, -0.3, 9.0], [-0.6, -0.8, -0.4], [0.0, 0.9, 0.3]])
"""log π − log μ; the 9 stands outside the mask."""
LOGMU = torch.full((3, 3), -2.0)
MASK = torch.tensor([[True, True, False], [True, True, True], [True, True, True]])
COEFFICIENTS = torch.tensor([-1.0, -0.5, 2.0])
EVERY = [Geometric(), Product(), Veto(), OffPolicy(), SecondMoment()]


def kept(config, d=D, coefficients=COEFFICIENTS, mask=MASK):
    return config.keep(LOGMU[: len(d), : d.shape[1]] + d, LOGMU[: len(d), : d.shape[1]], mask, coefficients)


def rows(config, **given):
    """Which sequences are kept, each of which must be kept or dropped whole."""
    found = kept(config, **given)
    whole = found.any(-1)
    assert torch.equal(found, MASK & whole[:, None])
    return whole.tolist()


def test_geometric_keeps_by_the_mean_ratio():
    # exp of the means −0.1, −0.6 and 0.4: 0.905, 0.549, 1.492
    assert rows(Geometric(low=0.9, high=1.4)) == [True, False, False]
    assert rows(Geometric(low=0.5, high=1.4)) == [True, True, False]
    assert rows(Geometric(low=0.92, high=1.5)) == [False, False, True]


def test_product_keeps_by_the_whole_ratio():
    # exp of the sums −0.2, −1.8 and 1.2: 0.819, 0.165, 3.320
    assert rows(Product(low=0.5, high=2.0)) == [True, False, False]
    assert rows(Product(low=0.16, high=3.3)) == [True, True, False]
    assert rows(Product(low=0.9, high=3.4)) == [False, False, True]


def test_a_veto_takes_one_token():
    # smallest and largest ratios: 0.741 and 1.105, 0.449 and 0.670, 1 and 2.460
    assert rows(Veto(low=0.5, high=2.0)) == [True, False, False]
    assert rows(Veto(low=0.44, high=2.5)) == [True, True, True]
    assert rows(Veto()) == [True, True, True]
    far = D.clone()
    far[1, 0], far[2, 2] = -9.3, 4.7  # 9.1e-5 and 110
    assert rows(Veto(), d=far) == [True, False, False]


def test_the_off_policy_mask_drops_only_negatives_that_the_policy_has_left():
    # means of log μ − log π: 0.1, 0.6, −0.4
    assert rows(OffPolicy(gap=0.5)) == [True, False, True]
    assert rows(OffPolicy(gap=0.5), coefficients=torch.tensor([-1.0, 0.5, -1.0])) == [True, True, True]
    assert rows(OffPolicy(gap=0.7)) == [True, True, True]
    assert rows(OffPolicy(gap=0.05)) == [False, False, True]


def test_the_second_moment_mask_drops_the_largest_of_what_a_coefficient_pushes_further():
    d = torch.tensor([[0.1, 0.3, 0.5, -0.9], [-0.2, 0.8, 0.0, 7.0]])
    mask = torch.tensor([[True] * 4, [True, True, True, False]])
    logmu = torch.full_like(d, -2.0)
    signs = torch.tensor([1.0, -0.1])
    # pushed: 0.1, 0.3, 0.5 above and −0.2 below; means of the smallest squares 0.01, 0.025, 0.0467, 0.0975
    for tau, dropped in ((0.1, []), (0.05, [(0, 2)]), (0.04, [(0, 1), (0, 2)]), (0.02, [(0, 1), (0, 2), (1, 0)])):
        expected = mask.clone()
        for place in dropped:
            expected[place] = False
        assert torch.equal(SecondMoment(tau=tau).keep(logmu + d, logmu, mask, signs), expected)
    assert torch.equal(SecondMoment().keep(logmu + d, logmu, mask, torch.zeros(2)), mask)


@given(
    st.lists(st.tuples(st.floats(-2, 2), st.sampled_from([-1.0, 0.0, 1.0])), min_size=1, max_size=12),
    st.floats(0.01, 1),
)
@settings(max_examples=200)
def test_the_second_moment_mask_is_that_of_taking_the_largest_away_one_by_one(tokens, tau):
    d = torch.tensor([[ratio] for ratio, _ in tokens], dtype=torch.float64)
    signs = torch.tensor([sign for _, sign in tokens])
    left = {i: d[i, 0].item() ** 2 for i in range(len(tokens)) if d[i, 0] * signs[i] > 0}
    while left and sum(left.values()) / len(left) > tau:
        del left[max(left, key=left.__getitem__)]
    found = SecondMoment(tau=tau).keep(d, torch.zeros_like(d), torch.ones_like(d, dtype=torch.bool), signs)[:, 0]
    kept_squares = sorted(d[i, 0].item() ** 2 for i in range(len(tokens)) if found[i] and d[i, 0] * signs[i] > 0)
    assert kept_squares == pytest.approx(sorted(left.values()))
    assert all(found[i] for i in range(len(tokens)) if d[i, 0] * signs[i] <= 0)


@pytest.mark.parametrize("config", EVERY, ids=str)
def test_every_mask_keeps_all_where_the_policies_agree_and_nothing_outside(config):
    for signs in (COEFFICIENTS, -COEFFICIENTS):
        assert torch.equal(kept(config, d=torch.zeros(3, 3), coefficients=signs), MASK)
    garbage = D.clone()
    garbage[0, 2] = float("nan")
    assert torch.equal(kept(config, d=garbage), kept(config)) and not kept(config)[0, 2]
    empty = torch.zeros(3, 3, dtype=torch.bool)
    assert torch.equal(kept(config, mask=empty), empty)


def test_a_config_names_one_mask():
    read = TypeAdapter(MaskConfig)
    for config in EVERY:
        assert read.validate_json(config.model_dump_json()) == config
    for wrong in (
        {"type": "geometric", "low": 1.1},
        {"type": "veto", "high": 0.9},
        {"type": "m2po", "tau": 0},
        {"low": 0.5},
    ):
        with pytest.raises(ValidationError):
            read.validate_python(wrong)
