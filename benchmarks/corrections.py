"""What does each correction do to the gradient, when samples come from a policy at some distance?

On the enumerable policy the exact gradient g is known. An estimator learns from a sequence s, drawn by μ,

    ĝ(s) = A(s) Σₜ wₜ keepₜ ∇ log π(sₜ),

with the weights and the mask of `aliquot.trainer.correction` themselves. Its bias E_μ[ĝ] − g and its variance (trace of
the covariance, per sample) are sums over all sequences, exact; so are they for `m2po`, which looks at a whole batch, in
the limit of a large one. Masks stand on untruncated sequence weights, so that what they add is theirs.

The same estimators are then drawn: BATCHES batches of BATCH sequences for every seed. `along` is the error of their
mean in the direction in which the uncorrected estimator errs, with an interval over seeds. Bias, `along` and their
intervals are in units of ‖g‖, variance in units of ‖g‖².
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from aliquot.trainer.correction import (
    Geometric,
    IcePop,
    KPop,
    OffPolicy,
    Product,
    SecondMoment,
    Truncated,
    Uncorrected,
    Untruncated,
    Veto,
)
from aliquot.trainer.correction.masks import MaskConfig
from aliquot.trainer.correction.weights import CorrectionConfig
from benchmarks.enumerable import Enumerable, enumerable
from benchmarks.harness import Goal, Report, interval

GAPS = (0.1, 0.3, 1.0)
SEEDS = tuple(range(40))
BATCH, BATCHES = 64, 100
LARGE = 2**16
"""Sequences, shared out as μ has them, that stand for a batch without end."""
CAP = 2.0
"""Of the truncated weights."""
EXACT = 1e-9
"""What rounding may leave of a sum over all sequences, in ‖g‖."""
VISIBLE = 0.1
"""Least bias, in ‖g‖, that may be called visible."""

ESTIMATORS: dict[str, tuple[CorrectionConfig, MaskConfig | None]] = {
    "none": (Uncorrected(), None),
    "tis_token": (Truncated(level="token", cap=CAP), None),
    "tis_sequence": (Truncated(level="sequence", cap=CAP), None),
    "icepop": (IcePop(), None),
    "kpop": (KPop(), None),
    "untruncated_token": (Untruncated(level="token"), None),
    "untruncated_sequence": (Untruncated(level="sequence"), None),
    "geometric": (Untruncated(), Geometric()),
    "product": (Untruncated(), Product()),
    "veto": (Untruncated(), Veto()),
    "off_policy": (Untruncated(), OffPolicy()),
    "m2po": (Untruncated(), SecondMoment()),
}


def run(full: bool, say: Callable[[str], None]) -> Report:
    report = Report("corrections", seeds=list(SEEDS if full else SEEDS[:10]))
    for gap in GAPS:
        _measure(report, gap, say)
        report.goals += [
            Goal(f"gap{gap}.untruncated_sequence.bias", "<=", EXACT),
            Goal(f"gap{gap}.untruncated_sequence.along.low", "<=", 0.0),
            Goal(f"gap{gap}.untruncated_sequence.along.high", ">=", 0.0),
            Goal(f"gap{gap}.tis_sequence.beyond_bound", "<=", EXACT),
        ]
    report.goals.append(Goal(f"gap{GAPS[-1]}.none.along.low", ">=", VISIBLE))
    return report


def _measure(report: Report, gap: float, say: Callable[[str], None]) -> None:
    world = enumerable(gap)
    size = float(world.gradient.norm())
    naive = bias(world, *ESTIMATORS["none"])
    direction = naive / naive.norm()
    report.metrics[f"gap{gap}.kl"] = float(world.drawn @ (world.logmu - world.logp).sum(-1))
    for name, (correction, mask) in ESTIMATORS.items():
        found = f"gap{gap}.{name}"
        report.metrics[f"{found}.bias"] = float(bias(world, correction, mask).norm()) / size
        report.metrics[f"{found}.variance"] = variance(world, correction, mask) / size**2
        errors = [float((drawn(world, correction, mask, seed) - world.gradient) @ direction) for seed in report.seeds]
        mean, low, high = interval([error / size for error in errors])
        report.metrics |= {f"{found}.along": mean, f"{found}.along.low": low, f"{found}.along.high": high}
        say(f"gap {gap} {name}: bias {report.metrics[f'{found}.bias']:.3f}, along {low:.3f} to {high:.3f}")
    found = f"gap{gap}.tis_sequence"
    report.metrics[f"{found}.bound"] = truncation_bound(world, CAP) / size
    report.metrics[f"{found}.beyond_bound"] = report.metrics[f"{found}.bias"] - report.metrics[f"{found}.bound"]


def bias(world: Enumerable, correction: CorrectionConfig, mask: MaskConfig | None) -> Tensor:
    """E_μ[ĝ] − g, float64 [D]."""
    return world.drawn @ _of_each(world, correction, mask) - world.gradient


def variance(world: Enumerable, correction: CorrectionConfig, mask: MaskConfig | None) -> float:
    """E_μ‖ĝ‖² − ‖E_μ ĝ‖², of one sample."""
    each = _of_each(world, correction, mask)
    return float(world.drawn @ (each**2).sum(-1) - (world.drawn @ each).norm() ** 2)


def drawn(world: Enumerable, correction: CorrectionConfig, mask: MaskConfig | None, seed: int) -> Tensor:
    """Mean of ĝ over BATCHES batches of BATCH sequences that μ draws, each weighed and masked as a batch; [D]."""
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros_like(world.logp)
    for _ in range(BATCHES):
        rows = world.sample(BATCH, generator)
        total.index_add_(0, rows, _factors(world, rows, correction, mask))
    return torch.einsum("st,std->d", total, world.scores) / (BATCHES * BATCH)


def truncation_bound(world: Enumerable, cap: float) -> float:
    """max|A| · max‖∇ log π(s)‖ · E_μ[(ρ − cap)₊], ρ = π(s)/μ(s): what truncation at sequence level may cost."""
    ratio = world.probability / world.drawn
    steepest = world.scores.sum(1).norm(dim=-1).max()
    return float(world.advantages.abs().max() * steepest * (world.drawn @ (ratio - cap).clamp(min=0)))


def _of_each(world: Enumerable, correction: CorrectionConfig, mask: MaskConfig | None) -> Tensor:
    """ĝ of every sequence, [S, D]; within a batch of LARGE sequences."""
    copies = (world.drawn * LARGE).round().long().clamp(min=1)
    rows = torch.arange(len(copies)).repeat_interleave(copies)
    factors = torch.zeros_like(world.logp).index_add_(0, rows, _factors(world, rows, correction, mask))
    return torch.einsum("st,std->sd", factors / copies[:, None], world.scores)


def _factors(world: Enumerable, rows: Tensor, correction: CorrectionConfig, mask: MaskConfig | None) -> Tensor:
    """A w keep of each token of these sequences as one batch, [batch, STEPS]."""
    logp, logmu, inside, advantages = world.logp[rows], world.logmu[rows], world.mask[rows], world.advantages[rows]
    factors = advantages[:, None] * correction.weights(logp, logmu, inside)
    return factors if mask is None else factors * mask.keep(logp, logmu, inside, advantages)
