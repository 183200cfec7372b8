"""Whether a design is a document that a JSON schema allows: conditions as they are, sequences as the JSON they spell.

The dialect is the one that the schema names in `$schema`, else draft 2020-12, as the library `jsonschema` reads it.
References lead inside the schema only; nothing is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import Field, JsonValue, field_validator

from aliquot.domain import Design
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

SHOWN = 10
"""How many violations a verdict lists."""


class JsonSchemaConfig(VerifierConfig):
    against: dict[str, JsonValue] = Field(min_length=1)
    """The schema."""
    parse: bool = True
    """Whether a design that is a string is JSON text; else the string itself is the document."""

    @field_validator("against")
    @classmethod
    def _schema(cls, schema: dict[str, Any]) -> dict[str, Any]:
        from jsonschema import SchemaError

        for path, reference in _references(schema, "$"):
            if not isinstance(reference, str) or not reference.startswith("#"):
                raise ValueError(
                    f"{path}: {reference!r} leads out of the schema; write it under $defs and refer to #/$defs/…"
                )
        try:
            _validator(schema).check_schema(schema)
        except SchemaError as error:
            raise ValueError(f"{error.json_path}: {error.message}") from None
        return schema


class JsonSchema(PointwiseVerifier):
    """1 for a document that the schema allows, else 0, no unit. `values["violations"]` says what is wrong and where."""

    name, version = "json_schema", "1"
    kinds = ("conditions", "sequence")
    bounds = (0.0, 1.0)
    needs = Needs(seconds=2)
    Config = JsonSchemaConfig
    example = {
        "against": {
            "type": "object",
            "required": ["temperature"],
            "properties": {"temperature": {"type": "number", "maximum": 100}, "base": {"enum": ["NaH", "K2CO3"]}},
        }
    }
    fixtures = (
        Fixture.full("conditions", {"temperature": 80.0, "base": "NaH"}, at_least=1.0, accepted=True),
        Fixture.zero("conditions", {"temperature": 180.0, "base": "NaOH"}, at_most=0.0, accepted=False),
        Fixture.malformed("sequence", '{"temperature": 80'),
        Fixture.malformed("sequence", "[" * 5000),
        Fixture.seeded("sequence", '{"temperature":80}', at_least=1.0, accepted=True),
    )

    def __init__(self, config: JsonSchemaConfig):
        super().__init__(config)
        self._check = _validator(config.against)(config.against)

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        for design in designs:
            document: Any = design.value
            if isinstance(document, str) and self.config.parse:
                try:
                    document = json.loads(document, parse_constant=_refuse)
                except (ValueError, RecursionError) as error:
                    yield Score(0.0, False, f"no JSON: {error}", {"violations": []})
                    continue
            errors = sorted(self._check.iter_errors(document), key=lambda error: (error.json_path, error.message))
            violations = [f"{error.json_path}: {error.message[:300]}" for error in errors[:SHOWN]]
            yield Score(float(not errors), not errors, "; ".join(violations), {"violations": violations})


def _validator(schema: Any) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    return validator_for(schema, default=Draft202012Validator)


def _references(schema: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef", "$recursiveRef"):
                yield f"{path}.{key}", value
            else:
                yield from _references(value, f"{path}.{key}")
    elif isinstance(schema, list):
        for i, value in enumerate(schema):
            yield from _references(value, f"{path}[{i}]")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
