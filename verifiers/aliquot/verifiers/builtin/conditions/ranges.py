"""Limits of single parameters, everywhere or only beside certain other values: "at most 60 °C when the base is NaH"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field, FiniteFloat, model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.conditions.reading import number, same, value
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class Limit(VerifierConfig):
    parameter: str = Field(min_length=1)
    """A numeric parameter of the design space."""
    low: FiniteFloat | None = None
    """Lowest value allowed, in the parameter's unit."""
    high: FiniteFloat | None = None
    """Highest value allowed."""
    unit: str = ""
    """Shown in messages."""
    when: dict[str, str | FiniteFloat] = {}
    """The limit holds only for designs with all of these values; empty: for every design."""

    @model_validator(mode="after")
    def _possible(self) -> Limit:
        if self.low is None and self.high is None:
            raise ValueError("give `low`, `high` or both")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low={self.low:g} is above high={self.high:g}: nothing can satisfy it")
        return self

    def breach(self, design: Design) -> str:
        """Why the design breaks this limit, or an empty text."""
        if not all(same(value(design, name), wanted) for name, wanted in self.when.items()):
            return ""
        found, unit = number(design, self.parameter), f" {self.unit}" * bool(self.unit)
        beside = f" when {', '.join(f'{k}={v}' for k, v in self.when.items())}" * bool(self.when)
        if self.low is not None and found < self.low and not same(found, self.low):
            return f"{self.parameter}={found:g}{unit} is below {self.low:g}{unit}{beside}"
        if self.high is not None and found > self.high and not same(found, self.high):
            return f"{self.parameter}={found:g}{unit} is above {self.high:g}{unit}{beside}"
        return ""


class RangesConfig(VerifierConfig):
    limits: tuple[Limit, ...] = Field(min_length=1)
    """All of them have to hold."""


class Ranges(PointwiseVerifier):
    """Share of the limits that hold, no unit: 0 to 1. Anything less than 1 is refused."""

    name, version = "ranges", "1"
    kinds = ("conditions",)
    bounds = (0.0, 1.0)
    needs = Needs(seconds=1)
    Config = RangesConfig
    example = {
        "limits": [
            {"parameter": "temperature", "low": 20, "high": 120, "unit": "degC"},
            {"parameter": "temperature", "high": 60, "when": {"base": "NaH"}},
        ]
    }
    fixtures = (
        Fixture.full("conditions", {"temperature": 120.0, "base": "K2CO3"}, at_least=1.0, accepted=True),
        Fixture.zero("conditions", {"temperature": 130.0, "base": "NaH"}, at_most=0.0, accepted=False),
        Fixture.malformed("conditions", {"base": "NaH"}),
        Fixture.malformed("conditions", {"temperature": "hot", "base": "NaH"}),
        Fixture.seeded("conditions", {"temperature": 80.0, "base": "NaH"}, at_least=0.5, at_most=0.5),
    )

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        limits = self.config.limits
        for design in designs:
            breaches = [breach for limit in limits if (breach := limit.breach(design))]
            yield Score(1 - len(breaches) / len(limits), not breaches, "; ".join(breaches), {"breaches": breaches})
