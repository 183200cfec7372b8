"""What must not stand together, with the reason a chemist would give.

A rule names either the values of parameters (a name, several names, a number, or a span of numbers, all of which must
match) or substances that must not meet whatever parameter holds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field, FiniteFloat, model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.conditions.reading import number, same, settings, value
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class Span(VerifierConfig):
    """Numbers from `low` to `high`, both included; one of them may be left out."""

    low: FiniteFloat | None = None
    """None: no lower end."""
    high: FiniteFloat | None = None
    """None: no upper end."""

    @model_validator(mode="after")
    def _possible(self) -> Span:
        if self.low is None and self.high is None:
            raise ValueError("give `low`, `high` or both")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low={self.low:g} is above high={self.high:g}: nothing can match it")
        return self


class Rule(VerifierConfig):
    values: dict[str, str | FiniteFloat | Span | tuple[str | FiniteFloat, ...]] = {}
    """By parameter; the rule applies to a design that matches all of them."""
    together: tuple[str, ...] = ()
    """Substances; the rule applies to a design that has all of them, in any parameters."""
    reason: str = Field(min_length=1)
    """Why, for the person who reads the verdict."""

    @model_validator(mode="after")
    def _one_way(self) -> Rule:
        if bool(self.values) == bool(self.together):
            raise ValueError("give either `values` or `together`")
        if self.together and len(set(self.together)) < 2:
            raise ValueError("`together` names two or more different substances")
        return self

    def applies(self, design: Design) -> bool:
        if self.together:
            return set(self.together) <= {v for v in settings(design).values() if isinstance(v, str)}
        return all(_matches(design, name, wanted) for name, wanted in self.values.items())


class IncompatibilityConfig(VerifierConfig):
    rules: tuple[Rule, ...] = Field(min_length=1)
    """Any of them that applies refuses the design."""


class Incompatibility(PointwiseVerifier):
    """Number of rules that are broken, 0 upwards; `values["broken"]` gives their reasons."""

    name, version = "incompatibility", "1"
    kinds = ("conditions",)
    bounds = (0.0, None)
    needs = Needs(seconds=1)
    Config = IncompatibilityConfig
    example = {
        "rules": [
            {"together": ["NaH", "DMF"], "reason": "NaH in DMF decomposes violently on warming"},
            {"values": {"base": ["nBuLi", "LDA"], "temperature": {"low": 0}}, "reason": "lithium bases are used cold"},
        ]
    }
    fixtures = (
        Fixture.full("conditions", {"base": "NaH", "solvent": "THF", "temperature": 60.0}, 0.0, at_most=0.0),
        Fixture.zero("conditions", {"base": "LDA", "solvent": "THF", "temperature": 25.0}, 1.0, accepted=False),
        Fixture.malformed("conditions", {"solvent": "THF"}),
        Fixture.seeded("conditions", {"base": "NaH", "solvent": "DMF", "temperature": 25.0}, at_least=1, at_most=1),
    )

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        for design in designs:
            broken = [rule.reason for rule in self.config.rules if rule.applies(design)]
            yield Score(float(len(broken)), not broken, "; ".join(broken), {"broken": broken})


def _matches(design: Design, name: str, wanted: Any) -> bool:
    if isinstance(wanted, Span):
        found = number(design, name)
        return (wanted.low is None or found >= wanted.low) and (wanted.high is None or found <= wanted.high)
    options = wanted if isinstance(wanted, tuple) else (wanted,)
    return any(same(value(design, name), option) for option in options)
