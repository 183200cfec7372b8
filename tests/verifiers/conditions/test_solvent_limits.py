"""Boiling and flash points, against steam tables and vapour pressures measured elsewhere."""

from __future__ import annotations

import math

import pytest

from aliquot.domain import Design
from aliquot.verifiers.builtin.conditions.solvent_limits import SolventLimits, SolventLimitsConfig
from aliquot.verifiers.builtin.conditions.solvents import SOLVENTS, plain
from aliquot.verifiers.sdk import Score


def judge(settings: dict, **config) -> Score:
    verifier = SolventLimits(SolventLimitsConfig.model_validate(config))
    (score,) = verifier.verify([Design(kind="conditions", value=settings)])
    return score


@pytest.mark.parametrize(
    ("solvent", "bar", "boils"),
    [
        # IAPWS-IF97 saturation temperatures
        ("water", 0.5, 81.3), ("water", 2.0, 120.2), ("water", 5.0, 151.8),
        # Wagner equations of the VDI Heat Atlas, section D3.1
        ("toluene", 0.5, 87.5), ("toluene", 2.0, 136.4), ("acetone", 5.0, 111.9), ("ethanol", 3.0, 108.6),
        ("methanol", 5.0, 111.4), ("hexane", 5.0, 130.1), ("pyridine", 5.0, 181.1), ("DCM", 2.0, 60.5),
    ],
)  # fmt: skip
def test_the_boiling_point_under_pressure_is_within_three_kelvin_of_what_is_known(solvent, bar, boils):
    assert SOLVENTS[plain(solvent)].boiling_at(bar) == pytest.approx(boils, abs=3)


def test_at_one_atmosphere_it_is_the_tabulated_boiling_point():
    for solvent in SOLVENTS.values():
        assert solvent.boiling_at(1.01325) == pytest.approx(solvent.boiling, abs=1e-9)


def test_the_table_is_plausible_throughout():
    assert len({solvent.name for solvent in SOLVENTS.values()}) > 50
    for solvent in SOLVENTS.values():
        assert 30 < solvent.boiling < 300
        assert solvent.flash in (None, math.inf) or -50 < solvent.flash < solvent.boiling
        if solvent.enthalpy is not None:  # Trouton: alcohols and water lie above the rule
            assert 0.08 < solvent.enthalpy / (solvent.boiling + 273.15) < 0.115, solvent.name


def test_the_score_is_the_distance_to_the_boiling_point_and_the_margin_is_kept():
    at = {"solvent": "THF", "temperature": 60.0}
    assert judge(at).score == pytest.approx(5.0, abs=0.6) and judge(at).accepted
    refused = judge(at, margin=10)
    assert not refused.accepted and "THF boils at 1.01325 bar at 65.0 °C, and 10 K are to be kept" in refused.reason
    assert judge(at, margin=10, pressure=3).accepted


def test_a_name_is_known_by_its_aliases_whatever_its_case_and_dashes():
    names = ("DMF", "dmf", "N,N-dimethylformamide", "n,n-Dimethyl formamide")
    assert len({judge({"solvent": name, "temperature": 20.0}).score for name in names}) == 1


def test_in_a_mixture_the_most_volatile_solvent_counts_and_none_is_no_solvent():
    both = {"solvent": "DMF", "cosolvent": "diethyl ether", "temperature": 50.0}
    score = judge(both, solvents=["solvent", "cosolvent"])
    assert not score.accepted and score.values == {"solvent": "diethyl ether"}
    assert judge({**both, "cosolvent": "none"}, solvents=["solvent", "cosolvent"]).accepted


def test_the_flash_point_is_the_limit_where_that_is_asked():
    assert not judge({"solvent": "toluene", "temperature": 25.0}, limit="flash").accepted
    assert judge({"solvent": "DMSO", "temperature": 25.0}, limit="flash").score == pytest.approx(70)
    assert judge({"solvent": "DCM", "temperature": 25.0}, limit="flash").score == 1000  # it has none
    with pytest.raises(ValueError, match="no flash point of anisole is tabulated; add it under `own`"):
        judge({"solvent": "anisole", "temperature": 25.0}, limit="flash")


def test_an_unknown_solvent_is_an_error_with_the_nearest_name_until_the_user_adds_it():
    with pytest.raises(ValueError, match="no solvent 'tolune'; did you mean 'toluene'"):
        judge({"solvent": "tolune", "temperature": 25.0})
    own = {"Cyrene": {"boiling": 227, "flash": 108}}
    assert judge({"solvent": "cyrene", "temperature": 100.0}, own=own).score == pytest.approx(127)
