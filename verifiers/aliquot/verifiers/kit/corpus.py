"""Designs to try a verifier on: ordinary ones, and those that are hard on it. Data in `designs/`, one file a kind.

Conditions have the parameters that a verifier knows, so theirs are made of its own fixtures: each value that is hard on
a reader is put in the place of each parameter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from aliquot.domain import Design, Noun

PLACES = 6
"""Parameters of a conditions design in whose place hard values are put."""


class Hard(Noun):
    """A design that is hard on a verifier."""

    name: str
    """What is hard about it."""
    design: Design
    malformed: bool = False
    """It names nothing that can be made, in no reading of it: it must not be accepted."""


def proper(kind: str) -> list[Design]:
    """Ordinary designs."""
    return [Design(kind=kind, value=value) for value in _read(kind)["proper"]]


def adversarial(kind: str, known: Sequence[Design] = ()) -> list[Hard]:
    """Hard designs.

    Args:
        known: designs that the verifier can judge, whose parameters are used for conditions.
    """
    corpus = _read(kind)
    found = [
        Hard(name=case["name"], design=Design(kind=kind, value=case["value"]), malformed=case.get("malformed", False))
        for case in corpus["adversarial"]
    ]
    if kind == "conditions":
        found += _replaced(corpus["values"], [d for d in known if d.kind == kind])
    return found


def _replaced(values: list[dict[str, Any]], known: Sequence[Design]) -> Iterator[Hard]:
    if not known or isinstance(known[0].value, str):
        return
    model = known[0].value
    for name in list(model)[:PLACES]:
        for case in values:
            changed = Design(kind="conditions", value={**model, name: case["value"]})
            yield Hard(name=f"{name}: {case['name']}", design=changed)
        without = {key: value for key, value in model.items() if key != name}
        yield Hard(name=f"without {name}", design=Design(kind="conditions", value=without))


@lru_cache(maxsize=8)
def _read(kind: str) -> dict[str, Any]:
    return json.loads((files("aliquot.verifiers.kit") / "designs" / f"{kind}.json").read_text(encoding="utf-8"))
