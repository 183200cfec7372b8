"""A random forest whose spread is put to scale by its own out-of-bag errors.

The mean of the trees predicts (Breiman, Mach. Learn. 45, 5, 2001). The variance of the trees, v, says where the forest
is unsure, but not in the right units, and it knows nothing of the noise of a measurement. Each training point has an
honest error, r, that of the trees whose bootstrap left it out. So the predictive variance joins the two,

    sd²(x) = c · (w · v(x) / v̄ + 1 − w),    v̄ the mean of the out-of-bag v,

with c ≥ 0 and w in [½, 1) those under which the out-of-bag errors are most likely, r ~ N(0, sd²). For a given w the
best c is the mean of r² / (w · v / v̄ + 1 − w), so only w is searched. This is calibration after bootstrap (Palmer et
al., npj Comput. Mater. 8, 115, 2022), linear in the variance instead of the standard deviation. The bound on w is ours:
out-of-bag errors lie where the data lie, and must not talk the forest out of its doubt elsewhere. The trees, spread to
that width around their mean, are the draws. `sd` is that of a new measurement, not of its expectation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aliquot.domain import ConditionsSpace, Design, MoleculeSpace, SequenceSpace
from aliquot.surrogates.features import featuriser_of
from aliquot.surrogates.protocol import Prediction, SurrogateError, SurrogateNotReady

LEAF = 2
"""Fewest training designs in a leaf."""
FEWEST_COLUMNS, SHARE_OF_COLUMNS = 32, 0.15
"""Columns that each split looks at: all up to the first, then this share."""
SHARES = np.linspace(0.5, 0.95, 10)
"""Values of w that are tried."""


class RandomForestSurrogate:
    """See `Surrogate`. Single-threaded; 300 molecules and 100 trees take about 0.4 s to fit."""

    def __init__(self, space: MoleculeSpace | ConditionsSpace | SequenceSpace, seed: int, trees: int = 100):
        """Raises `SurrogateError` below ten trees: too few for every design to be out of some bag."""
        if trees < 10:
            raise SurrogateError(f"trees={trees}: a forest whose spread means something has at least 10")
        self._features = featuriser_of(space)
        self._seed, self._trees = seed % 2**32, trees
        self._forest: Any = None
        self._columns = np.empty(0, dtype=int)
        self._slope, self._offset = 0.0, 0.0
        self._out_of_bag = np.empty(0)

    def fit(self, designs: Sequence[Design], values: np.ndarray) -> None:
        from sklearn.ensemble import RandomForestRegressor

        y = np.asarray(values, dtype=np.float64)
        if y.shape != (len(designs),) or len(y) < 2:
            raise SurrogateError(f"{len(designs)} designs and values of shape {y.shape}; give two or more of each")
        if not np.isfinite(y).all():
            raise SurrogateError(f"value {int(np.argmin(np.isfinite(y)))} is {y[~np.isfinite(y)][0]}; leave it out")
        x = self._features(designs)
        self._columns = _splittable(x)
        x = x[:, self._columns]
        width = x.shape[1]
        self._forest = RandomForestRegressor(
            n_estimators=self._trees,
            max_features=max(min(FEWEST_COLUMNS, width), int(SHARE_OF_COLUMNS * width)),
            min_samples_leaf=LEAF,
            random_state=self._seed,
            n_jobs=1,
        ).fit(x, y)
        self._calibrate(x, y)

    def predict(self, designs: Sequence[Design]) -> Prediction:
        if self._forest is None:
            raise SurrogateNotReady("the forest has not been fitted yet")
        trees = self._by_tree(self._features(designs)[:, self._columns])
        mean, variance = trees.mean(axis=0), trees.var(axis=0)
        wanted = self._slope * variance + self._offset
        stretch = np.sqrt(np.divide(wanted, variance, out=np.zeros_like(variance), where=variance > 0))
        draws = mean + stretch * (trees - mean)
        return Prediction(mean=mean, sd=draws.std(axis=0), draws=draws)

    def out_of_bag(self) -> np.ndarray:
        if self._forest is None:
            raise SurrogateNotReady("the forest has not been fitted yet")
        return self._out_of_bag

    def _by_tree(self, x: np.ndarray) -> np.ndarray:
        """float64 [trees, n]."""
        if len(x) == 0:
            return np.empty((self._trees, 0))
        rows = np.ascontiguousarray(x, dtype=np.float32)
        return np.stack([tree.tree_.predict(rows)[:, 0] for tree in self._forest.estimators_])

    def _calibrate(self, x: np.ndarray, y: np.ndarray) -> None:
        outside = np.ones((self._trees, len(y)), dtype=bool)
        for row, drawn in zip(outside, self._forest.estimators_samples_, strict=True):
            row[drawn] = False
        trees, votes = self._by_tree(x), outside.sum(axis=0)
        mean = np.where(outside, trees, 0.0).sum(axis=0) / np.maximum(votes, 1)
        variance = np.where(outside, (trees - mean) ** 2, 0.0).sum(axis=0) / np.maximum(votes - 1, 1)
        enough = votes >= 2
        self._slope, self._offset = _most_likely((y - mean)[enough], variance[enough])
        self._out_of_bag = np.where(votes > 0, mean, y.mean())


def _most_likely(errors: np.ndarray, variance: np.ndarray) -> tuple[float, float]:
    """(slope, offset) of sd² = slope · v + offset, from the errors and the v, float [n], of the same points."""
    if not len(errors) or not errors.any() or not variance.any():
        return 0.0, 0.0
    shape = SHARES[:, None] * variance / variance.mean() + 1 - SHARES[:, None]
    scale = (errors**2 / shape).mean(axis=1)
    best = int(np.argmin(np.log(scale) + np.log(shape).mean(axis=1)))
    return float(scale[best] * SHARES[best] / variance.mean()), float(scale[best] * (1 - SHARES[best]))


def _splittable(x: np.ndarray) -> np.ndarray:
    """Columns by which at least `LEAF` designs can be told from `LEAF` others; the first one where there is none."""
    n = len(x)
    if n < 2 * LEAF:
        return np.arange(x.shape[1])
    ordered = np.partition(x, (LEAF - 1, n - LEAF), axis=0)
    columns = np.flatnonzero(ordered[LEAF - 1] < ordered[n - LEAF])
    return columns if len(columns) else np.zeros(1, dtype=int)
