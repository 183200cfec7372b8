"""The language of arithmetic: the same values as Python's, and none of Python's doors."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.domain import ConfigError, Design
from aliquot.verifiers.builtin.general.arithmetic import evaluate, parse
from aliquot.verifiers.builtin.general.expression import Expression
from aliquot.verifiers.registry import validate_config
from aliquot.verifiers.sdk import Score


def judge(config: dict[str, Any], **settings: str | float) -> Score:
    verifier = Expression(Expression.Config.model_validate(config))
    (score,) = verifier.verify([Design(kind="conditions", value=settings)])
    return score


def value(text: str, **values: float | str) -> float:
    return evaluate(parse(text), values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3 - 4 / 8", 6.5), ("-2 ** 2", -4), ("(-2) ** 2", 4), ("7 % 3", 1), ("2 ** -1", 0.5),
        ("min(3, 1, 2) + max(1, 2)", 3), ("sqrt(2) ** 2", 2), ("log10(1000) + log(e)", 4), ("abs(-3)", 3),
        ("1 if 2 > 1 else 0", 1), ("1 < 2 < 3", 1), ("1 < 2 > 3", 0), ("not 1", 0), ("1 and 0 or 1", 1),
        ("floor(2.7) + ceil(2.1)", 5), ("cos(pi)", -1), ("True + 1", 2),
    ],
)  # fmt: skip
def test_an_expression_has_the_value_that_arithmetic_gives_it(text, expected):
    assert value(text) == pytest.approx(expected)


NUMBERS = st.floats(-50, 50).map(lambda x: round(x, 3))
EXPRESSIONS = st.recursive(
    st.sampled_from(["x", "y"]) | NUMBERS.map(lambda n: f"({n})"),
    lambda inner: st.tuples(inner, st.sampled_from([" + ", " - ", " * "]), inner).map(lambda t: f"({''.join(t)})"),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(EXPRESSIONS, NUMBERS, NUMBERS)
def test_it_agrees_with_python_on_sums_and_products(text, x, y):
    expected = eval(text, {"__builtins__": {}}, {"x": x, "y": y})  # a text made here, of digits and operators
    if math.isfinite(expected):
        assert value(text, x=x, y=y) == pytest.approx(expected, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "().__class__", "x.real", "[1][0]", "x[0]", "(lambda: 1)()", "[i for i in (1, 2)]",
        "x := 1", "f'{x}'", "b'x'", "1j", "...", "None", "exec('1')", "min(*x)", "max(x, key=x)", "sqrt", "(1, 2)",
        "{1}", "x @ x", "x << 900", "~x", "x // 2", "await x", "1; 2", "import os", "", "x = 1", "sqrt(1, 2)", "min()",
        "abs.x(1)",
    ],
)  # fmt: skip
def test_what_is_no_arithmetic_is_refused_before_it_runs(text):
    with pytest.raises((ValueError, KeyError)):
        value(text, x=1.0)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1500 + "1" + ")" * 400, "-" * 1999 + "1", "1" + "+1" * 900, "x" * 2001,
        "1 if " * 300 + "1" + " else 1" * 300,
        "not " * 450 + "1", "9" * 1900, "a" + ".b" * 900, "(" * 60 + "1" + "+1)" * 60,
    ],
)  # fmt: skip
def test_what_is_too_long_or_too_deep_is_refused_and_ends(text):
    with pytest.raises(ValueError):
        value(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("9.0 ** 9 ** 9 ** 9", "too large"), ("1e308 * 10", "too large"), ("1e308 * 10 - 1e308 * 10", "too large"),
        ("1 / 0", "division by zero"), ("1 % 0", "division by zero"), ("log(0)", "domain"), ("sqrt(-1)", "domain"),
        ("(-1) ** 0.5", "domain"), ("exp(1000)", "too large"), ("'a' + 1", "is text"),
        ("1 < 'a'", "cannot be compared"), ("'a'", "is text"),
    ],
)  # fmt: skip
def test_what_has_no_value_is_an_error_and_never_a_score(text, says):
    with pytest.raises(ValueError, match=says):
        value(text)


CONFIG = {
    "expression": 'rate * exp(-energy / (R * (temperature + 273.15))) if base != "none" else 0',
    "constants": {"energy": 50.0, "R": 0.008314},
    "tables": {"rate": {"parameter": "solvent", "values": {"DMF": 2e6, "THF": 1e6}}},
    "minimum": 0.01,
}


def test_parameters_constants_and_tables_meet_in_one_formula():
    score = judge(CONFIG, solvent="THF", temperature=80.0, base="NaH", unused="x")
    assert score.score == pytest.approx(1e6 * math.exp(-50 / (0.008314 * 353.15))) and score.accepted
    assert judge(CONFIG, solvent="DMF", temperature=80.0, base="NaH").score == pytest.approx(2 * score.score)
    refused = judge(CONFIG, solvent="THF", temperature=80.0, base="none")
    assert (refused.score, refused.accepted, refused.reason) == (0, False, "0 is below 0.01")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"solvent": "THF", "base": "NaH"}, "no parameter temperature; the design has solvent, base"),
        ({"solvent": "water", "temperature": 1.0, "base": "NaH"}, "table rate has no solvent 'water'; it has DMF, THF"),
        ({"solvent": "THF", "temperature": "hot", "base": "NaH"}, "'hot' is text"),
        ({"solvent": "THF", "temperature": -273.15, "base": "NaH"}, "division by zero"),
    ],
)
def test_a_malformed_design_says_what_it_lacks(settings, says):
    with pytest.raises(ValueError, match=says):
        judge(CONFIG, **settings)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"expression": "os.system('x')"}, 'config.expression: "os.system'),
        ({"expression": "1 +"}, "no expression"),
        ({"expression": "x", "constants": {"y": 1}}, "does not use y"),
        ({"expression": "sqrt", "constants": {"sqrt": 1}}, "sqrt has a meaning"),
        ({"expression": "x", "constants": {"x": float("nan")}}, "config.constants.x"),
    ],
)
def test_a_wrong_configuration_says_where_and_how_to_mend_it(config, says):
    with pytest.raises(ConfigError) as error:
        validate_config("expression", config)
    assert says in str(error.value)
