"""Reaction and process conditions: categorical, discrete and continuous parameters on a declared grid.

One token per (parameter, level), in the declared order, so a design is a fixed number of tokens and a position mask
makes every sample well-formed. Continuous parameters are proposed on `levels` evenly spaced points; a person's
proposal between two points is kept as written and encoded as the nearest one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from aliquot.domain.base import Noun
from aliquot.domain.design import Design
from aliquot.domain.errors import InvalidDesign
from aliquot.domain.spaces.codec import EOS, SPECIAL_TOKENS, body_of

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Categorical(Noun):
    """One of a list of names, e.g. solvents."""

    type: Literal["categorical"] = "categorical"
    name: Name
    choices: tuple[str, ...] = Field(min_length=1, max_length=1000)

    @field_validator("choices")
    @classmethod
    def _unique(cls, choices):
        if len(set(choices)) != len(choices):
            raise ValueError("choices must differ from each other")
        return choices

    def grid(self) -> tuple[str, ...]:
        return self.choices

    def accept(self, value: Any) -> str:
        if value not in self.choices:
            raise InvalidDesign(f"{self.name}={value!r} is not one of {', '.join(self.choices)}")
        return value


class Discrete(Noun):
    """One of a list of numbers, e.g. the concentrations on the shelf."""

    type: Literal["discrete"] = "discrete"
    name: Name
    unit: str = ""
    values: tuple[float, ...] = Field(min_length=1, max_length=1000)

    @field_validator("values")
    @classmethod
    def _sorted(cls, values):
        if len(set(values)) != len(values) or not all(map(math.isfinite, values)):
            raise ValueError("values must be finite and differ from each other")
        return tuple(sorted(values))

    def grid(self) -> tuple[float, ...]:
        return self.values

    def accept(self, value: Any) -> float:
        number = _number(self.name, value)
        for allowed in self.values:
            if math.isclose(number, allowed, rel_tol=1e-9, abs_tol=1e-12):
                return allowed
        raise InvalidDesign(
            f"{self.name}={value!r} is not one of {', '.join(map(str, self.values))} {self.unit}".strip()
        )


class Continuous(Noun):
    """A number between two limits, e.g. a temperature."""

    type: Literal["continuous"] = "continuous"
    name: Name
    unit: str = ""
    low: float
    high: float
    levels: int = Field(default=33, ge=2, le=1000)
    """Grid points that a policy may propose, both limits included."""

    @model_validator(mode="after")
    def _ordered(self):
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low must be less than high, both finite; low={self.low}, high={self.high}")
        return self

    def grid(self) -> tuple[float, ...]:
        return tuple(float(f"{x:.12g}") for x in np.linspace(self.low, self.high, self.levels))

    def accept(self, value: Any) -> float:
        number = _number(self.name, value)
        slack = 1e-9 * max(abs(self.low), abs(self.high))  # grid points are rounded to 12 digits
        if not self.low - slack <= number <= self.high + slack:
            raise InvalidDesign(f"{self.name}={value!r} lies outside {self.low} to {self.high} {self.unit}".strip())
        return float(f"{number:.12g}")


Parameter = Annotated[Categorical | Discrete | Continuous, Field(discriminator="type")]


class LinearConstraint(Noun):
    """low ≤ Σ weight · parameter ≤ high over numeric parameters, e.g. a mixture that sums to one."""

    weights: dict[str, float] = Field(min_length=1)
    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _possible(self):
        if self.low is None and self.high is None:
            raise ValueError("give `low`, `high` or both")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low={self.low} is above high={self.high}: nothing can satisfy it")
        return self


class ConditionsSpace(Noun):
    """Which settings may be proposed."""

    type: Literal["conditions"] = "conditions"
    parameters: tuple[Parameter, ...] = Field(min_length=1)
    constraints: tuple[LinearConstraint, ...] = ()
    forbidden: tuple[dict[str, str | float], ...] = ()
    """Combinations that must not be made: a design that matches every entry of one of these is invalid."""
    seeds: tuple[dict[str, str | float], ...] = ()
    """Known settings to propose before anything else."""

    @model_validator(mode="after")
    def _consistent(self):
        names = [p.name for p in self.parameters]
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(f"parameters must have different names; twice: {', '.join(sorted(twice))}")
        numeric = {p.name for p in self.parameters if p.type != "categorical"}
        for i, constraint in enumerate(self.constraints):
            if unknown := set(constraint.weights) - numeric:
                raise ValueError(
                    f"constraints[{i}] names {', '.join(sorted(unknown))}; numeric ones: {sorted(numeric)}"
                )
        for i, combination in enumerate(self.forbidden):
            if unknown := set(combination) - set(names):
                raise ValueError(f"forbidden[{i}] names {', '.join(sorted(unknown))}; parameters: {', '.join(names)}")
            for parameter in (p for p in self.parameters if p.name in combination):
                given = combination[parameter.name]
                try:
                    value = parameter.accept(given)
                except InvalidDesign as error:
                    raise ValueError(f"forbidden[{i}] could never match: {error}") from None
                if value != given:
                    raise ValueError(f"forbidden[{i}] could never match: write {parameter.name} as {value!r}")
        for i, seed in enumerate(self.seeds):
            try:
                self.design(seed)
            except InvalidDesign as error:
                raise ValueError(f"seeds[{i}]: {error}") from None
        if not self._some_design_exists():
            raise ValueError("the design space is empty: no combination satisfies the constraints and forbidden list")
        return self

    def _some_design_exists(self) -> bool:
        """Looks at up to 20,000 grid points, all of them where there are no more."""
        grids = [p.grid() for p in self.parameters]
        total, rng = math.prod(map(len, grids)), np.random.default_rng(0)
        for i in range(min(total, 20_000)):
            index = i if total <= 20_000 else None
            picks = []
            for grid in grids:
                if index is None:
                    picks.append(grid[int(rng.integers(len(grid)))])
                else:
                    index, digit = divmod(index, len(grid))
                    picks.append(grid[digit])
            if self._violation(dict(zip([p.name for p in self.parameters], picks, strict=True))) is None:
                return True
        return total > 20_000

    def _violation(self, value: dict[str, Any]) -> str | None:
        for constraint in self.constraints:
            total = sum(weight * value[name] for name, weight in constraint.weights.items())
            low = -math.inf if constraint.low is None else constraint.low
            high = math.inf if constraint.high is None else constraint.high
            if not low - 1e-9 <= total <= high + 1e-9:
                return f"{constraint.weights} gives {total:g}, outside {low:g} to {high:g}"
        for combination in self.forbidden:
            if all(value[name] == wanted for name, wanted in combination.items()):
                return f"the combination {combination} is forbidden"
        return None

    def design(self, value: Any) -> Design:
        """The design that a mapping of parameter names to values names.

        Raises:
            InvalidDesign: a parameter is missing, unknown or out of range, or a constraint does not hold.
        """
        if not isinstance(value, dict):
            raise InvalidDesign(f"conditions are written as a mapping of parameter names to values, not {value!r}")
        names = [p.name for p in self.parameters]
        missing, unknown = set(names) - set(value), set(value) - set(names)
        if missing or unknown:
            parts = [f"missing: {', '.join(sorted(missing))}"] * bool(missing)
            parts += [f"unknown: {', '.join(sorted(map(str, unknown)))}"] * bool(unknown)
            raise InvalidDesign(f"{'; '.join(parts)}; the parameters are {', '.join(names)}")
        accepted = {p.name: p.accept(value[p.name]) for p in self.parameters}
        if violation := self._violation(accepted):
            raise InvalidDesign(violation)
        return Design(kind="conditions", value=accepted)

    def codec(self) -> ConditionsCodec:
        return ConditionsCodec(self)


class ConditionsCodec:
    """Conditions ↔ one token per parameter."""

    def __init__(self, space: ConditionsSpace):
        self.space = space
        self.grids = [p.grid() for p in space.parameters]
        self.offsets = np.cumsum([len(SPECIAL_TOKENS), *map(len, self.grids)])
        named = [f"{p.name}={v}" for p, grid in zip(space.parameters, self.grids, strict=True) for v in grid]
        self.vocabulary: tuple[str, ...] = (*SPECIAL_TOKENS, *named)
        self.max_tokens = len(self.grids) + 1

    def encode(self, design: Design) -> list[int]:
        assert isinstance(design.value, dict)
        ids = []
        for parameter, grid, offset in zip(self.space.parameters, self.grids, self.offsets, strict=False):
            value = design.value[parameter.name]
            if parameter.type == "categorical":
                level = grid.index(value)  # type: ignore[arg-type]
            else:
                level = int(np.argmin(np.abs(np.asarray(grid, dtype=float) - float(value))))  # type: ignore[arg-type]
            ids.append(int(offset) + level)
        return [*ids, EOS]

    def decode(self, ids: Sequence[int]) -> Design:
        body = body_of(ids)
        if len(body) != len(self.grids):
            raise InvalidDesign(f"{len(body)} values for {len(self.grids)} parameters")
        value = {}
        for parameter, grid, offset, i in zip(self.space.parameters, self.grids, self.offsets, body, strict=False):
            if not offset <= i < offset + len(grid):
                raise InvalidDesign(f"token {i} is not a value of {parameter.name}")
            value[parameter.name] = grid[i - offset]
        return self.space.design(value)

    def position_mask(self) -> np.ndarray:
        mask = np.zeros((self.max_tokens, len(self.vocabulary)), dtype=bool)
        for row, grid, offset in zip(mask, self.grids, self.offsets, strict=False):
            row[offset : offset + len(grid)] = True
        mask[-1, EOS] = True
        return mask


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidDesign(f"{name}={value!r} is not a finite number")
    return float(value)
