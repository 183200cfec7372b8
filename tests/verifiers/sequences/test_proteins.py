"""Hydropathy, charge, isoelectric point and instability, against ProtParam's values and against hand work."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.domain import ConfigError, Design
from aliquot.verifiers.builtin.sequences.hydropathy import Hydropathy
from aliquot.verifiers.builtin.sequences.instability_index import WEIGHTS, InstabilityIndex
from aliquot.verifiers.builtin.sequences.isoelectric_point import IsoelectricPoint, isoelectric_point
from aliquot.verifiers.builtin.sequences.net_charge import NetCharge, charge
from aliquot.verifiers.registry import validate_config
from aliquot.verifiers.sdk import Score

FGF1 = (
    "MAEGEITTFTALTEKFNLPPGNYKKPKLLYCSNGGHFLRILPDGTVDGTRDRSDQHIQLQLSAESVGEVYIKSTETGQYLAMDTSGLLYGSQTPSEECLFLERLEEN"
    "HYNTYTSKKHAEKNWFVGLKKNGSCKRGPRTHYGQKAILFLPLPV"
)
"""Human fibroblast growth factor 1, on which Biopython checks its ProtParam against that of ExPASy."""
PROTEINS = st.text("ACDEFGHIKLMNPQRSTVWY", min_size=1, max_size=40)


def judge(cls: Any, config: dict[str, Any], sequence: str) -> Score:
    verifier = cls(cls.Config.model_validate(config))
    (score,) = verifier.verify([Design(kind="sequence", value=sequence)])
    return score


def test_the_indices_of_a_known_protein_are_those_of_protparam():
    assert judge(Hydropathy, {}, FGF1).score == pytest.approx(-0.5974, abs=5e-5)
    assert judge(InstabilityIndex, {}, FGF1).score == pytest.approx(41.98, abs=5e-3)
    assert judge(IsoelectricPoint, {}, FGF1).score == pytest.approx(7.72, abs=5e-3)
    assert judge(NetCharge, {"ph": 7.72}, FGF1).score == pytest.approx(0.0, abs=5e-3)


def test_the_hydropathy_of_a_window_is_the_mean_of_its_residues():
    score = judge(Hydropathy, {"window": 3, "window_maximum": 4}, "RRRIVLRR")
    assert score.values["highest_window"] == pytest.approx((4.5 + 4.2 + 3.8) / 3)
    assert score.values["lowest_window"] == pytest.approx(-4.5)
    assert "4.17 in the window at 4" in score.reason
    assert judge(Hydropathy, {"window": 19, "window_maximum": 4}, "IV").reason  # shorter than the window


def test_the_hydropathy_limits_hold_on_both_sides():
    assert judge(Hydropathy, {"minimum": -5, "maximum": 0}, "KR").accepted
    assert "above 0" in judge(Hydropathy, {"maximum": 0}, "IV").reason
    assert "below 0" in judge(Hydropathy, {"minimum": 0}, "KR").reason


def test_the_charge_of_free_ends_is_that_of_henderson_and_hasselbalch():
    """GG: ends of pK 7.5 and 3.55; at the pK of one half of it is charged."""
    assert charge("GG", 7.5) == pytest.approx(0.5 - 1 / (1 + 10 ** (3.55 - 7.5)))
    assert charge("AK", 1.0) == pytest.approx(2 - 1 / (1 + 10 ** (3.55 - 1)), abs=1e-4)
    assert judge(NetCharge, {"ph": 13.99, "minimum": 0}, "GG").accepted is False


def test_two_ends_meet_halfway():
    assert isoelectric_point("GG") == pytest.approx((7.5 + 3.55) / 2, abs=1e-4)


@settings(max_examples=60, deadline=None)
@given(PROTEINS)
def test_at_its_isoelectric_point_a_protein_has_no_charge(sequence):
    assert charge(sequence, isoelectric_point(sequence)) == pytest.approx(0, abs=1e-3)


def test_a_protein_is_kept_away_from_the_ph_of_its_buffer():
    assert "within 1 of pH 7.4" in judge(IsoelectricPoint, {"avoid": 7.4}, FGF1).reason
    assert judge(IsoelectricPoint, {"avoid": 7.4, "distance": 0.1}, FGF1).accepted
    assert not judge(IsoelectricPoint, {"low": 9}, FGF1).accepted


def test_the_instability_index_is_ten_times_the_mean_of_its_dipeptides():
    assert judge(InstabilityIndex, {}, "WWW").score == pytest.approx(10 / 3 * 2 * 1.0)
    assert judge(InstabilityIndex, {}, "RWK").score == pytest.approx(10 / 3 * (58.28 + 1.0))
    assert (
        not judge(InstabilityIndex, {}, "RWRWRW").accepted
        and judge(InstabilityIndex, {"maximum": None}, "RWRW").accepted
    )


def test_the_table_of_dipeptides_lists_each_once_and_only_what_differs_from_one():
    assert len(WEIGHTS) == 153 and 1.0 not in WEIGHTS.values()


@settings(max_examples=60, deadline=None)
@given(PROTEINS)
def test_every_score_lies_within_the_bounds_that_are_declared(sequence):
    for cls in (Hydropathy, InstabilityIndex, IsoelectricPoint):
        low, high = cls.bounds
        assert low <= judge(cls, {}, sequence).score <= high


@pytest.mark.parametrize("cls", [Hydropathy, InstabilityIndex, IsoelectricPoint, NetCharge])
@pytest.mark.parametrize(("sequence", "says"), [("MKXL", "'X' at position 3"), ("", "the sequence is empty")])
def test_a_malformed_protein_is_an_error_and_never_a_score(cls, sequence, says):
    with pytest.raises(ValueError, match=says):
        judge(cls, {}, sequence)


@pytest.mark.parametrize(
    ("type", "config", "says"),
    [
        ("hydropathy", {"minimum": 2, "maximum": 1}, "nothing can pass"),
        ("hydropathy", {"window_maximum": 1}, "needs the length of a `window`"),
        ("net_charge", {"ph": 15}, "config.ph"),
        ("isoelectric_point", {"low": 9, "high": 5}, "nothing can pass"),
        ("instability_index", {"maximun": 3}, "did you mean 'maximum'"),
    ],
)
def test_a_wrong_configuration_says_where_and_how_to_mend_it(type, config, says):
    with pytest.raises(ConfigError) as error:
        validate_config(type, config)
    assert says in str(error.value)
