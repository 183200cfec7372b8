"""What stands in the worker: verifiers built from their targets, and their answers turned into plain JSON values.

Always true: whatever an author's method gives, an item's answer is `{"score", "accepted", "reason", "values"}` with a
finite score, or `{"error": text}` that tells the author what was wrong with what came for this item. What an author's
method raises passes through, and the host finds the item that did it.
"""

from __future__ import annotations

import inspect
import json
import math
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, get_args

import numpy as np
from pydantic import BaseModel, ValidationError

from aliquot.domain import Design, Outcome
from aliquot.isolation.launch import Limits, apply_limits
from aliquot.isolation.loading import load_target
from aliquot.verifiers.sdk import (
    Control,
    Fixture,
    Needs,
    NoScore,
    PointwiseVerifier,
    Score,
    SetVerifier,
    ShownToPlugin,
    SlowVerifier,
    Verifier,
    VerifierConfig,
)

KINDS = ("molecule", "conditions", "sequence")
Methods = dict[str, Callable[[list[Any]], Iterable[Any]]]


def host(plugins: list[dict[str, Any]]) -> Mapping[str, Callable[[list[Any]], Iterable[Any]]]:
    """Methods of a worker that holds these verifiers, and limits that worker to what they declare.

    Args:
        plugins: for each `name`, `target`, `config`, `path` (folders to import from) and `build`: without it, or with
            a wrong configuration, the verifier is described and not built.

    Returns:
        `describe` (items: positions in `plugins`), `NAME.verify` (items: designs), for slow ones `NAME.submit`
        (designs) and `NAME.poll` (tickets), `state` / `restore` of all that have a memory, and `usage`.
    """
    methods: Methods = {}
    sets: dict[str, SetVerifier] = {}
    for plugin in plugins:
        sys.path[:0] = [folder for folder in plugin["path"] if folder not in sys.path]
    descriptions = [describe(plugin["target"], plugin["config"]) for plugin in plugins]
    memory = max(description["needs"]["memory_mb"] for description in descriptions)
    apply_limits(Limits(memory_mb=memory))
    for plugin, description in zip(plugins, descriptions, strict=True):
        if description["problems"] or not plugin["build"]:
            continue
        cls, name = load_target(plugin["target"]), plugin["name"]
        verifier = cls(cls.Config.model_validate(plugin["config"]))
        verifier.secrets = plugin.get("secrets", {})
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
    methods["usage"] = lambda _: [usage()]
    return methods


def describe(target: str, config: dict[str, Any]) -> dict[str, Any]:
    """What a verifier says of itself (`description.Description`), as JSON values.

    Raises:
        TypeError: the target is no verifier, or declares no name or version, or something that cannot be.
        Exception: whatever its import raises.
    """
    cls = load_target(target)
    style = _style(target, cls)
    _check_declared(target, cls)
    problems, checked = _check(cls.Config, config)
    controls = cls.controls_for(checked) if checked is not None else ()
    if odd := [c for c in controls if not isinstance(c, Control)]:
        raise TypeError(f"{target} declares the control {_shown(odd[0])}; write Control.of(kind, value, at_least=…)")
    return {
        "name": str(cls.name),
        "version": str(cls.version),
        "style": style,
        "kinds": list(cls.kinds),
        "deterministic": bool(cls.deterministic),
        "cost": float(cls.cost),
        "needs": (cls.needs if checked is None else cls.needs_for(checked)).model_dump(),
        "unit": str(cls.unit),
        "bounds": list(cls.bounds),
        "example": dict(cls.example),
        "fixtures": [fixture.model_dump(mode="json") for fixture in cls.fixtures],
        "controls": [control.model_dump(mode="json") for control in controls],
        "documentation": inspect.cleandoc(cls.__doc__ or ""),
        "config": {} if checked is None else checked.model_dump(mode="json"),
        "schema": cls.Config.model_json_schema(),
        "files": [] if checked is None else [{"location": list(at), "value": v} for at, v in shown_files(checked)],
        "problems": problems,
    }


def report(score: Any, design: Design | None = None) -> dict[str, Any]:
    """One `Score` as JSON values, or what is wrong with it."""
    if isinstance(score, NoScore) and (score.of is None or design is None or _key(score.of) == design.key):
        outcome = Outcome.TIMED_OUT if score.timed_out else Outcome.INFRASTRUCTURE_ERROR
        return {"error": f"has no score: {score.reason}", "outcome": outcome.value}
    if not isinstance(score, Score):
        return {"error": f"gave {_shown(score)} instead of a Score"}
    number, accepted = score.score, score.accepted
    if design is not None and score.of is not None and (of := _key(score.of)) != design.key:
        return {"error": f"gave the score of another design ({of}) in the place of this one's ({design.key})"}
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


def shown_files(config: BaseModel) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Location and value of every `DataFile` of a configuration."""
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        marked = any(isinstance(mark, ShownToPlugin) for mark in field.metadata) or _marked(field.annotation)
        yield from _inside(value, (field.alias or name,), marked)


def usage() -> dict[str, float]:
    """What this process has used: memory now and at most, MiB, and processor seconds."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    try:  # not `ru_maxrss`: at its start a process inherits what its parent had
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        resident, peak = (int(status[name].split()[0]) / 2**10 for name in ("VmRSS", "VmHWM"))
    except OSError:  # not Linux
        resident = peak = spent.ru_maxrss / 2**20
    return {"resident_mb": resident, "peak_mb": peak, "processor_seconds": spent.ru_utime + spent.ru_stime}


