"""REINVENT4's score transforms, from a component's own scale to 0…1.

Written from the formulas in its documentation: the sigmoids are to the base 10, with a slope of `k` per decade over the
range `low`…`high`; a range of no width is a step. An objective's desirabilities do the same for any verifier; these are
here so that a scoring configuration of REINVENT gives the numbers that it gave there.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from aliquot.verifiers.sdk import VerifierConfig


class _Range(VerifierConfig):
    low: FiniteFloat
    high: FiniteFloat

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low ({self.low:g}) is above high ({self.high:g})")
        return self


class Sigmoid(_Range):
    """Rises from 0 to 1 between `low` and `high`."""

    type: Literal["sigmoid"]
    k: FiniteFloat
    """Steepness."""

    def __call__(self, value: float) -> float:
        width = self.high - self.low
        distance = value - (self.low + self.high) / 2
        return _logistic(10 * self.k * distance / width) if width else float(self.k * distance > 0)


class ReverseSigmoid(Sigmoid):
    """Falls from 1 to 0 between `low` and `high`."""

    type: Literal["reverse_sigmoid"]  # type: ignore[assignment]

    def __call__(self, value: float) -> float:
        return 1.0 - super().__call__(value)


class DoubleSigmoid(_Range):
    """1 between `low` and `high`, 0 far from them."""

    type: Literal["double_sigmoid"]
    coef_div: FiniteFloat = 100.0
    """Common scale; 0 makes both sides steps."""
    coef_si: FiniteFloat = 150.0
    """Steepness on the left."""
    coef_se: FiniteFloat = 150.0
    """Steepness on the right."""

    def __call__(self, value: float) -> float:
        left = value < (self.low + self.high) / 2
        distance, steepness = (value - self.low, self.coef_si) if left else (value - self.high, self.coef_se)
        scaled = steepness * distance
        inside = _logistic(scaled / self.coef_div) if self.coef_div else float(scaled > 0)
        return inside if left else 1.0 - inside


class Step(_Range):
    """1 from `low` to `high`, else 0."""

    type: Literal["step"]

    def __call__(self, value: float) -> float:
        return float(self.low <= value <= self.high)


class RightStep(VerifierConfig):
    """1 from `high` upwards, else 0."""

    type: Literal["right_step"]
    high: FiniteFloat

    def __call__(self, value: float) -> float:
        return float(value >= self.high)


class LeftStep(VerifierConfig):
    """1 up to `low`, else 0."""

    type: Literal["left_step"]
    low: FiniteFloat

    def __call__(self, value: float) -> float:
        return float(value <= self.low)


class ExponentialDecay(VerifierConfig):
    """exp(−k·value), and 1 below 0."""

    type: Literal["exponential_decay"]
    k: FiniteFloat = Field(gt=0)

    def __call__(self, value: float) -> float:
        return 1.0 if value < 0 else math.exp(-self.k * value)


class ValueMapping(VerifierConfig):
    """A number for each category that the component names."""

    type: Literal["value_mapping"]
    mapping: dict[str, FiniteFloat] = Field(min_length=1)

    def __call__(self, value: object) -> float:
        """NaN, no score, for a category that the mapping does not have."""
        return self.mapping.get(str(value), math.nan)


Transform = Annotated[
    Sigmoid | ReverseSigmoid | DoubleSigmoid | Step | RightStep | LeftStep | ExponentialDecay | ValueMapping,
    Field(discriminator="type"),
]


def _logistic(decades: float) -> float:
    """1 / (1 + 10^−x), without overflow."""
    x = decades * math.log(10)
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x)) if x > -700 else 0.0
