"""Documents against schemas: the verdicts of the JSON Schema specification, typed errors for wrong schemas."""

from __future__ import annotations

from typing import Any

import pytest

from aliquot.domain import ConfigError, Design
from aliquot.verifiers.builtin.general.json_schema import JsonSchema
from aliquot.verifiers.registry import validate_config
from aliquot.verifiers.sdk import Score

PROTOCOL = {
    "type": "object",
    "required": ["steps"],
    "additionalProperties": False,
    "properties": {"steps": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/step"}}},
    "$defs": {
        "step": {
            "type": "object",
            "required": ["do"],
            "properties": {"do": {"enum": ["heat", "stir"]}, "celsius": {"type": "number", "maximum": 120}},
            "if": {"properties": {"do": {"const": "heat"}}},
            "then": {"required": ["celsius"]},
        }
    },
}


def judge(config: dict[str, Any], value: Any) -> Score:
    verifier = JsonSchema(JsonSchema.Config.model_validate(config))
    kind = "conditions" if isinstance(value, dict) else "sequence"
    (score,) = verifier.verify([Design(kind=kind, value=value)])
    return score


def test_a_document_is_valid_or_says_where_it_is_not():
    assert judge({"against": PROTOCOL}, '{"steps":[{"do":"heat","celsius":80},{"do":"stir"}]}') == Score(
        1.0, True, "", {"violations": []}
    )
    score = judge({"against": PROTOCOL}, '{"steps":[{"do":"heat"},{"do":"boil","celsius":130}],"x":1}')
    assert (score.score, score.accepted) == (0, False)
    places = [violation.partition(":")[0] for violation in score.values["violations"]]
    assert places == ["$", "$.steps[0]", "$.steps[1].celsius", "$.steps[1].do"]


def test_conditions_are_a_document_as_they_are_and_a_string_may_be_one():
    schema = {"properties": {"temperature": {"type": "number", "exclusiveMaximum": 100}}}
    assert judge({"against": schema}, {"temperature": 99.0}).accepted
    assert not judge({"against": schema}, {"temperature": 100.0}).accepted
    assert judge({"against": {"pattern": "^AC"}, "parse": False}, "ACGT").accepted
    assert not judge({"against": {"pattern": "^AC"}, "parse": False}, "GT").accepted


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a": NaN}', "\ud800", "1" * 10_000])
def test_what_is_no_json_is_refused(text):
    assert judge({"against": {"type": "object"}}, text).accepted is False


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "objekt"}, "config.against: $.type"),
        ({"$ref": "https://example.org/schema"}, "leads out of the schema"),
        ({"items": [{"$ref": "other.json"}]}, "$.items[0].$ref"),
        ({}, "config.against"),
    ],
)
def test_a_wrong_schema_says_where_and_how_to_mend_it(schema, says):
    with pytest.raises(ConfigError) as error:
        validate_config("json_schema", {"against": schema})
    assert says in str(error.value)


def test_a_reference_that_leads_nowhere_is_an_error_and_never_a_score():
    with pytest.raises(Exception, match="nowhere"):
        judge({"against": {"$ref": "#/$defs/nowhere"}}, "1")
