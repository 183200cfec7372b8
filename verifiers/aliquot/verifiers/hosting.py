"""What stands in the worker: verifiers built from their targets, and their answers turned into plain JSON values.

Always true: whatever an author's method gives, an item's answer is `{"score", "accepted", "reason", "values"}` with a
finite score, or `{"error": text}` that tells the author what was wrong with what came for this item. What an author's
method raises passes through, and the host finds the item that did it.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from pydantic import ValidationError

from aliquot.domain import Design
from aliquot.isolation.launch import Limits, apply_limits
from aliquot.isolation.loading import load_target, source_files, split_target
from aliquot.verifiers.sdk import PointwiseVerifier, Score, SetVerifier, SlowVerifier, Verifier, VerifierConfig


def host(plugins: list[dict[str, Any]]) -> Mapping[str, Callable[[list[Any]], Iterable[Any]]]:
    """Methods of a worker that holds these verifiers, and limits that worker to what they declare.

    Args:
        plugins: for each `name`, `target` and `config`. One with a wrong configuration is described, and not built.

    Returns:
        `describe` (items: positions in `plugins`), `NAME.verify` (items: designs), for slow ones `NAME.submit`
        (designs) and `NAME.poll` (tickets), and `state` / `restore` of all that have a memory.
    """
    methods: dict[str, Callable[[list[Any]], Iterable[Any]]] = {}
    sets: dict[str, SetVerifier] = {}
    descriptions = [describe(plugin["target"], plugin["config"]) for plugin in plugins]
    apply_limits(Limits(memory_mb=max(description["needs"]["memory_mb"] for description in descriptions)))
    for plugin, description in zip(plugins, descriptions, strict=True):
        if description["problems"]:
            continue
        cls, name = load_target(plugin["target"]), plugin["name"]
        verifier = cls(cls.Config.model_validate(plugin["config"]))
        if isinstance(verifier, SlowVerifier):
            methods[f"{name}.submit"] = partial(_submit, verifier)
            methods[f"{name}.poll"] = partial(_poll, verifier)
        else:
            methods[f"{name}.verify"] = partial(_verify, verifier)
        if isinstance(verifier, SetVerifier):
            sets[name] = verifier

    def restore(items: list[Any]) -> list[None]:
        for name in sets.keys() & items[0].keys():
            sets[name].restore(items[0][name])
        return [None]

    methods["describe"] = lambda positions: [descriptions[i] for i in positions]
    methods["state"] = lambda _: [{name: verifier.state() for name, verifier in sets.items()}]
    methods["restore"] = restore
    return methods


def describe(target: str, config: dict[str, Any]) -> dict[str, Any]:
    """What a verifier says of itself, as JSON values; its configuration with defaults, or the `problems` with it.

    Raises:
        TypeError: the target is no verifier, or declares no name or version.
        Exception: whatever its import raises.
    """
    cls = load_target(target)
    style = _style(target, cls)
    problems, filled = _check(cls.Config, config)
    source = hashlib.sha256()
    for path in source_files(split_target(target)[0]):
        source.update(path.read_bytes())
    source.update(json.dumps([target.rpartition(":")[2], filled], sort_keys=True).encode())
    return {
        "version": str(cls.version),
        "style": style,
        "kinds": list(cls.kinds),
        "deterministic": cls.deterministic,
        "cost": float(cls.cost),
        "needs": cls.needs.model_dump(),
        "digest": source.hexdigest(),
        "config": filled,
        "problems": problems,
    }


def report(score: Any) -> dict[str, Any]:
    """One `Score` as JSON values, or what is wrong with it."""
    if not isinstance(score, Score):
        return {"error": f"gave {_shown(score)} instead of a Score"}
    number, accepted = score.score, score.accepted
    if isinstance(number, bool) or not isinstance(number, Real):
        return {"error": f"gave the score {_shown(number)}; a score is a number"}
    if not math.isfinite(number):
        return {"error": f"gave the score {float(number)}; a score must be finite"}
    if not isinstance(accepted, bool | np.bool_):
        return {"error": f"gave `accepted` as {_shown(accepted)}; it is True or False"}
    try:
        values = json.loads(json.dumps(dict(score.values), allow_nan=False)) if score.values else {}
    except (TypeError, ValueError, RecursionError) as error:
        return {"error": f"gave `values` that are not JSON: {error}"}
    return {"score": float(number), "accepted": bool(accepted), "reason": str(score.reason), "values": values}


def _verify(verifier: PointwiseVerifier | SetVerifier, items: list[Any]) -> Iterable[Any]:
    return map(report, verifier.verify(_designs(items)))


def _submit(verifier: SlowVerifier, items: list[Any]) -> Iterable[Any]:
    for ticket in verifier.submit(_designs(items)):
        good = isinstance(ticket, str) and ticket
        yield {"ticket": ticket} if good else {"error": f"gave {_shown(ticket)} as a ticket; it is a non-empty string"}


def _poll(verifier: SlowVerifier, tickets: list[Any]) -> Iterable[Any]:
    ready = verifier.poll(tickets)
    if foreign := set(ready) - set(tickets):
        raise ValueError(f"`poll` gave scores for tickets that were not asked: {', '.join(sorted(map(str, foreign)))}")
    return [report(ready[ticket]) if ticket in ready else {"pending": True} for ticket in tickets]


def _designs(items: list[Any]) -> list[Design]:
    return [Design(kind=kind, value=value) for kind, value in items]


def _style(target: str, cls: Any) -> str:
    if not (inspect.isclass(cls) and issubclass(cls, Verifier)):
        raise TypeError(f"{target} is no verifier: derive it from PointwiseVerifier, SetVerifier or SlowVerifier")
    if missing := [attribute for attribute in ("name", "version") if not hasattr(cls, attribute)]:
        raise TypeError(f"{target} declares no {' and no '.join(missing)}; write e.g. `name, version = 'logp', '1'`")
    if unwritten := sorted(getattr(cls, "__abstractmethods__", ())):
        raise TypeError(f"{target} lacks {' and '.join(unwritten)}")
    for style, base in {"pointwise": PointwiseVerifier, "set": SetVerifier, "slow": SlowVerifier}.items():
        if issubclass(cls, base):
            return style
    raise TypeError(f"{target} derives from Verifier itself; take PointwiseVerifier, SetVerifier or SlowVerifier")


def _check(model: type[VerifierConfig], config: dict[str, Any]) -> tuple[list[list[Any]], dict[str, Any]]:
    try:
        return [], model.model_validate(config).model_dump(mode="json")
    except ValidationError as error:
        return [_problem(model, details) for details in error.errors(include_url=False)], {}


def _problem(model: type[VerifierConfig], details: Any) -> list[Any]:
    path = ".".join(["config", *map(str, details["loc"])])
    remedy = details["msg"].removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        fields = list(model.model_fields)
        near = get_close_matches(str(details["loc"][-1]), fields, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        remedy = f"no such key; {hint}known: {', '.join(fields) or '(none)'}"
    return [path, details["input"], remedy]


def _shown(value: Any) -> str:
    return f"{repr(value)[:80]} ({type(value).__name__})"
