"""Sample efficiency: the area under the curve of the mean of the ten best true scores over calls.

As `top_auc` of the PMO benchmark computes it (Gao et al. 2022, https://arxiv.org/abs/2206.12411; wenhao-gao/mol_opt,
main/optimizer.py): the curve is read every `every` calls and joined by trapezoids from 0 at the start, a run that ends
early keeps its last value to the end of the budget, and the area is divided by the budget.

A call is counted where it was made. NaN is a call that never answered: it is counted, and has no score.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

TOP = 10


def top_auc(scores: Sequence[float] | np.ndarray, calls: int, every: int, start: int = 0) -> float:
    """Area in [0, 1] under the curve, for scores in [0, 1].

    Args:
        scores: true score of each call, in the order of the calls; NaN for a call without an answer.
        calls: the budget; what is beyond it does not count.
        every: calls between two readings of the curve.
        start: what lies before this call is left out of the area and of the budget; a multiple of `every`.
    """
    found = np.asarray(scores, dtype=float)[:calls]
    area, before, read = 0.0, 0.0, 0
    for now in [*range(every, len(found), every), len(found)]:
        height = top_mean(found[:now])
        area += (now - read) * (before + height) / 2 if now > start else 0.0
        before, read = height, now
    area += (calls - read) * before
    return area / (calls - start)


def shifted(scores: Sequence[float] | np.ndarray, delay: int) -> np.ndarray:
    """The scores of a run of which nothing is known for the first `delay` calls, and then what was known without
    delay."""
    return np.concatenate([np.full(delay, np.nan), np.asarray(scores, dtype=float)])


def top_mean(scores: np.ndarray) -> float:
    """Mean of the ten best, of all when there are fewer, 0 when there is none."""
    known = scores[~np.isnan(scores)]
    return float(np.sort(known)[-TOP:].mean()) if len(known) else 0.0
