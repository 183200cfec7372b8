"""Kinetic emulator of a nucleophilic aromatic substitution in a plug-flow reactor.

2,4-Difluoronitrobenzene (1) and pyrrolidine (2) in ethanol give the wanted ortho product (3), the para isomer (4), and
from either the disubstituted product (5); every step is of second order:

    r_a = k_a [1][2]    1 + 2 → 3        r_c = k_c [3][2]    3 + 2 → 5
    r_b = k_b [1][2]    1 + 2 → 4        r_d = k_d [4][2]    4 + 2 → 5

with k(T) = k_ref exp(−E/R (1/T − 1/363.15 K)). Rate constants at 90 °C and activation energies: Hone, Holmes, Akien,
Bourne & Muller, React. Chem. Eng. 2, 103 (2017). Space-time yield and E-factor as Felton, Rittig & Lapkin,
Chemistry-Methods 1, 116 (2021) define them on this reaction; unlike their code, 0 °C is 273.15 K here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from aliquot.domain import Design
from aliquot.verifiers.builtin.conditions.reading import number
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

RATES = np.array([57.9, 2.70, 0.865, 1.63]) * 0.6
"""k_a to k_d at 90 °C, 1/(M min); published in 10⁻² /(M s)."""
ENERGIES = np.array([33.3, 35.3, 38.9, 44.8])
"""Activation energies, kJ/mol."""
GAS_CONSTANT = 8.314462618e-3
"""kJ/(mol K)"""
MASSES = np.array([159.09, 71.12, 210.21, 210.21, 261.33])
"""Molar masses of 1 to 5, g/mol."""
ETHANOL = 789.0
"""Density of ethanol at 20 °C, g/L."""
LARGEST = 1000.0
"""E-factor from which on it is not told apart: nothing was made."""
STUDIED = {
    "residence_time": (0.5, 2.0),
    "equivalents": (1.0, 5.0),
    "concentration": (0.1, 0.5),
    "temperature": (30, 120),
}
"""Where the kinetics are known: min, equivalents of pyrrolidine, M of substrate after mixing, °C."""
POSSIBLE = {
    "residence_time": (1e-6, 1e4),
    "equivalents": (1e-4, 1e4),
    "concentration": (1e-6, 20.0),
    "temperature": (-150.0, 400.0),
}
"""What a reactor could be set to at all, in the same units."""


class SnArConfig(VerifierConfig):
    output: Literal["space_time_yield", "e_factor", "yield"] = "space_time_yield"
    """What the score is. All three stand in `values`."""
    residence_time: str = "residence_time"
    """Parameter with the residence time, min."""
    equivalents: str = "equivalents"
    """Parameter with the equivalents of pyrrolidine."""
    concentration: str = "concentration"
    """Parameter with the concentration of 2,4-difluoronitrobenzene after mixing, M."""
    temperature: str = "temperature"
    """Parameter with the reactor's temperature, °C."""
    minimum: float | None = Field(default=None, allow_inf_nan=False)
    """Refuse designs whose score is below it; None: score only."""
    maximum: float | None = Field(default=None, allow_inf_nan=False)
    """Refuse designs whose score is above it; None: score only."""


class SnAr(PointwiseVerifier):
    """Space-time yield of the ortho product, kg/(m³ h), 0 upwards; or its yield, %; or the E-factor, kg/kg, to 1000.

    Outside the range in which the kinetics were studied a design is refused; its score is an extrapolation.
    """

    name, version = "snar", "1"
    kinds = ("conditions",)
    unit = "kg/(m3 h), % or kg/kg"
    bounds = (0.0, None)
    needs = Needs(seconds=5)
    Config = SnArConfig
    fixtures = (
        Fixture.full(
            "conditions",
            {"residence_time": 0.5, "equivalents": 2.0, "concentration": 0.5, "temperature": 90.0},
            at_least=9000.0,
            accepted=True,
        ),
        Fixture.zero(
            "conditions",
            {"residence_time": 2.0, "equivalents": 5.0, "concentration": 0.5, "temperature": 120.0},
            at_most=50.0,
        ),
        Fixture.malformed("conditions", {"residence_time": 1.0, "equivalents": 2.0, "concentration": 0.3}),
        Fixture.malformed(
            "conditions", {"residence_time": -1.0, "equivalents": 2.0, "concentration": 0.3, "temperature": 90.0}
        ),
        Fixture.seeded(
            "conditions", {"residence_time": 1.0, "equivalents": 2.0, "concentration": 0.3, "temperature": 90.0}
        ),
    )

    def __init__(self, config: SnArConfig):
        super().__init__(config)
        from scipy.integrate import solve_ivp

        self._solve = solve_ivp

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        config = self.config
        for design in designs:
            at = {name: number(design, getattr(config, name)) for name in STUDIED}
            for name, (low, high) in POSSIBLE.items():
                if not low <= at[name] <= high:
                    raise ValueError(f"{name}={at[name]:g} is no possible setting; {low:g} to {high:g} are")
            values = self.outcome(**at)
            score = values[config.output]
            reasons = [
                f"{name}={at[name]:g} is outside {low:g} to {high:g}, where the kinetics were studied"
                for name, (low, high) in STUDIED.items()
                if not low - 1e-9 <= at[name] <= high + 1e-9
            ]
            if config.minimum is not None and score < config.minimum:
                reasons.append(f"{config.output} {score:.4g} is below {config.minimum:g}")
            if config.maximum is not None and score > config.maximum:
                reasons.append(f"{config.output} {score:.4g} is above {config.maximum:g}")
            yield Score(score, not reasons, "; ".join(reasons), values)

    def outcome(self, residence_time: float, equivalents: float, concentration: float, temperature: float) -> dict:
        """What leaves the reactor: `yield` (%), `space_time_yield` (kg/(m³ h)), `e_factor` (kg/kg)."""
        start = [concentration, equivalents * concentration, 0.0, 0.0, 0.0]
        k = RATES * np.exp(-ENERGIES / GAS_CONSTANT * (1 / (temperature + 273.15) - 1 / 363.15))

        def rates(_: float, c: np.ndarray) -> list[float]:
            a, b, third, fourth = k * np.array([c[0], c[0], c[2], c[3]]) * c[1]
            return [-a - b, -a - b - third - fourth, a - third, b - fourth, third + fourth]

        solution = self._solve(rates, (0.0, residence_time), start, method="LSODA", rtol=1e-9, atol=1e-12)
        if not solution.success:
            raise ArithmeticError(f"the rate equations were not solved: {solution.message}")
        end = np.maximum(solution.y[:, -1], 0.0)
        grams = MASSES * end  # of each substance in a litre
        waste = ETHANOL + grams.sum() - grams[2]
        return {
            "yield": float(100 * end[2] / concentration),
            "space_time_yield": float(60 * grams[2] / residence_time),
            "e_factor": float(min(LARGEST, waste / max(grams[2], 1e-12))),
        }
