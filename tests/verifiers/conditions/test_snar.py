"""The kinetic emulator against closed forms, against conservation, and against an independent implementation."""

from __future__ import annotations

import math

import pytest

from aliquot.domain import Design
from aliquot.verifiers.builtin.conditions.snar import MASSES, SnAr, SnArConfig
from aliquot.verifiers.sdk import Score


def judge(config: dict | None = None, **at: float) -> Score:
    verifier = SnAr(SnArConfig.model_validate(config or {}))
    (score,) = verifier.verify([Design(kind="conditions", value=at)])
    return score


@pytest.mark.parametrize(
    ("tau", "equivalents", "concentration", "space_time_yield", "e_factor"),
    [
        # Summit 0.8.9 (sustainable-processes/summit, `SnarBenchmark`, its own tolerances) at 90 °C, where the offset of
        # its Kelvin scale has no effect
        (1.0, 2.0, 0.3, 3141.16, 15.6674),
    ],
)
def test_it_gives_what_the_published_benchmark_gives(tau, equivalents, concentration, space_time_yield, e_factor):
    at = {"residence_time": tau, "equivalents": equivalents, "concentration": concentration, "temperature": 90.0}
    values = judge(**at).values
    assert values["space_time_yield"] == pytest.approx(space_time_yield, rel=1e-3)
    assert values["e_factor"] == pytest.approx(e_factor, rel=1e-3)


def test_with_a_large_excess_it_is_a_chain_of_first_order_reactions():
    """[2] barely changes, so [3] follows Bateman's closed form for 1 → 3 → 5 beside 1 → 4."""
    equivalents, concentration, minutes = 2000.0, 1e-4, 0.5
    values = judge(
        residence_time=minutes, equivalents=equivalents, concentration=concentration, temperature=90.0
    ).values
    excess = equivalents * concentration
    a, b, c = (0.6 * k * excess for k in (57.9, 2.70, 0.865))
    expected = 100 * a / (c - a - b) * (math.exp(-(a + b) * minutes) - math.exp(-c * minutes))
    assert values["yield"] == pytest.approx(expected, rel=2e-3)


def test_rates_follow_arrhenius():
    """At low conversion the yield grows as k_a; 33.3 kJ/mol from 90 to 60 °C."""
    at = {"residence_time": 1e-4, "equivalents": 1.0, "concentration": 0.01}
    ratio = judge(temperature=60.0, **at).values["yield"] / judge(temperature=90.0, **at).values["yield"]
    assert ratio == pytest.approx(math.exp(-33.3 / 8.314462618e-3 * (1 / 333.15 - 1 / 363.15)), rel=1e-3)


def test_the_masses_are_those_of_the_formulas():
    """C6H3F2NO2, C4H9N, and what remains when HF leaves once and twice."""
    hydrogen_fluoride = 1.008 + 18.998
    assert MASSES[0] == pytest.approx(6 * 12.011 + 3 * 1.008 + 2 * 18.998 + 14.007 + 2 * 15.999, abs=0.02)
    assert MASSES[2] == pytest.approx(MASSES[0] + MASSES[1] - hydrogen_fluoride, abs=0.02)
    assert MASSES[4] == pytest.approx(MASSES[2] + MASSES[1] - hydrogen_fluoride, abs=0.02)


def test_the_score_is_the_output_asked_for_and_is_held_to_its_limits():
    at = {"residence_time": 1.0, "equivalents": 2.0, "concentration": 0.3, "temperature": 90.0}
    assert judge({"output": "yield"}, **at).score == pytest.approx(100 * 0.249051530 / 0.3, rel=1e-4)
    assert judge({"output": "e_factor", "maximum": 15}, **at).accepted is False
    assert "space_time_yield 3141 is below 4000" in judge({"minimum": 4000}, **at).reason


def test_outside_what_was_studied_it_refuses_and_without_a_reaction_the_e_factor_is_bounded():
    cold = judge(residence_time=0.5, equivalents=1.0, concentration=0.1, temperature=-78.0)
    assert not cold.accepted and "temperature=-78 is outside 30 to 120" in cold.reason
    nothing = judge(residence_time=1e-6, equivalents=1.0, concentration=0.1, temperature=30.0)
    assert nothing.values["e_factor"] == 1000


@pytest.mark.parametrize(
    "wrong", [{"residence_time": 1e-300}, {"equivalents": -1.0}, {"concentration": 1e300}, {"temperature": -300.0}]
)
def test_an_impossible_setting_is_an_error(wrong):
    at = {"residence_time": 1.0, "equivalents": 2.0, "concentration": 0.3, "temperature": 90.0}
    with pytest.raises(ValueError, match="no possible setting"):
        judge(**{**at, **wrong})


def test_parameters_may_have_other_names():
    config = {"residence_time": "tau", "equivalents": "equiv_pldn", "concentration": "conc_dfnb"}
    at = {"tau": 1.0, "equiv_pldn": 2.0, "conc_dfnb": 0.3, "temperature": 90.0}
    assert judge(config, **at).score == pytest.approx(3141.19, rel=1e-4)
