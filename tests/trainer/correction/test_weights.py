"""Importance weights and diagnostics against hand-worked values."""

import math

import pytest
import torch

from aliquot.trainer.correction import CorrectionConfig, effective_sample_size, mismatch, truncated_weights
from aliquot.trainer.losses import kl_to_reference, policy_gradient

LOGMU = torch.log(torch.tensor([[0.5, 0.2, 0.1], [0.4, 0.5, 0.9]]))
LOGP = torch.log(torch.tensor([[0.25, 0.6, 0.1], [0.4, 0.25, 0.9]]))
MASK = torch.tensor([[True, True, False], [True, True, True]])


def test_token_weights_are_truncated_ratios_inside_the_mask():
    weights = truncated_weights(LOGP, LOGMU, MASK, CorrectionConfig(cap=2.0))
    assert weights[0].tolist() == pytest.approx([0.5, 2.0, 0.0])
    assert weights[1].tolist() == pytest.approx([1.0, 0.5, 1.0])


def test_sequence_weights_are_products_and_are_truncated_whole():
    weights = truncated_weights(LOGP, LOGMU, MASK, CorrectionConfig(level="sequence", cap=1.2))
    assert weights[0].tolist() == pytest.approx([1.2, 1.2, 0.0])  # 0.5 · 3 = 1.5
    assert weights[1].tolist() == pytest.approx([0.5, 0.5, 0.5])


def test_weights_have_no_gradient():
    logp = LOGP.clone().requires_grad_()
    assert not truncated_weights(logp, LOGMU, MASK, CorrectionConfig()).requires_grad


def test_effective_sample_size_is_kishs():
    assert effective_sample_size(torch.tensor([1.0, 1.0, 1.0, 1.0])) == pytest.approx(1.0)
    assert effective_sample_size(torch.tensor([3.0, 1.0])) == pytest.approx(16 / 20)
    assert effective_sample_size(torch.zeros(3)) == 1.0


def test_mismatch_is_as_worked_by_hand():
    found = mismatch(LOGP, LOGMU, MASK)
    d = [math.log(0.5), math.log(3.0), 0.0, math.log(0.5), 0.0]
    assert found["kl_k1"] == pytest.approx(-sum(d) / 5, rel=1e-5)
    assert found["kl_k3"] == pytest.approx(sum(math.exp(x) - x - 1 for x in d) / 5, rel=1e-5)
    assert found["chi2"] == pytest.approx((0.25 + 9 + 1 + 0.25 + 1) / 5 - 1, rel=1e-5)
    assert found["log_ratio_max"] == pytest.approx(math.log(3.0), rel=1e-5)


def test_the_policy_gradient_is_linear_in_its_coefficients():
    logp, weights = LOGP * MASK, truncated_weights(LOGP, LOGMU, MASK, CorrectionConfig())
    one, two = torch.tensor([0.5, -1.0]), torch.tensor([0.25, 2.0])
    assert policy_gradient(logp, weights, one, 2) + policy_gradient(logp, weights, two, 2) == pytest.approx(
        float(policy_gradient(logp, weights, one + two, 2))
    )
    by_hand = -(0.5 * (0.5 * math.log(0.25) + 2.0 * math.log(0.6))) / 2
    assert float(policy_gradient(logp[:1], weights[:1], torch.tensor([0.5]), 2)) == pytest.approx(by_hand, rel=1e-5)


def test_the_anchor_is_the_exact_kl_and_ignores_illegal_tokens():
    policy = torch.log(torch.tensor([[[0.5, 0.5, 0.0]]]))
    reference = torch.log(torch.tensor([[[0.25, 0.75, 0.0]]]))
    expected = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert float(kl_to_reference(policy, reference, torch.tensor([[True]]), 1)) == pytest.approx(expected, rel=1e-5)
    policy.requires_grad_()
    kl_to_reference(policy, reference, torch.tensor([[True]]), 1).backward()
    assert torch.isfinite(policy.grad).all()
