"""Where a model may be believed: near enough to what it was trained on.

Two measures. *Neighbours*: the mean distance to the k nearest training points, against that of the training points
themselves to their own neighbours (Sahigara, Ballabio, Todeschini & Consonni, J. Cheminf. 5, 27, 2013). *Leverage*:
h = z (ZᵀZ)⁻¹ zᵀ over features with a constant, against 3 p / n (Tropsha, Gramatica & Gombar, QSAR Comb. Sci. 22, 69,
2003). Features are standardised by the training set first, except for the Tanimoto distance of fingerprints.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field, FiniteFloat, model_validator

from aliquot.verifiers.sdk import DataFile, VerifierConfig

REFERENCE = 2000
"""Training points whose own distances set the limit, evenly spread over the file; all where there are no more."""


Measure = Callable[[np.ndarray], np.ndarray]
"""Rows of features [n, d] to one number each [n]."""


class ApplicabilityDomain(VerifierConfig):
    training: DataFile | None = None
    """Features of the training set, one row a design: `.npy`, or `.csv` with or without a header."""
    points: tuple[tuple[FiniteFloat, ...], ...] | None = None
    """Or the same written out."""
    method: Literal["neighbours", "leverage"] = "neighbours"
    """How distance from the training set is measured."""
    distance: Literal["euclidean", "tanimoto"] = "euclidean"
    """For neighbours. Tanimoto: for fingerprints."""
    neighbours: int = Field(default=5, ge=1, le=100)
    """How many nearest training points the distance is a mean over."""
    quantile: float = Field(default=0.95, gt=0, le=1)
    """Share of the training points that lies within the limit, for neighbours."""
    outside: Literal["refuse", "flag"] = "refuse"
    """What becomes of a design outside: refused, or only marked in `values`."""

    @model_validator(mode="after")
    def _given(self) -> ApplicabilityDomain:
        if (self.training is None) == (self.points is None):
            raise ValueError("give either `training`, a file, or `points`")
        return self

    def measure(self, size: int) -> tuple[Measure, float]:
        """The distance of designs [n, d] from the training set, [n], and the limit.

        Raises:
            ValueError: the training set is not [n, size], not finite, or too small.
        """
        known = np.array(self.points, dtype=float) if self.points is not None else read_matrix(self.training)
        if known.ndim != 2 or known.shape[1] != size:
            shape = " x ".join(map(str, known.shape))
            raise ValueError(f"the training set is {shape}; wanted is one row of {size} features for each design")
        if not np.isfinite(known).all():
            raise ValueError("the training set holds values that are not finite")
        if self.method == "leverage":
            return _leverage(known)
        if len(known) <= self.neighbours:
            raise ValueError(f"{len(known)} training points are too few for {self.neighbours} neighbours")
        return self._neighbourhood(known)

    def _neighbourhood(self, known: np.ndarray) -> tuple[Measure, float]:
        if self.distance == "tanimoto":
            prepare, far = lambda x: x, _tanimoto
        else:
            prepare, far = _standardise(known), _euclidean
        ready, k = prepare(known), self.neighbours

        def nearest(x: np.ndarray, skip: int) -> np.ndarray:
            return np.sort(np.partition(far(x, ready), k + skip - 1, axis=1)[:, : k + skip], axis=1)[:, skip:].mean(1)

        some = ready[np.linspace(0, len(ready) - 1, min(len(ready), REFERENCE)).astype(int)]
        own = np.concatenate([nearest(some[i : i + 100], 1) for i in range(0, len(some), 100)])
        return lambda x: nearest(prepare(x), 0), float(np.quantile(own, self.quantile))


def read_matrix(path: Path | None) -> np.ndarray:
    """A matrix of numbers from a `.npy` or `.csv` file. Raises ValueError where it is none."""
    assert path is not None
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False), dtype=float)
        with open(path, encoding="utf-8-sig") as file:
            first = file.readline()
        header = not _numeric(first)
        return np.loadtxt(path, delimiter=",", skiprows=int(header), ndmin=2, encoding="utf-8-sig")
    except ValueError as error:
        raise ValueError(f"{path} is no matrix of numbers: {error}") from None


def _numeric(line: str) -> bool:
    try:
        return bool([float(cell) for cell in line.split(",")])
    except ValueError:
        return False


def _standardise(known: np.ndarray) -> Measure:
    mean, spread = known.mean(axis=0), known.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)  # a column that never varied counts in its own unit
    return lambda x: (x - mean) / spread


def _euclidean(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    squares = (x**2).sum(1)[:, None] + (y**2).sum(1)[None, :] - 2 * x @ y.T
    return np.sqrt(np.maximum(squares, 0.0))


def _tanimoto(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    common = x @ y.T
    union = (x**2).sum(1)[:, None] + (y**2).sum(1)[None, :] - common
    return 1 - np.divide(common, union, out=np.ones_like(common), where=union > 0)


def _leverage(known: np.ndarray) -> tuple[Measure, float]:
    prepare = _standardise(known)

    def matrix(x: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(x)), prepare(x)])

    inverse = np.linalg.pinv(matrix(known).T @ matrix(known))
    limit = 3 * (known.shape[1] + 1) / len(known)
    return lambda x: np.einsum("ij,jk,ik->i", matrix(x), inverse, matrix(x)), limit
