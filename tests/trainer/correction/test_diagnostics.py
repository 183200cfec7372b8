"""What is said of a step, against hand-worked values."""

import math
import re
import sys

import pytest
import torch

from aliquot.trainer.correction import diagnose, effective_sample_size, mismatch

LOGMU = torch.log(torch.tensor([[0.5, 0.2, 0.1], [0.4, 0.5, 0.9]]))
LOGP = torch.log(torch.tensor([[0.3, 0.6, 0.1], [0.4, 0.3, 0.9]]))
MASK = torch.tensor([[True, True, False], [True, True, True]])


def said(**changes):
    given = {
        "weights": torch.tensor([[0.6, 2.0, 0.0], [1.0, 0.6, 1.0]]),
        "truncated": torch.tensor([[False, True, False], [False, False, False]]),
        "keep": torch.tensor([[True, True, False], [False, True, False]]),
        "coefficients": torch.tensor([0.5, -1.0]),
        "entropy": 0.8,
    }
    return diagnose(LOGP, LOGMU, MASK, **given | changes)


def test_effective_sample_size_is_kishs():
    assert effective_sample_size(torch.tensor([1.0, 1.0, 1.0, 1.0])) == pytest.approx(1.0)
    assert effective_sample_size(torch.tensor([3.0, 1.0])) == pytest.approx(16 / 20)
    assert effective_sample_size(torch.zeros(3)) == 1.0


def test_mismatch_is_as_worked_by_hand():
    found = mismatch(LOGP, LOGMU, MASK)
    d = [math.log(0.6), math.log(3.0), 0.0, math.log(0.6), 0.0]
    assert found == pytest.approx(
        {
            "kl_k1": -sum(d) / 5,
            "kl_k3": sum(math.exp(x) - x - 1 for x in d) / 5,
            "log_ratio_mean": sum(map(abs, d)) / 5,
            "log_ratio_max": math.log(3.0),
            "chi2": (0.36 + 9 + 1 + 0.36 + 1) / 5 - 1,
            "chi2_sequence": (1.8**2 + 0.6**2) / 2 - 1,
            "ess_token": 6.2**2 / (5 * 11.72),
            "ess_sequence": 2.4**2 / (2 * 3.6),
            "extreme_fraction": 0.2,
        },
        rel=1e-4,
    )


def test_a_step_is_described_as_worked_by_hand():
    found = said()
    assert found["kl_entropy_ratio"] == pytest.approx(found["kl_k3"] / 0.8)
    assert found["weight_mean"] == pytest.approx(5.2 / 5)
    shares = [found[f"{what}_{sign}"] for what in ("truncated", "masked") for sign in ("positive", "negative")]
    assert shares == pytest.approx([1 / 2, 0.0, 0.0, 2 / 3])


def test_a_coefficient_of_zero_has_no_sign_and_a_share_among_none_is_zero():
    found = said(coefficients=torch.tensor([0.0, 1.0]), entropy=0.0)
    assert (found["truncated_positive"], found["masked_positive"]) == pytest.approx((0.0, 2 / 3))
    assert (found["truncated_negative"], found["masked_negative"]) == (0.0, 0.0)
    assert math.isfinite(found["kl_entropy_ratio"])


def test_rows_without_tokens_are_not_counted_and_an_empty_batch_says_nothing():
    longer = [torch.cat([x, torch.zeros(2, 3)]) for x in (LOGP, LOGMU)]
    assert mismatch(*longer, torch.cat([MASK, torch.zeros(2, 3, dtype=torch.bool)])) == mismatch(LOGP, LOGMU, MASK)
    assert mismatch(LOGP, LOGMU, torch.zeros_like(MASK)) == {}


def test_the_documented_names_are_the_ones_given():
    table = [
        line.split("|")[1] for line in sys.modules[diagnose.__module__].__doc__.splitlines() if line.startswith("| `")
    ]
    assert set(re.findall(r"`(\w+)`", "".join(table))) == set(said())
