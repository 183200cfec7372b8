"""How these verifiers read a design. Every error names the parameter, what stands there, and what the design has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from aliquot.domain import Design


def settings(design: Design) -> Mapping[str, Any]:
    """Values by parameter.

    Raises:
        ValueError: the design is no set of conditions.
    """
    if not isinstance(design.value, dict):
        raise ValueError(f"{design.text!r} is a {design.kind}; conditions are named values, e.g. temperature=80")
    return design.value


def value(design: Design, name: str) -> Any:
    """What a parameter is set to.

    Raises:
        ValueError: the design has no such parameter.
    """
    held = settings(design)
    if name not in held:
        raise ValueError(f"no parameter {name!r}; the design has {', '.join(held) or 'none'}")
    return held[name]


def number(design: Design, name: str) -> float:
    """A parameter as a finite number.

    Raises:
        ValueError: there is no such parameter, or it is no finite number.
    """
    found = value(design, name)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise ValueError(f"{name}={found!r} is not a finite number")
    return float(found)


def text(design: Design, name: str) -> str:
    """A parameter as text.

    Raises:
        ValueError: there is no such parameter, or it is no text.
    """
    found = value(design, name)
    if not isinstance(found, str):
        raise ValueError(f"{name}={found!r} is not a name")
    return found


def same(found: Any, wanted: str | float) -> bool:
    """Equal names, or numbers that agree to 9 digits, as the grid of a design space is rounded."""
    if isinstance(found, str) or isinstance(wanted, str):
        return found == wanted
    return math.isclose(float(found), wanted, rel_tol=1e-9, abs_tol=1e-12)
