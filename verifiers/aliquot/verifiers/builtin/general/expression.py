"""A formula over the parameters of a design and values of the campaign's own: "yield_model * 2 - cost / 10".

A table turns the names that a parameter can have into numbers, e.g. solvents into permittivities. The language is that
of `arithmetic`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field, FiniteFloat, field_validator, model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.conditions.reading import settings
from aliquot.verifiers.builtin.general.arithmetic import CONSTANTS, FUNCTIONS, evaluate, names, parse
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class Table(VerifierConfig):
    parameter: str = Field(min_length=1)
    """The parameter whose names are looked up."""
    values: dict[str, FiniteFloat] = Field(min_length=1)
    """The number for each name."""


class ExpressionConfig(VerifierConfig):
    expression: str = Field(min_length=1)
    """E.g. `rate * exp(-energy / (0.008314 * (temperature + 273.15))) if base != "none" else 0`."""
    constants: dict[str, FiniteFloat] = {}
    """Numbers by the name that the expression uses."""
    tables: dict[str, Table] = {}
    """By the name that the expression uses."""
    unit: str = ""
    """Of the result, for messages."""
    minimum: FiniteFloat | None = None
    """Refuse designs below it; None: no limit."""
    maximum: FiniteFloat | None = None
    """Refuse designs above it; None: no limit."""

    @field_validator("expression")
    @classmethod
    def _parses(cls, expression: str) -> str:
        parse(expression)
        return expression

    @model_validator(mode="after")
    def _named(self) -> ExpressionConfig:
        if twice := sorted(self.constants.keys() & self.tables.keys()):
            raise ValueError(f"{', '.join(twice)} is both a constant and a table")
        own = self.constants.keys() | self.tables.keys()
        if taken := sorted(own & (FUNCTIONS.keys() | CONSTANTS.keys())):
            raise ValueError(f"{', '.join(taken)} has a meaning in the language; take another name")
        if unused := sorted(own - names(parse(self.expression))):
            raise ValueError(f"the expression does not use {', '.join(unused)}")
        return self


class Expression(PointwiseVerifier):
    """The value of the expression, in the unit that the campaign gives it; a comparison is 1 or 0."""

    name, version = "expression", "1"
    kinds = ("conditions",)
    unit = "the campaign's"
    needs = Needs(seconds=1)
    Config = ExpressionConfig
    example = {
        "expression": 'polarity * (1 + loading) / 2 if base != "none" else -1',
        "constants": {},
        "tables": {"polarity": {"parameter": "solvent", "values": {"DMF": 36.7, "toluene": 2.4}}},
        "minimum": 0,
    }
    fixtures = (
        Fixture.full(
            "conditions", {"solvent": "DMF", "loading": 1.0, "base": "NaH"}, 36.7, at_most=36.7, accepted=True
        ),
        Fixture.zero("conditions", {"solvent": "DMF", "loading": 1.0, "base": "none"}, -1.0, accepted=False),
        Fixture.malformed("conditions", {"solvent": "DMF", "base": "NaH"}),
        Fixture.malformed("conditions", {"solvent": "hexane", "loading": 1.0, "base": "NaH"}),
        Fixture.malformed("conditions", {"solvent": "DMF", "loading": "much", "base": "NaH"}),
        Fixture.seeded("conditions", {"solvent": "toluene", "loading": 0.25, "base": "NaH"}, at_least=1.5, at_most=1.5),
    )

    def __init__(self, config: ExpressionConfig):
        super().__init__(config)
        self._tree = parse(config.expression)
        self._needed = names(self._tree) - config.constants.keys() - config.tables.keys()

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        config = self.config
        for design in designs:
            score = evaluate(self._tree, {**self._settings(design), **config.constants})
            reason = ""
            if config.minimum is not None and score < config.minimum:
                reason = f"{score:g} {config.unit}".strip() + f" is below {config.minimum:g}"
            if config.maximum is not None and score > config.maximum:
                reason = f"{score:g} {config.unit}".strip() + f" is above {config.maximum:g}"
            yield Score(score, not reason, reason)

    def _settings(self, design: Design) -> dict[str, float | str]:
        held = dict(settings(design))
        wanted = self._needed | {table.parameter for table in self.config.tables.values()}
        if missing := sorted(wanted - held.keys()):
            raise ValueError(f"no parameter {', '.join(missing)}; the design has {', '.join(held)}")
        found = {name: held[name] for name in self._needed}
        for name, table in self.config.tables.items():
            if held[table.parameter] not in table.values:
                known = ", ".join(table.values)
                raise ValueError(f"table {name} has no {table.parameter} {held[table.parameter]!r}; it has {known}")
            found[name] = table.values[held[table.parameter]]
        return found
