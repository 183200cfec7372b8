"""The Objective: what is wanted, as desirabilities in [0, 1] joined to one number.

Desirability follows Derringer and Suich (J. Qual. Technol. 12, 214, 1980): zero at and beyond the unwanted end, one at
and beyond the wanted end, a power of the linear fraction between. A window is one between its inner limits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from aliquot.domain.base import Noun


class Ramp(Noun):
    """0 at `low`, 1 at `high` (maximise), or the reverse (minimise)."""

    type: Literal["ramp"] = "ramp"
    low: float
    high: float
    power: float = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _ordered(self):
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low must be less than high, both finite; low={self.low}, high={self.high}")
        return self

    def of(self, value: np.ndarray, maximise: bool) -> np.ndarray:
        fraction = np.clip((value - self.low) / (self.high - self.low), 0.0, 1.0)
        return (fraction if maximise else 1.0 - fraction) ** self.power


class Window(Noun):
    """1 between `low` and `high`, falling linearly to 0 over `tolerance` on either side."""

    type: Literal["window"] = "window"
    low: float
    high: float
    tolerance: float = Field(gt=0)

    @model_validator(mode="after")
    def _ordered(self):
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ValueError(f"low must not be above high, both finite; low={self.low}, high={self.high}")
        return self

    def of(self, value: np.ndarray, maximise: bool) -> np.ndarray:
        outside = np.maximum(np.maximum(self.low - value, value - self.high), 0.0)
        return np.clip(1.0 - outside / self.tolerance, 0.0, 1.0)


Desirability = Annotated[Ramp | Window, Field(discriminator="type")]


class Target(Noun):
    """One thing wanted: an assay of the lab or the score of a verifier."""

    assay: str | None = None
    verifier: str | None = None
    direction: Literal["maximise", "minimise"] = "maximise"
    desirability: Desirability
    weight: float = Field(default=1.0, gt=0)
    failure_value: float | None = None
    """What a reported lab failure of this assay counts as, in the assay's unit; None: desirability 0."""

    @model_validator(mode="after")
    def _one_source(self):
        if (self.assay is None) == (self.verifier is None):
            raise ValueError("a target names either an `assay` of the lab or a `verifier` of the campaign")
        return self

    @property
    def name(self) -> str:
        return self.assay or self.verifier  # type: ignore[return-value]


class Objective(Noun):
    """Targets joined to one number in [floor, 1]."""

    targets: tuple[Target, ...] = Field(min_length=1)
    combine: Literal["geometric", "arithmetic"] = "geometric"
    """Weighted mean of the desirabilities. Geometric: one zero makes the whole zero."""
    floor: float = Field(default=0.0, ge=0.0, le=1.0)
    """The reward of an invalid or refused design, and the least any design gets."""

    @model_validator(mode="after")
    def _different(self):
        names = [t.name for t in self.targets]
        if len(set(names)) != len(names):
            raise ValueError("each assay or verifier may be a target once")
        return self

    @property
    def assays(self) -> tuple[str, ...]:
        return tuple(t.assay for t in self.targets if t.assay)

    @property
    def scores(self) -> tuple[str, ...]:
        """Verifiers whose score is a target."""
        return tuple(t.verifier for t in self.targets if t.verifier)

    def value(self, values: Mapping[str, np.ndarray | float]) -> np.ndarray:
        """The objective of complete values.

        Args:
            values: by target name, each [n] or a scalar, in the target's own unit; NaN stands for a reported failure.

        Returns:
            float64 [n] (or [] for scalars) in [floor, 1].

        Raises:
            KeyError: a target has no value.
        """
        parts, weights = [], []
        for target in self.targets:
            value = np.asarray(values[target.name], dtype=float)
            if target.failure_value is not None:
                value = np.where(np.isnan(value), target.failure_value, value)
            good = target.desirability.of(value, target.direction == "maximise")
            parts.append(np.where(np.isnan(good), 0.0, good))
            weights.append(target.weight)
        stacked, w = np.stack(np.broadcast_arrays(*parts)), np.asarray(weights) / sum(weights)
        w = w.reshape(-1, *[1] * (stacked.ndim - 1))
        if self.combine == "arithmetic":
            joined = (stacked * w).sum(0)
        else:
            with np.errstate(divide="ignore"):
                joined = np.exp((np.log(stacked) * w).sum(0))
        return np.clip(joined, self.floor, 1.0)
