"""Draws follow the distribution they were given, and each sample has a stream of its own."""

from __future__ import annotations

import torch
from scipy import stats

from aliquot.domain import Sampling
from aliquot.trainer.rollout.sampling import draw, truncated, uniforms

LOGP = torch.tensor([[0.5, 0.25, 0.15, 0.1]]).log()


def test_a_stream_depends_on_seed_and_index_alone():
    assert torch.equal(uniforms(5, 3, 10), uniforms(5, 3, 20)[:10])
    assert not torch.equal(uniforms(5, 3, 10), uniforms(5, 4, 10))
    assert not torch.equal(uniforms(5, 3, 10), uniforms(6, 3, 10))
    assert uniforms(-1, 0, 4).dtype == torch.float64


def test_streams_are_uniform_and_independent():
    values = torch.stack([uniforms(0, index, 50) for index in range(400)])
    assert stats.kstest(values.flatten().numpy(), "uniform").pvalue > 1e-3
    assert abs(torch.corrcoef(values[:, :2].T)[0, 1]) < 0.15


def test_a_draw_is_the_inverse_of_the_cumulative_distribution():
    uniform = torch.tensor([0.0, 0.49, 0.51, 0.74, 0.76, 0.89, 0.91, 1 - 2**-53], dtype=torch.float64)
    assert draw(LOGP.repeat(8, 1), uniform).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_token_of_probability_zero_is_never_drawn():
    logp = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]]).log().repeat(3, 1)
    assert draw(logp, torch.tensor([0.0, 0.5, 1 - 2**-53], dtype=torch.float64)).tolist() == [1, 3, 3]


def test_truncation_keeps_what_it_should_and_renormalises():
    top_k = truncated(LOGP, Sampling(top_k=2)).exp()
    torch.testing.assert_close(top_k, torch.tensor([[2 / 3, 1 / 3, 0.0, 0.0]]))
    top_p = truncated(LOGP, Sampling(top_p=0.7)).exp()  # the token that crosses the bound is kept
    torch.testing.assert_close(top_p, torch.tensor([[2 / 3, 1 / 3, 0.0, 0.0]]))
    min_p = truncated(LOGP, Sampling(min_p=0.25)).exp()  # at least a quarter of the largest
    torch.testing.assert_close(min_p, torch.tensor([[5 / 9, 2.5 / 9, 1.5 / 9, 0.0]]))
