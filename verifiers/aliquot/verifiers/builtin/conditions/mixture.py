"""Parts that must add up: mole fractions to one, volumes to that of the vial, percentages to a hundred."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pydantic import Field, FiniteFloat, field_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.conditions.reading import number
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class Group(VerifierConfig):
    parameters: tuple[str, ...] = Field(min_length=2)
    """The parts, all in one unit."""
    total: FiniteFloat = 1.0
    """What they add up to."""
    tolerance: FiniteFloat = Field(default=1e-6, ge=0)
    """How far the sum may be off."""
    most: int | None = Field(default=None, ge=1)
    """How many parts may be more than nothing; None: all."""

    @field_validator("parameters")
    @classmethod
    def _different(cls, parameters: tuple[str, ...]) -> tuple[str, ...]:
        if twice := sorted({name for name in parameters if parameters.count(name) > 1}):
            raise ValueError(f"each part stands once; twice: {', '.join(twice)}")
        return parameters


class MixtureConfig(VerifierConfig):
    groups: tuple[Group, ...] = Field(min_length=1)
    """Each adds up by itself."""


class Mixture(PointwiseVerifier):
    """Largest distance of a sum from its total, in the unit of the parts: 0 upwards. A negative part is refused."""

    name, version = "mixture", "1"
    kinds = ("conditions",)
    bounds = (0.0, None)
    needs = Needs(seconds=1)
    Config = MixtureConfig
    example = {"groups": [{"parameters": ["water", "ethanol", "acetone"], "total": 1.0, "tolerance": 0.01, "most": 2}]}
    fixtures = (
        Fixture.full("conditions", {"water": 0.7, "ethanol": 0.3, "acetone": 0.0}, 0.0, at_most=0.0, accepted=True),
        Fixture.zero("conditions", {"water": 0.7, "ethanol": 0.7, "acetone": 0.0}, 0.4, at_least=0.4, accepted=False),
        Fixture.malformed("conditions", {"water": 0.7, "ethanol": 0.3}),
        Fixture.malformed("conditions", {"water": 1.7, "ethanol": -0.7, "acetone": 0.0}),
        Fixture.seeded("conditions", {"water": 0.5, "ethanol": 0.3, "acetone": 0.2}, accepted=False),
    )

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        for design in designs:
            worst, reasons = 0.0, []
            for group in self.config.groups:
                parts = {name: number(design, name) for name in group.parameters}
                off = abs(math.fsum(parts.values()) - group.total)
                worst = max(worst, off)
                if off > group.tolerance * (1 + 1e-9):
                    reasons.append(f"{' + '.join(parts)} = {math.fsum(parts.values()):g}, not {group.total:g}")
                reasons += [f"{name}={part:g} is negative" for name, part in parts.items() if part < 0]
                present = [name for name, part in parts.items() if part > 0]
                if group.most is not None and len(present) > group.most:
                    reasons.append(f"{len(present)} parts, at most {group.most} allowed: {', '.join(present)}")
            yield Score(worst, not reasons, "; ".join(reasons))
