"""A Design: one thing that can be made, unique by its canonical key."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import JsonValue, computed_field, model_validator

from aliquot.domain.base import Noun


class Design(Noun):
    """One molecule, one set of conditions, or one sequence, in canonical form.

    Only a design space makes designs (`space.design(...)`), so that two names of the same thing give the same key.
    """

    kind: str
    """The kind of its space: `molecule`, `conditions` or `sequence`."""
    value: str | dict[str, JsonValue]
    """Canonical SMILES, canonical sequence, or parameter values in the space's declared order."""

    @model_validator(mode="before")
    @classmethod
    def _key_agrees(cls, data: Any) -> Any:
        """A dumped design holds its key; read back, the key is computed anew and must be the same."""
        if not isinstance(data, dict) or "key" not in data:
            return data
        data = {**data}
        key, design = data.pop("key"), cls(**data)
        if key != design.key:
            raise ValueError(f"key {key!r} is not that of {design.text!r}; leave it out, or write {design.key!r}")
        return data

    @computed_field  # type: ignore[prop-decorator]
    @property
    def key(self) -> str:
        """Canonical key: sha256 of kind and value, first 32 hex digits (128 bits)."""
        text = json.dumps([self.kind, self.value], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def text(self) -> str:
        """One line a person can read."""
        if isinstance(self.value, str):
            return self.value
        return ", ".join(f"{name}={value}" for name, value in self.value.items())
