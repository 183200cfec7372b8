"""Ranges, mixtures, incompatibilities and costs: each against values worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from aliquot.domain import ConfigError, Design
from aliquot.verifiers.builtin.conditions.cost import Cost
from aliquot.verifiers.builtin.conditions.incompatibility import Incompatibility
from aliquot.verifiers.builtin.conditions.mixture import Mixture
from aliquot.verifiers.builtin.conditions.ranges import Ranges
from aliquot.verifiers.registry import validate_config
from aliquot.verifiers.sdk import Score


def judge(cls: Any, config: dict[str, Any], **settings: str | float) -> Score:
    verifier = cls(cls.Config.model_validate(config))
    (score,) = verifier.verify([Design(kind="conditions", value=settings)])
    return score


RANGES = {
    "limits": [
        {"parameter": "temperature", "low": 20, "high": 120, "unit": "degC"},
        {"parameter": "temperature", "high": 60, "when": {"base": "NaH"}},
        {"parameter": "time", "low": 0.5},
        {"parameter": "time", "high": 24},
    ]
}


def test_a_range_holds_at_its_ends_and_only_when_its_condition_does():
    assert judge(Ranges, RANGES, temperature=120.0, base="K2CO3", time=24.0) == Score(1.0, True, "", {"breaches": []})
    hot = judge(Ranges, RANGES, temperature=80.0, base="NaH", time=24.5)
    assert (hot.score, hot.accepted) == (0.5, False)
    assert "above 60 when base=NaH" in hot.reason and "time=24.5 is above 24" in hot.reason


def test_a_grid_point_rounded_to_twelve_digits_is_still_inside():
    config = {"limits": [{"parameter": "x", "high": 1 / 3}]}
    assert judge(Ranges, config, x=0.333333333333).accepted and judge(Ranges, config, x=0.333333333334).accepted
    assert not judge(Ranges, config, x=0.3334).accepted


def test_a_mixture_is_off_by_its_worst_group_and_within_a_tolerance_of_its_own():
    config = {
        "groups": [
            {"parameters": ["a", "b", "c"], "tolerance": 0.02},
            {"parameters": ["acid", "base"], "total": 100},
        ]
    }
    score = judge(Mixture, config, a=0.5, b=0.3, c=0.185, acid=70.0, base=30.0)
    assert score.score == pytest.approx(0.015) and score.accepted
    score = judge(Mixture, config, a=0.5, b=0.3, c=0.2, acid=70.0, base=25.0)
    assert score.score == pytest.approx(5.0) and not score.accepted
    assert "acid + base = 95, not 100" in score.reason


def test_ten_tenths_are_one():
    names = [f"x{i}" for i in range(10)]
    config = {"groups": [{"parameters": names, "tolerance": 0}]}
    assert judge(Mixture, config, **dict.fromkeys(names, 0.1)).accepted


def test_a_mixture_counts_its_parts_and_takes_no_negative_one():
    config = {"groups": [{"parameters": ["a", "b", "c"], "most": 2}]}
    assert judge(Mixture, config, a=0.6, b=0.4, c=0.0).accepted
    assert "3 parts, at most 2" in judge(Mixture, config, a=0.6, b=0.3, c=0.1).reason
    assert "b=-0.5 is negative" in judge(Mixture, config, a=1.5, b=-0.5, c=0.0).reason


INCOMPATIBLE = {
    "rules": [
        {"together": ["H2O2", "acetone"], "reason": "organic peroxides"},
        {"values": {"base": ["nBuLi", "LDA"], "temperature": {"low": 0}}, "reason": "lithium bases are used cold"},
        {"values": {"catalyst": "Pd/C", "loading": 10}, "reason": "the shelf has no more than 5 mol%"},
    ]
}


def test_substances_are_incompatible_whichever_parameter_holds_them():
    rest = {"base": "K2CO3", "temperature": 20.0, "catalyst": "none", "loading": 5.0}
    assert judge(Incompatibility, INCOMPATIBLE, oxidant="H2O2", solvent="acetone", **rest).reason == "organic peroxides"
    assert not judge(Incompatibility, INCOMPATIBLE, oxidant="acetone", solvent="H2O2", **rest).accepted
    assert judge(Incompatibility, INCOMPATIBLE, oxidant="H2O2", solvent="water", **rest).accepted


def test_values_are_incompatible_only_all_together_and_spans_include_their_end():
    rest = {"oxidant": "none", "solvent": "THF", "catalyst": "none", "loading": 5.0}
    assert judge(Incompatibility, INCOMPATIBLE, base="LDA", temperature=-78.0, **rest).accepted
    assert judge(Incompatibility, INCOMPATIBLE, base="K2CO3", temperature=0.0, **rest).accepted
    two = {**rest, "catalyst": "Pd/C", "loading": 10.0}
    broken = judge(Incompatibility, INCOMPATIBLE, base="LDA", temperature=0.0, **two)
    assert broken.score == 2 and len(broken.values["broken"]) == 2


COST = {
    "reagents": {"XPhos": {"price": 12.0, "stock": 5.0}, "PPh3": {"price": 0.5}},
    "uses": [
        {"parameter": "ligand", "amount_parameter": "loading", "factor": 0.1},
        {"reagent": "Pd", "amount": 0.05},
        {"parameter": "additive", "amount": 1.0},
    ],
    "fixed": 3.0,
    "maximum": 40.0,
}


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("\ufeffreagent,price,stock,supplier\nPd,40,1,\nXPhos,99,99,\nLiCl , 0.25 ,,x\n", encoding="utf-8")
    return path


def test_the_cost_is_amounts_times_prices_and_what_the_campaign_says_stands_before_the_file(prices):
    config = {**COST, "price_list": str(prices)}
    score = judge(Cost, config, ligand="XPhos", loading=20.0, additive="LiCl")
    assert score.score == pytest.approx(3 + 2 * 12 + 0.05 * 40 + 0.25) and score.accepted
    assert score.values["amounts"] == pytest.approx({"XPhos": 2.0, "Pd": 0.05, "LiCl": 1.0})
    assert judge(Cost, config, ligand="PPh3", loading=20.0, additive="none").score == pytest.approx(3 + 1 + 2)


def test_what_is_out_of_stock_or_too_dear_is_refused(prices):
    config = {**COST, "price_list": str(prices)}
    score = judge(Cost, config, ligand="XPhos", loading=60.0, additive="none")
    assert "6 of XPhos wanted, 5 in stock" in score.reason and "costs 77, above 40" in score.reason


def test_one_reagent_used_twice_is_taken_from_one_stock():
    config = {
        "reagents": {"K2CO3": {"price": 1.0, "stock": 1.5}},
        "uses": [{"parameter": "base", "amount": 1.0}, {"parameter": "second_base", "amount": 1.0}],
    }
    assert "2 of K2CO3 wanted, 1.5 in stock" in judge(Cost, config, base="K2CO3", second_base="K2CO3").reason


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,price\nPd,1\n", "no column reagent"),
        ("reagent,price\nPd,cheap\n", "line 2, Pd: price 'cheap'"),
        ("reagent,price\nPd,1\nPd,2\n", "line 3: Pd stands twice"),
        ("reagent,price\n,2\n", "line 2: the reagent has no name"),
        ("reagent,price,stock\nPd,1,-3\n", "line 2, Pd"),
    ],
)
def test_a_wrong_price_list_names_the_line(tmp_path, text, says):
    path = tmp_path / "prices.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=says):
        judge(Cost, {**COST, "price_list": str(path)}, ligand="PPh3", loading=1.0, additive="none")


@pytest.mark.parametrize(
    ("cls", "config", "settings", "says"),
    [
        (Ranges, RANGES, {"base": "NaH", "time": 1.0}, "no parameter 'temperature'; the design has base, time"),
        (Ranges, RANGES, {"temperature": "hot", "base": "NaH", "time": 1.0}, "'hot' is not a finite number"),
        (Cost, {**COST, "reagents": {"Pd": {"price": 1}}}, {"ligand": "SPhos", "loading": 1.0, "additive": "none"},
         "no price of SPhos"),
    ],
)  # fmt: skip
def test_a_malformed_design_is_an_error_that_names_it_and_never_a_score(cls, config, settings, says):
    with pytest.raises(ValueError, match=says):
        judge(cls, config, **settings)


@pytest.mark.parametrize(
    ("type", "config", "says"),
    [
        ("ranges", {"limits": []}, "config.limits"),
        ("ranges", {"limits": [{"parameter": "t"}]}, "config.limits.0: give `low`, `high` or both"),
        ("ranges", {"limits": [{"parameter": "t", "low": 2, "high": 1}]}, "low=2 is above high=1"),
        ("ranges", {"limits": [{"parameter": "t", "low": float("inf")}]}, "config.limits.0.low"),
        ("mixture", {"groups": [{"parameters": ["a"]}]}, "config.groups.0.parameters"),
        ("mixture", {"groups": [{"parameters": ["a", "a"]}]}, "twice: a"),
        ("incompatibility", {"rules": [{"reason": "so"}]}, "give either `values` or `together`"),
        ("incompatibility", {"rules": [{"together": ["a", "a"], "reason": "so"}]}, "two or more different"),
        ("cost", {"uses": [{"reagent": "Pd", "amount": 1}]}, "give `reagents`, a `price_list`, or both"),
        ("cost", {"reagents": {"Pt": {"price": 1}}, "uses": [{"reagent": "Pd", "amount": 1}]}, "no price of Pd"),
        ("cost", {"reagents": {"Pd": {"price": 1}}, "uses": [{"reagent": "Pd"}]}, "`amount` or `amount_parameter`"),
    ],
)
def test_a_wrong_configuration_says_where_and_how_to_mend_it(type, config, says):
    with pytest.raises(ConfigError) as error:
        validate_config(type, config)
    assert says in str(error.value)
