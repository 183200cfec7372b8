"""What a verifier says of itself, as it comes out of a worker. The worker is not trusted, so it is validated here."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from aliquot.domain import Noun
from aliquot.verifiers.sdk import Control, Fixture, Needs


class Problem(Noun):
    """One thing that is wrong with a configuration."""

    path: str
    value: JsonValue = None
    remedy: str


class ShownFile(Noun):
    """A field of the configuration that names a file for the plugin to read."""

    location: tuple[str | int, ...]
    """Keys from the top of the configuration."""
    value: str
    """The path, as it is written there."""


class Description(Noun):
    """Everything that is known of a verifier before it judges."""

    name: str = Field(min_length=1, max_length=200)
    version: str = Field(min_length=1, max_length=200)
    style: Literal["pointwise", "set", "slow"]
    kinds: tuple[str, ...]
    deterministic: bool
    cost: float = Field(ge=0)
    needs: Needs
    unit: str
    bounds: tuple[float | None, float | None]
    example: dict[str, JsonValue]
    fixtures: tuple[Fixture, ...]
    controls: tuple[Control, ...]
    documentation: str
    """Docstring of the class."""
    config: dict[str, JsonValue]
    """With defaults filled in; empty when there are problems."""
    schema_: dict[str, JsonValue] = Field(alias="schema")
    """JSON schema of the configuration."""
    files: tuple[ShownFile, ...]
    problems: tuple[Problem, ...]
    digest: str = ""
    """Of code, libraries and configuration; set by the supervisor, never by the plugin (`digest.digest_of`)."""
