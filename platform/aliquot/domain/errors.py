"""Typed errors of the domain. Each says what is wrong, where, and how to mend it."""

from __future__ import annotations

import difflib
import types
import typing
from typing import Any

from pydantic import BaseModel, ValidationError


class AliquotError(Exception):
    """Base of every error this project raises on purpose."""


class InvalidDesign(AliquotError, ValueError):
    """Text or parameters that do not name a design of the space (outcome `invalid_design`)."""


Problem = tuple[str, object, str]
"""(path in the file as dotted keys, the value that stands there, what would be right)."""


class ConfigError(AliquotError, ValueError):
    """A configuration that cannot run: every problem with its path, its value and its remedy."""

    def __init__(self, source: str, problems: list[Problem]):
        self.source, self.problems = source, problems
        lines = [f"{source}: {len(problems)} problem{'s' if len(problems) != 1 else ''}"]
        for path, value, remedy in problems:
            shown = repr(value)
            shown = shown if len(shown) <= 120 else shown[:117] + "..."
            lines.append(f"  {path or '(top level)'}: {remedy} (got {shown})")
        super().__init__("\n".join(lines))

    @classmethod
    def of(cls, source: str, error: ValidationError, model: type[BaseModel], prefix: str = "") -> ConfigError:
        """What pydantic found in data for `model`, with the remedy for unknown and missing keys spelled out."""
        problems: list[Problem] = []
        found = error.errors(include_url=False, include_context=False)
        for item in found:
            if item["type"] == "too_short" and any(_inside(other["loc"], item["loc"]) for other in found):
                continue  # its only members failed, and are told already
            location, owner = _resolve(model, item["loc"])
            path, key, names = ".".join(filter(None, [prefix, _dotted(location)])), item["loc"][-1:], _names(owner)
            if item["type"] == "extra_forbidden":
                close = difflib.get_close_matches(str(key[0]), names, n=1)
                remedy = f"unknown key; did you mean {close[0]!r}? " if close else "unknown key; "
                problems.append((path, item["input"], f"{remedy}known here: {', '.join(names)}"))
            elif item["type"] == "missing":
                problems.append((path, None, "this key is required"))
            else:
                problems.append((path, item["input"], item["msg"].removeprefix("Value error, ")))
        return cls(source, problems)


def _inside(inner: tuple, outer: tuple) -> bool:
    return len(inner) > len(outer) and inner[: len(outer)] == outer


def _dotted(location: list[str | int]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _resolve(model: Any, location: tuple[str | int, ...]) -> tuple[list[str | int], Any]:
    """The location without the union tags that pydantic puts in it, and the model that owns its last part."""
    path: list[str | int] = []
    current = owner = model
    for part in location:
        options = _options(current)
        tagged = [o for o in options if _tag(o) == part and part not in getattr(o, "model_fields", {})]
        if len(options) > 1 and tagged:
            current = tagged[0]
            continue
        path.append(part)
        owner = next((o for o in options if _names(o)), options[0] if options else None)
        fields = getattr(owner, "model_fields", {})
        if part in fields:
            current = fields[part].annotation
        else:
            arguments = [a for o in options for a in typing.get_args(o) if a is not Ellipsis]
            current = arguments[-1] if arguments else None
    return path, owner


def _options(annotation: Any) -> list[Any]:
    """The members of a (possibly annotated) union, or the annotation alone."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _options(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [o for a in typing.get_args(annotation) if a is not type(None) for o in _options(a)]
    return [annotation]


def _tag(option: Any) -> Any:
    field = getattr(option, "model_fields", {}).get("type")
    return field.default if field else None


def _names(option: Any) -> list[str]:
    return list(getattr(option, "model_fields", {}))
