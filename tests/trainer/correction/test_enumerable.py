"""Bias of the estimators on a policy whose exact gradient is a sum over all of its sequences.

The expected gradient of an estimator is taken here by autograd through its loss, weighed by μ; the exact one by
autograd through the objective itself.
"""

import pytest
import torch

from aliquot.trainer.correction import Truncated, Uncorrected, Untruncated
from benchmarks import corrections
from benchmarks.enumerable import STEPS, VOCABULARY, enumerable, log_probabilities, prefixes, sequences
from benchmarks.harness import interval

GAP, CAP = 0.5, 2.0
WORLD = enumerable(GAP)


def exact_gradient(world=WORLD):
    logits = world.logits.clone().requires_grad_()
    (log_probabilities(logits).sum(-1).exp() @ world.advantages).backward()
    return logits.grad


def estimate(correction, rows=None, world=WORLD):
    """Gradient of the mean loss over sequences drawn by μ, or over all of them by their probability under μ."""
    logits = world.logits.clone().requires_grad_()
    if rows is None:
        rows, share = torch.arange(len(world.drawn)), world.drawn
    else:
        share = torch.full((len(rows),), 1.0 / len(rows), dtype=torch.float64)
    logp, logmu, mask = log_probabilities(logits)[rows], world.logmu[rows], world.mask[rows]
    weights = correction.weights(logp, logmu, mask)
    ((share * world.advantages[rows])[:, None] * weights * logp).sum().backward()
    return logits.grad


def bound(world=WORLD):
    """max|A| · max‖∇ log π‖ · E_μ[(ρ − cap)₊], the norms by autograd."""
    logits = world.logits.clone().requires_grad_()
    logp = log_probabilities(logits).sum(-1)
    steepest = max(torch.autograd.grad(one, logits, retain_graph=True)[0].norm() for one in logp)
    excess = world.drawn @ (logp.detach().exp() / world.drawn - CAP).clamp(min=0)
    return float(world.advantages.abs().max() * steepest * excess)


def drawn_errors(correction, direction):
    """(mean, low, high) of the error along a unit direction, over 20 seeds of 1,000 sequences."""
    exact, errors = exact_gradient(), []
    for seed in range(20):
        rows = WORLD.sample(1_000, torch.Generator().manual_seed(seed))
        errors.append(float(((estimate(correction, rows) - exact) * direction).sum()))
    return interval(errors)


def test_the_sequences_and_prefixes_are_all_there_once():
    assert len({tuple(s) for s in sequences().tolist()}) == VOCABULARY**STEPS
    place = {}
    for sequence, path in zip(sequences().tolist(), prefixes().tolist(), strict=True):
        for step in range(STEPS):
            assert place.setdefault(tuple(sequence[:step]), path[step]) == path[step]
    assert sorted(place.values()) == list(range(len(WORLD.logits)))


def test_the_listed_gradient_is_the_derivative_of_the_objective():
    assert float(WORLD.probability.sum()) == pytest.approx(1.0) and float(WORLD.drawn.sum()) == pytest.approx(1.0)
    assert float(WORLD.probability @ WORLD.advantages) == pytest.approx(0.0, abs=1e-12)
    assert torch.allclose(WORLD.gradient, exact_gradient().flatten(), atol=1e-12)


def test_a_gap_of_nothing_is_no_gap_and_policy_and_advantages_do_not_move_with_it():
    none = enumerable(0.0)
    assert torch.equal(none.logp, none.logmu)
    assert torch.equal(none.logits, WORLD.logits) and torch.equal(none.advantages, WORLD.advantages)
    divergence = [float(w.drawn @ (w.logmu - w.logp).sum(-1)) for w in (none, WORLD, enumerable(1.0))]
    assert divergence[0] == 0.0 and divergence[1] < divergence[2]


def test_untruncated_sequence_weights_are_unbiased():
    exact = exact_gradient()
    assert float((estimate(Untruncated()) - exact).norm() / exact.norm()) < 1e-9
    naive = estimate(Uncorrected()) - exact
    _, low, high = drawn_errors(Untruncated(), naive / naive.norm())
    assert low < 0 < high
    assert float((estimate(Untruncated(level="token")) - exact).norm() / exact.norm()) > 0.1


def test_no_correction_is_visibly_biased():
    exact = exact_gradient()
    naive = estimate(Uncorrected()) - exact
    _, low, _ = drawn_errors(Uncorrected(), naive / naive.norm())
    assert low > 0.25 * float(exact.norm())


def test_truncation_of_whole_sequences_costs_no_more_than_its_bound():
    exact = exact_gradient()
    cost = float((estimate(Truncated(level="sequence", cap=CAP)) - exact).norm())
    assert 0 < cost <= bound()
    close = enumerable(0.1)  # where no ratio reaches the cap
    assert bound(close) == 0.0
    error = estimate(Truncated(level="sequence", cap=CAP), world=close) - exact_gradient(close)
    assert float(error.norm()) < 1e-12
    token = estimate(Truncated(level="token", cap=CAP), world=close) - exact_gradient(close)
    assert float(token.norm()) > 0.05 * float(exact.norm())


@pytest.mark.parametrize("name", ["none", "tis_token", "tis_sequence", "icepop", "kpop", "untruncated_token"])
def test_the_benchmark_lists_the_bias_that_autograd_finds(name):
    correction, mask = corrections.ESTIMATORS[name]
    found = corrections.bias(WORLD, correction, mask)
    assert torch.allclose(found, (estimate(correction) - exact_gradient()).flatten(), atol=1e-10)
    assert corrections.truncation_bound(WORLD, CAP) == pytest.approx(bound())


def test_the_benchmarks_variance_is_that_of_what_it_draws():
    correction, mask = corrections.ESTIMATORS["untruncated_sequence"]
    means = torch.stack([corrections.drawn(WORLD, correction, mask, seed) for seed in range(30)])
    spread = float(means.var(0, unbiased=True).sum()) * corrections.BATCH * corrections.BATCHES
    assert spread == pytest.approx(corrections.variance(WORLD, correction, mask), rel=0.25)
