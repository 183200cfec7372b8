"""Importance weights against hand-worked values."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from aliquot.trainer.correction import CorrectionConfig, IcePop, KPop, Truncated, Uncorrected, Untruncated
from aliquot.trainer.correction.weights import binary_kl, importance

LOGMU = torch.log(torch.tensor([[0.5, 0.2, 0.1], [0.4, 0.5, 0.9]]))
LOGP = torch.log(torch.tensor([[0.25, 0.6, 0.1], [0.4, 0.25, 0.9]]))
MASK = torch.tensor([[True, True, False], [True, True, True]])
EVERY = [
    Truncated(), Truncated(level="sequence"), IcePop(), KPop(), Untruncated(), Untruncated(level="token"),
    Uncorrected(),
]  # fmt: skip
READ = TypeAdapter(CorrectionConfig)


def test_token_weights_are_truncated_ratios_inside_the_mask():
    weights = Truncated(cap=2.0).weights(LOGP, LOGMU, MASK)
    assert weights[0].tolist() == pytest.approx([0.5, 2.0, 0.0])
    assert weights[1].tolist() == pytest.approx([1.0, 0.5, 1.0])
    assert Truncated(cap=2.0).truncated(LOGP, LOGMU, MASK).tolist() == [[False, True, False], [False] * 3]


def test_sequence_weights_are_products_and_are_truncated_whole():
    config = Truncated(level="sequence", cap=1.2)
    weights = config.weights(LOGP, LOGMU, MASK)
    assert weights[0].tolist() == pytest.approx([1.2, 1.2, 0.0])  # 0.5 · 3 = 1.5
    assert weights[1].tolist() == pytest.approx([0.5, 0.5, 0.5])
    assert config.truncated(LOGP, LOGMU, MASK).tolist() == [[True, True, False], [False] * 3]


def test_untruncated_weights_are_the_whole_ratio():
    assert Untruncated(level="token").weights(LOGP, LOGMU, MASK)[0].tolist() == pytest.approx([0.5, 3.0, 0.0])
    assert Untruncated().weights(LOGP, LOGMU, MASK)[0].tolist() == pytest.approx([1.5, 1.5, 0.0])
    assert not Untruncated().truncated(LOGP, LOGMU, MASK).any()


def test_icepop_zeroes_what_is_outside_its_bounds_on_either_side():
    config = IcePop(low=0.6, high=2.5)
    assert config.weights(LOGP, LOGMU, MASK).tolist() == [[0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
    assert config.truncated(LOGP, LOGMU, MASK).tolist() == [[True, True, False], [False, True, False]]
    assert IcePop(low=0.45, high=3.5).weights(LOGP, LOGMU, MASK)[0].tolist() == pytest.approx([0.5, 3.0, 0.0])


def test_a_binary_kl_is_as_worked_by_hand():
    p, q = torch.tensor([0.9]).log(), torch.tensor([0.6]).log()
    assert float(binary_kl(p, q)) == pytest.approx(0.9 * math.log(1.5) + 0.1 * math.log(0.25), rel=1e-5)
    assert float(binary_kl(q, p)) == pytest.approx(0.6 * math.log(2 / 3) + 0.4 * math.log(4), rel=1e-5)
    certain = torch.zeros(1)  # the only legal token
    assert float(binary_kl(certain, certain)) == 0.0 and math.isfinite(float(binary_kl(q, certain)))


@given(st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_a_binary_kl_is_that_of_two_bernoulli_distributions(p, q):
    made = [torch.distributions.Bernoulli(torch.tensor(x, dtype=torch.float64)) for x in (p, q)]
    expected = float(torch.distributions.kl_divergence(*made))
    assert float(binary_kl(made[0].probs.log(), made[1].probs.log())) == pytest.approx(expected, abs=1e-9)


def test_kpop_masks_on_either_direction_and_is_wide_for_rare_tokens():
    logp = torch.tensor([[0.9, 0.6, 0.001]]).log()
    logmu = torch.tensor([[0.6, 0.9, 0.0001]]).log()
    mask = torch.ones(1, 3, dtype=torch.bool)
    # the first two diverge by 0.226 one way and 0.311 the other, the third by 0.0014 and 0.0007
    assert KPop(bound=0.25).weights(logp, logmu, mask)[0].tolist() == pytest.approx([0.0, 0.0, 10.0], rel=1e-4)
    assert KPop(bound=0.32).weights(logp, logmu, mask)[0].tolist() == pytest.approx([1.5, 2 / 3, 10.0], rel=1e-4)
    assert KPop(bound=0.25).truncated(logp, logmu, mask).tolist() == [[True, True, False]]
    assert IcePop().weights(logp, logmu, mask)[0].tolist() == pytest.approx([1.5, 2 / 3, 0.0], rel=1e-4)


def test_no_correction_is_weight_one():
    assert Uncorrected().weights(LOGP, LOGMU, MASK).tolist() == MASK.float().tolist()
    assert not Uncorrected().truncated(LOGP, LOGMU, MASK).any()


@pytest.mark.parametrize("config", EVERY, ids=str)
def test_every_weight_is_a_float32_constant_that_sees_nothing_outside_the_mask(config):
    logp, logmu = LOGP.clone(), LOGMU.clone()
    expected = config.weights(logp, logmu, MASK)
    logp[0, 2], logmu[0, 2] = float("nan"), float("-inf")
    found = config.weights(logp.requires_grad_(), logmu, MASK)
    assert not found.requires_grad and found.dtype == torch.float32
    assert torch.equal(found, expected) and found[0, 2] == 0.0
    assert config.truncated(logp, logmu, MASK)[0, 2].item() is False
    assert config.weights(logp.detach().bfloat16(), logmu.bfloat16(), MASK).dtype == torch.float32


@pytest.mark.parametrize("config", EVERY, ids=str)
def test_every_weight_is_one_where_the_policies_agree(config):
    assert config.weights(LOGP, LOGP, MASK).tolist() == MASK.float().tolist()
    assert not config.truncated(LOGP, LOGP, MASK).any()


def test_a_log_ratio_is_held_within_twenty():
    logp, logmu = torch.tensor([[-1.0, -80.0]]), torch.tensor([[-80.0, -1.0]])
    mask = torch.ones(1, 2, dtype=torch.bool)
    assert importance(logp, logmu, mask, "token")[0].tolist() == pytest.approx([math.exp(20), math.exp(-20)], rel=1e-4)
    assert importance(logp, logmu, mask, "sequence")[0].tolist() == pytest.approx([1.0, 1.0])


def test_a_config_names_one_correction_and_tis_without_a_name():
    assert READ.validate_python({}) == Truncated(level="token", cap=2.0)
    assert READ.validate_python({"level": "sequence"}) == Truncated(level="sequence")
    for config in EVERY:
        assert READ.validate_json(config.model_dump_json()) == config
    for wrong in (
        {"type": "icepop", "low": 1.5},
        {"type": "kpop", "cap": 2.0},
        {"type": "tis", "cap": 0.5},
        {"type": "x"},
    ):
        with pytest.raises(ValidationError):
            READ.validate_python(wrong)
