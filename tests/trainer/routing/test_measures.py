"""Each measure of a layer's routing against a count by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

from aliquot.trainer.routing.measures import (
    balance,
    confidence,
    dead_experts,
    gate_mass,
    load,
    overlap,
    violation,
)

IDS = torch.tensor([[0, 1], [0, 2], [0, 1], [3, 3]])
REAL = torch.tensor([True, True, True, False])


def test_load_counts_assignments_of_real_tokens():
    assert load(IDS, 5).tolist() == [3, 2, 1, 2, 0]
    assert load(IDS, 5, REAL).tolist() == [3, 2, 1, 0, 0]


def test_violation_is_load_over_mean_load_less_one():
    """Loads 3, 2, 1, 0, 0 have mean 1.2: 3/1.2 − 1 = 1.5; 0 − 1 = −1; (1.5 + 2/3 + 1/6 + 1 + 1)/5 = 13/15."""
    found = violation(torch.tensor([3, 2, 1, 0, 0]))
    assert found == pytest.approx((1.5, -1.0, 13 / 15))
    assert violation(torch.tensor([4, 4, 4])) == (0.0, 0.0, 0.0)
    assert violation(torch.tensor([0, 7, 0, 0])) == pytest.approx((3.0, -1.0, 1.5))


def test_an_expert_is_dead_below_a_hundredth_of_an_even_load():
    """1,000 assignments over 4 experts: even is 250, a hundredth of it 2.5."""
    assert dead_experts(torch.tensor([500, 495, 3, 2])) == [3]
    assert dead_experts(torch.tensor([500, 495, 3, 2]), least=0.02) == [2, 3]


def test_of_a_batch_without_tokens_nothing_is_dead_and_nothing_violated():
    nothing = torch.zeros(4, dtype=torch.int64)
    assert dead_experts(nothing) == [] and violation(nothing) == (0.0, 0.0, 0.0)


@given(st.lists(st.integers(0, 100), min_size=2, max_size=8), st.integers(2, 5))
def test_load_violation_and_death_do_not_depend_on_the_size_of_the_batch(counts, times):
    one, many = torch.tensor(counts), torch.tensor(counts) * times
    assert violation(many) == pytest.approx(violation(one)) and dead_experts(many) == dead_experts(one)


def test_confidence_and_gate_mass_are_softmax_masses():
    logits = torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]]).log()
    assert confidence(logits[:1], 2).tolist() == pytest.approx([0.7])
    assert confidence(torch.zeros(1, 4), 2).tolist() == pytest.approx([0.5])
    assert gate_mass(logits[:1], torch.tensor([[0, 2]])).tolist() == pytest.approx([0.4])


def test_overlap_is_of_sets_whatever_their_order():
    live = torch.tensor([[0, 1], [0, 1], [0, 1]])
    assert overlap(live, torch.tensor([[1, 0], [1, 2], [3, 2]])).tolist() == [1.0, 0.5, 0.0]


def test_the_balancing_loss_is_top_k_when_all_is_even_and_more_otherwise():
    even = torch.tensor([[0, 1], [2, 3]])
    assert float(balance(torch.zeros(2, 4), even)) == pytest.approx(2.0)
    crowded = torch.tensor([[0, 1], [0, 1]])
    logits = torch.tensor([[3.0, 3.0, 0.0, 0.0]]).repeat(2, 1)
    assert float(balance(logits, crowded)) > 3.5


def test_the_balancing_loss_is_that_of_the_transformers_library():
    logits = torch.randn(12, 6, generator=torch.Generator().manual_seed(0))
    real = torch.tensor([True] * 9 + [False] * 3)
    live = logits.topk(2, dim=-1).indices
    expected = load_balancing_loss_func((logits,), 6, 2, real.long().reshape(3, 4))
    assert float(balance(logits, live, real)) == pytest.approx(float(expected), rel=1e-5)


def test_the_balancing_losses_of_the_parts_of_a_batch_add_up_to_that_of_the_batch():
    logits, live = torch.randn(10, 4), torch.randint(0, 4, (10, 2))
    whole = load(live, 4)
    parts = [balance(logits[rows], live[rows], whole=whole) for rows in (slice(0, 3), slice(3, 10))]
    assert float(sum(parts)) == pytest.approx(float(balance(logits, live)), rel=1e-5)
