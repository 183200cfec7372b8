"""What a surrogate promises: fitted on designs and values, it gives mean, standard deviation and draws for any design.

The three agree: `mean` and `sd` are those of `draws` over its members. The draws are there to be pushed through a
function that is not linear, such as an objective. The same seed and the same data give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from aliquot.domain import AliquotError, Design


class SurrogateError(AliquotError, ValueError):
    """Data that a surrogate cannot learn from or predict for."""


class SurrogateNotReady(SurrogateError):
    """Asked before it has seen enough."""


@dataclass(frozen=True)
class Prediction:
    """In the unit of the values that it was fitted on."""

    mean: np.ndarray
    """float64 [n]."""
    sd: np.ndarray
    """float64 [n], one standard deviation of a new measurement of that design, its noise included."""
    draws: np.ndarray
    """float64 [members, n]."""


class Surrogate(Protocol):
    """A model of one assay."""

    def fit(self, designs: Sequence[Design], values: np.ndarray) -> None:
        """Learn from float [n], one value for each design, each design once, forgetting what was learned before.

        Raises:
            SurrogateError: fewer than two designs, a value that is not finite, or lengths that disagree.
        """
        ...

    def predict(self, designs: Sequence[Design]) -> Prediction:
        """Raises `SurrogateNotReady` before the first fit."""
        ...

    def out_of_bag(self) -> np.ndarray:
        """float64 [n]: the mean for each training design by the members that did not see it, in the order of `fit`.

        Raises:
            SurrogateNotReady: before the first fit.
        """
        ...
