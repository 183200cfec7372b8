"""A response surface over conditions, made up so that its best point is known.

    value = low + (high − low) · exp(−q),    q = dᵀ A d / 2 + Σ categorical penalties

With x the numeric parameters scaled to [0, 1] and o the optimum, d = (x − o) / width. A has ones on its diagonal and
`interaction` between neighbours in the declared order, so that a ridge runs across pairs of parameters; it is positive
definite for |interaction| ≤ 0.5 (eigenvalues 1 + 2ρ cos(kπ / (n + 1))). The optimum is drawn from `seed` among the
inner grid points of each parameter, so a design on the grid reaches exactly `high`. One choice of each categorical
parameter has penalty 0; the others have penalties drawn from U(0.2, 1.5).
"""

from __future__ import annotations

import hashlib
import math
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from aliquot.domain import Design, InvalidDesign
from aliquot.domain.spaces.conditions import Parameter
from aliquot.lab_adapters.simulated.truths.base import TruthConfig


class Surface(TruthConfig):
    """`high` at one point of the grid, falling smoothly towards `low` around it."""

    kinds: ClassVar[tuple[str, ...]] = ("conditions",)
    type: Literal["surface"] = "surface"
    parameters: tuple[Parameter, ...] = Field(min_length=1)
    """As in the campaign's design space."""
    seed: int = Field(default=0, ge=0)
    low: float = 0.0
    high: float = 100.0
    width: float = Field(default=0.35, gt=0)
    """Distance from the optimum, as a share of a parameter's range, at which q = 1/2."""
    interaction: float = Field(default=0.4, ge=-0.5, le=0.5)

    @model_validator(mode="after")
    def _consistent(self) -> Surface:
        names = [p.name for p in self.parameters]
        if len(set(names)) != len(names):
            raise ValueError("parameters must have different names")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low must be less than high, both finite; low={self.low}, high={self.high}")
        return self

    @cached_property
    def optimum(self) -> dict[str, str | float]:
        """The best design: value `high`."""
        best: dict[str, str | float] = {}
        for parameter in self.parameters:
            grid = parameter.grid()
            if parameter.type == "categorical":
                penalties = self._penalties(parameter.name, len(grid))
                best[parameter.name] = grid[int(np.argmin(penalties))]
            else:
                inner = grid[1:-1] or grid
                best[parameter.name] = inner[int(self._stream(parameter.name).integers(len(inner)))]
        return best

    def value(self, design: Design) -> float:
        if not isinstance(design.value, dict) or set(design.value) != {p.name for p in self.parameters}:
            raise InvalidDesign(f"the surface needs {', '.join(p.name for p in self.parameters)}, not {design.value!r}")
        distances, penalty = [], 0.0
        for parameter in self.parameters:
            value, grid = parameter.accept(design.value[parameter.name]), parameter.grid()
            if parameter.type == "categorical":
                penalty += self._penalties(parameter.name, len(grid))[grid.index(value)]  # type: ignore[arg-type]
            elif len(grid) > 1:
                span = float(grid[-1]) - float(grid[0])
                distances.append((float(value) - float(self.optimum[parameter.name])) / span / self.width)
        d = np.asarray(distances)
        quadratic = float(d @ d + 2 * self.interaction * (d[:-1] @ d[1:]))
        return self.low + (self.high - self.low) * math.exp(-quadratic / 2 - penalty)

    def _penalties(self, name: str, choices: int) -> np.ndarray:
        rng = self._stream(name)
        penalties = rng.uniform(0.2, 1.5, size=choices)
        penalties[int(rng.integers(choices))] = 0.0
        return penalties

    def _stream(self, name: str) -> np.random.Generator:
        return np.random.default_rng(int(hashlib.sha256(f"{self.seed}:{name}".encode()).hexdigest()[:32], 16))