def _marked(annotation: Any) -> bool:
    """Whether `DataFile` stands somewhere in a type, as in `tuple[DataFile, ...] | None`."""
    marks = getattr(annotation, "__metadata__", ())
    return any(isinstance(mark, ShownToPlugin) for mark in marks) or any(map(_marked, get_args(annotation)))


def _inside(value: Any, location: tuple[str | int, ...], marked: bool) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, Path) and marked:
        yield location, str(value)
    elif isinstance(value, BaseModel):
        for inner, path in shown_files(value):
            yield (*location, *inner), path
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield from _inside(member, (*location, key), marked)
    elif isinstance(value, list | tuple):
        for i, member in enumerate(value):
            yield from _inside(member, (*location, i), marked)


def _verify(verifier: PointwiseVerifier | SetVerifier, items: list[Any]) -> Iterable[Any]:
    designs = _designs(items)
    answers = verifier.verify(designs)
    if answers is None or isinstance(answers, str | bytes | Mapping) or not isinstance(answers, Iterable):
        raise TypeError(f"`verify` gave {_shown(answers)}; it gives one Score for each design, in order")
    for i, score in enumerate(answers):  # too many are counted by the worker
        yield report(score, designs[i] if i < len(designs) else None)


def _submit(verifier: SlowVerifier, items: list[Any]) -> Iterable[Any]:
    for ticket in verifier.submit(_designs(items)):
        if isinstance(ticket, NoScore):
            yield report(ticket)
            continue
        good = isinstance(ticket, str) and ticket
        yield {"ticket": ticket} if good else {"error": f"gave {_shown(ticket)} as a ticket; it is a non-empty string"}


def _poll(verifier: SlowVerifier, tickets: list[Any]) -> Iterable[Any]:
    ready = verifier.poll(tickets)
    if not isinstance(ready, Mapping):
        raise TypeError(f"`poll` gave {_shown(ready)}; it gives a mapping of ticket to Score")
    if foreign := set(ready) - set(tickets):
        raise ValueError(f"`poll` gave scores for tickets that were not asked: {', '.join(sorted(map(str, foreign)))}")
    return [_answered(ready[ticket]) if ticket in ready else {"pending": True} for ticket in tickets]


def _answered(score: Any) -> dict[str, Any]:
    """`report`, with the design that the author says it is of: only the supervisor knows whose ticket it was."""
    of = score.of if isinstance(score, Score) else None
    return report(score) | ({} if of is None else {"of": _key(of)})


def _designs(items: list[Any]) -> list[Design]:
    return [Design(kind=kind, value=value) for kind, value in items]


def _key(of: Any) -> str:
    return of.key if isinstance(of, Design) else str(of)


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


def _check_declared(target: str, cls: type[Verifier]) -> None:
    """Raises `TypeError` for the first declaration that cannot be."""
    wrong = [
        ("name", cls.name, isinstance(cls.name, str) and bool(cls.name), "a name, as text"),
        ("version", cls.version, isinstance(cls.version, str) and bool(cls.version), "a version as text, e.g. '1'"),
        ("kinds", cls.kinds, bool(cls.kinds) and set(cls.kinds) <= {*KINDS}, f"a tuple of {', '.join(KINDS)}"),
        ("needs", cls.needs, isinstance(cls.needs, Needs), "Needs(…)"),
        ("Config", cls.Config, _is_config(cls.Config), "a class derived from VerifierConfig"),
        ("bounds", cls.bounds, _are_bounds(cls.bounds), "(lowest, highest), each a number or None"),
        ("fixtures", cls.fixtures, all(isinstance(f, Fixture) for f in cls.fixtures), "a tuple of Fixture"),
    ]
    for name, value, right, wanted in wrong:
        if not right:
            raise TypeError(f"{target} declares `{name}` as {_shown(value)}; it is {wanted}")


def _is_config(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, VerifierConfig)


def _are_bounds(value: Any) -> bool:
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(bound is None or (isinstance(bound, Real) and math.isfinite(bound)) for bound in value)
    )


def _check(model: type[VerifierConfig], config: dict[str, Any]) -> tuple[list[dict[str, Any]], VerifierConfig | None]:
    try:
        return [], model.model_validate(config)
    except ValidationError as error:
        return [_problem(model, details) for details in error.errors(include_url=False)], None


def _problem(model: type[VerifierConfig], details: Any) -> dict[str, Any]:
    path = ".".join(["config", *map(str, details["loc"])])
    remedy = details["msg"].removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        fields = list(model.model_fields)
        near = get_close_matches(str(details["loc"][-1]), fields, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        remedy = f"no such key; {hint}known: {', '.join(fields) or '(none)'}"
    return {"path": path, "value": _plain(details["input"]), "remedy": remedy}


def _plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return _shown(value)


def _shown(value: Any) -> str:
    return f"{repr(value)[:80]} ({type(value).__name__})"
