"""The base of every noun: a pydantic model that refuses unknown keys and is immutable unless it says otherwise."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Noun(BaseModel):
    """Validated at birth, frozen, no unknown keys; exports a JSON schema with `model_json_schema()`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)
