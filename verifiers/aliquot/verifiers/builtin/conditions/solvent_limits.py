"""Keeps the temperature below the solvent's boiling point under the pressure of the vessel, or below its flash point.

A sealed vessel raises the boiling point: the table is for 101.325 kPa, and the Clausius-Clapeyron equation with a
constant enthalpy carries it to the pressure given (within 3 K from 0.5 to 5 bar for what could be compared). Sources of
the table: `solvents`. In a mixture the most volatile solvent counts; azeotropes are not known here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Literal

from pydantic import Field, FiniteFloat

from aliquot.domain import Design
from aliquot.verifiers.builtin.conditions.reading import number, text
from aliquot.verifiers.builtin.conditions.solvents import SOLVENTS, Solvent, plain
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class OwnSolvent(VerifierConfig):
    boiling: FiniteFloat
    """Boiling point at 101.325 kPa, °C."""
    enthalpy: FiniteFloat | None = Field(default=None, gt=0)
    """Enthalpy of vaporisation at the boiling point, kJ/mol; None: Trouton's rule."""
    flash: FiniteFloat | None = None
    """Flash point, closed cup, °C."""


class SolventLimitsConfig(VerifierConfig):
    solvents: tuple[str, ...] = Field(default=("solvent",), min_length=1)
    """Parameters that name a solvent."""
    temperature: str = "temperature"
    """Parameter with the temperature, °C."""
    limit: Literal["boiling", "flash"] = "boiling"
    """What not to exceed: the boiling point, or the flash point (closed cup)."""
    margin: FiniteFloat = Field(default=0.0, ge=0)
    """Distance to keep from the limit, K."""
    pressure: FiniteFloat = Field(default=1.01325, ge=0.5, le=5)
    """Absolute pressure in the vessel, bar."""
    none: tuple[str, ...] = ("none",)
    """Values that stand for no solvent."""
    own: dict[str, OwnSolvent] = {}
    """Solvents that the table lacks, or has otherwise."""


class SolventLimits(PointwiseVerifier):
    """Distance of the temperature from the solvent's limit, K: positive below it, negative above, at most 1000."""

    name, version = "solvent_limits", "1"
    kinds = ("conditions",)
    unit = "K"
    bounds = (None, 1000.0)
    needs = Needs(seconds=1)
    Config = SolventLimitsConfig
    example = {"margin": 5}
    fixtures = (
        Fixture.full("conditions", {"solvent": "DMSO", "temperature": 25.0}, 164.0, at_most=164.0, accepted=True),
        Fixture.zero("conditions", {"solvent": "diethyl ether", "temperature": 134.5}, -100.0, accepted=False),
        Fixture.malformed("conditions", {"solvent": "tolune", "temperature": 25.0}),
        Fixture.malformed("conditions", {"solvent": 3.0, "temperature": 25.0}),
        Fixture.seeded("conditions", {"solvent": "THF", "temperature": 62.0}, accepted=False),
    )

    def __init__(self, config: SolventLimitsConfig):
        super().__init__(config)
        self._none = {plain(name) for name in config.none}
        own = {plain(n): Solvent(n, s.boiling, s.enthalpy, s.flash) for n, s in config.own.items()}
        self._known = {**SOLVENTS, **own}

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        for design in designs:
            temperature = number(design, self.config.temperature)
            names = [name for name in self.config.solvents if plain(text(design, name)) not in self._none]
            limits = {solvent.name: self._limit(solvent) for solvent in (self._find(text(design, n)) for n in names)}
            first = min(limits, key=limits.__getitem__, default="")
            room = min(limits.get(first, math.inf) - temperature, 1000.0)
            accepted = room >= self.config.margin
            at = "" if self.config.limit == "flash" else f" at {self.config.pressure:g} bar"
            point = {"boiling": "boils", "flash": "has its flash point"}[self.config.limit]
            reason = f"{temperature:g} °C, but {first} {point}{at} at {limits[first]:.1f} °C" if not accepted else ""
            if not accepted and self.config.margin:
                reason += f", and {self.config.margin:g} K are to be kept"
            yield Score(room, accepted, reason, {"solvent": first})

    def _find(self, name: str) -> Solvent:
        if (key := plain(name)) in self._known:
            return self._known[key]
        near = get_close_matches(key, self._known, n=1, cutoff=0.75)
        hint = f"did you mean {self._known[near[0]].name!r}? " if near else ""
        raise ValueError(f"the table has no solvent {name!r}; {hint}add it under `own` with its boiling point")

    def _limit(self, solvent: Solvent) -> float:
        if self.config.limit == "boiling":
            return solvent.boiling_at(self.config.pressure)
        if solvent.flash is None:
            raise ValueError(f"no flash point of {solvent.name} is tabulated; add it under `own`")
        return solvent.flash
