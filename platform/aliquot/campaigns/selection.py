"""Which of the verified designs the lab gets, with the exact chance that each had.

Of k places, m = ⌈exploration · k⌉ are drawn uniformly without replacement from all n candidates; the other k − m go to
the best of what is left by acquisition. A design of rank r (1 is best) is therefore in when it was drawn, or when
enough of those before it were: with H the number of the m draws that fall on the r − 1 better ones,

    P(in) = m/n + (1 − m/n) · P(H ≥ r − (k − m)),   H ~ Hypergeometric(n − 1, r − 1, m).

Nothing has a chance below m/n, so every inverse-probability weight is bounded by n/m.
"""

from __future__ import annotations

import math

import numpy as np


def choose(
    candidates: int, acquisition: np.ndarray | None, places: int, exploration: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Fill `places` from the candidates.

    Args:
        candidates: n, how many there are.
        acquisition: larger is better, float [candidates]; None: all places are drawn uniformly.
        places: k ≥ 0; more than there are candidates takes them all.
        exploration: share of places drawn uniformly, in (0, 1].

    Returns:
        (chosen: bool [candidates], probability: float64 [candidates]).
    """
    chosen = np.zeros(candidates, dtype=bool)
    places = min(places, candidates)
    if places == 0:
        return chosen, np.zeros(candidates)
    draws = places if acquisition is None else min(places, math.ceil(exploration * places))
    chosen[rng.choice(candidates, draws, replace=False)] = True
    if acquisition is None:
        return chosen, np.full(candidates, places / candidates)
    order = np.argsort(-acquisition, kind="stable")
    left = order[~chosen[order]]
    chosen[left[: places - draws]] = True
    rank = np.empty(candidates, dtype=int)
    rank[order] = np.arange(1, candidates + 1)
    return chosen, inclusion_probability(rank, candidates, places, draws)


def inclusion_probability(rank: np.ndarray, candidates: int, places: int, draws: int) -> np.ndarray:
    """P(in) of the formula above, for ranks 1 … candidates."""
    from scipy.stats import hypergeom

    uniform = draws / candidates
    reached = hypergeom.sf(rank - (places - draws) - 1, candidates - 1, rank - 1, draws)
    return uniform + (1 - uniform) * reached
