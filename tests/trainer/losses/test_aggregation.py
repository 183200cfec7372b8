"""Five ways to average, against sums worked by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.trainer.losses import aggregate

# three rows of 2, 1 and 3 tokens; the first two answer one prompt
TERMS = torch.tensor([[1.0, 2.0, 99.0], [4.0, 99.0, 99.0], [3.0, 6.0, 9.0]])
MASK = torch.tensor([[True, True, False], [True, False, False], [True, True, True]])
GROUPS = torch.tensor([5, 5, 2])
BY_HAND = {
    "sequence_sum": 25 / 8,
    "constant": 25 / 80,
    "token": 25 / 6,
    "sequence": (1.5 + 4 + 6) / 3,
    "prompt": (7 / 3 + 6) / 2,
}


@pytest.mark.parametrize("how", BY_HAND)
def test_an_aggregation_is_as_worked_by_hand(how):
    assert float(aggregate(TERMS, MASK, GROUPS, how, 8, 10)) == pytest.approx(BY_HAND[how], rel=1e-6)


@pytest.mark.parametrize("how", BY_HAND)
def test_an_empty_row_changes_nothing_even_if_it_is_not_a_number(how):
    terms = torch.cat([TERMS, torch.full((1, 3), torch.nan)])
    mask, groups = torch.cat([MASK, torch.zeros(1, 3, dtype=torch.bool)]), torch.tensor([5, 5, 2, 9])
    assert float(aggregate(terms, mask, groups, how, 8, 10)) == pytest.approx(BY_HAND[how], rel=1e-6)


@pytest.mark.parametrize("how", BY_HAND)
def test_a_batch_without_tokens_is_zero(how):
    assert float(aggregate(TERMS, torch.zeros_like(MASK), GROUPS, how, 8, 10)) == 0.0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2)), min_size=1, max_size=6), st.floats(-5, 5, width=32))
def test_means_of_a_constant_are_that_constant(rows, value):
    lengths, groups = (torch.tensor(column) for column in zip(*rows, strict=True))
    mask = torch.arange(5) < lengths[:, None]
    terms = torch.full(mask.shape, value)
    for how in ("token", "sequence", "prompt"):
        assert float(aggregate(terms, mask, groups, how, 3, 7)) == pytest.approx(value, rel=1e-4, abs=1e-5)
