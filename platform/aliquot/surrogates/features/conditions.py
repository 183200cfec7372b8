"""Conditions as numbers: numeric parameters scaled to [0, 1] over their range, categorical ones one-hot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aliquot.domain import ConditionsSpace, Design
from aliquot.surrogates.protocol import SurrogateError


def conditions_features(space: ConditionsSpace):
    """A function from n designs to float32 [n, numeric parameters + choices of the categorical ones]."""
    grids = {parameter.name: parameter.grid() for parameter in space.parameters}
    categorical = {parameter.name for parameter in space.parameters if parameter.type == "categorical"}
    width = sum(len(grid) if name in categorical else 1 for name, grid in grids.items())

    def row(design: Design) -> list[float]:
        if not isinstance(design.value, dict):
            raise SurrogateError(f"{design.text!r} is not a set of conditions")
        numbers: list[float] = []
        for name, grid in grids.items():
            value = design.value[name]
            if name in categorical:
                numbers += [float(value == choice) for choice in grid]
            else:
                low, high = float(grid[0]), float(grid[-1])
                numbers.append((float(value) - low) / (high - low) if high > low else 0.0)  # type: ignore[arg-type]
        return numbers

    def features(designs: Sequence[Design]) -> np.ndarray:
        return np.asarray([row(design) for design in designs], dtype=np.float32).reshape(len(designs), width)

    return features
