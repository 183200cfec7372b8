"""From the `type` of a verifier in a campaign to the code that it names. No plugin is imported here.

A type is the name of a built-in, a name that an installed package declares under the entry point group
`aliquot.verifiers`, or a path with a class, `./my.py:MyVerifier`. Built-ins cannot be shadowed. They are the project's
own code and their configuration is checked here; everything else is imported and checked in a worker process.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue

from aliquot.domain import ConfigError, Noun
from aliquot.isolation.host import Failure, Service
from aliquot.isolation.launch import Limits
from aliquot.verifiers.sdk import Needs

GROUP = "aliquot.verifiers"
BUILTINS = {
    "validity": "aliquot.verifiers.builtin.validity:Validity",
    "qed": "aliquot.verifiers.builtin.qed:Qed",
    "synthetic_accessibility": "aliquot.verifiers.builtin.synthetic_accessibility:SyntheticAccessibility",
    "structural_alerts": "aliquot.verifiers.builtin.structural_alerts:StructuralAlerts",
    "novelty": "aliquot.verifiers.builtin.novelty:Novelty",
    "diversity": "aliquot.verifiers.builtin.diversity:Diversity",
}

INTRODUCTION = (Limits(memory_mb=8192), 120.0)
"""Limits, and seconds for the import, of verifiers that have not said yet what they need."""
HOST = "aliquot.verifiers.hosting:host"


class Reference(Noun):
    """Where the class of a verifier is."""

    type: str
    """As written in the campaign."""
    origin: Literal["builtin", "entry_point", "path"]
    target: str
    """`package.module:Class` or `/absolute/path/file.py:Class`."""


def known() -> dict[str, Reference]:
    """Every verifier that has a name: built-ins, then those of installed packages."""
    references = {name: Reference(type=name, origin="builtin", target=target) for name, target in BUILTINS.items()}
    for point in entry_points(group=GROUP):
        references.setdefault(point.name, Reference(type=point.name, origin="entry_point", target=point.value))
    return references


def resolve(type: str, base: Path | None = None) -> Reference:
    """The reference of a type.

    Args:
        base: folder that a relative path starts from; default: the working directory.

    Raises:
        ConfigError: nothing has this name, or the file is not there.
    """
    location, colon, name = type.rpartition(":")
    if colon and location.endswith(".py"):
        path = ((base or Path.cwd()) / Path(location).expanduser()).resolve()
        if not path.is_file():
            raise ConfigError("verifier", [("type", type, f"there is no file {path}")])
        if not name.isidentifier():
            raise ConfigError("verifier", [("type", type, "after the colon stands the name of a class")])
        return Reference(type=type, origin="path", target=f"{path}:{name}")
    references = known()
    if type in references:
        return references[type]
    near = get_close_matches(type, references, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    remedy = f"no such verifier; {hint}known: {', '.join(references)}; or a file with a class, ./my.py:MyVerifier"
    raise ConfigError("verifier", [("type", type, remedy)])


def validate_config(type: str, config: dict[str, Any], base: Path | None = None) -> dict[str, JsonValue]:
    """The configuration of a verifier with its defaults filled in, as JSON values.

    Raises:
        ConfigError: nothing has this type, its code does not import, or a key or value is wrong. Paths in it begin
            with `type` or `config`.
    """
    reference = resolve(type, base)
    if reference.origin == "builtin":
        from aliquot.verifiers.hosting import describe

        described = describe(reference.target, config)
    else:
        service, (described,) = open_service([(type, reference, config)])
        service.close()
    if described["problems"]:
        raise ConfigError(f"verifier {type}", [tuple(problem) for problem in described["problems"]])
    return described["config"]


def open_service(plugins: Sequence[tuple[str, Reference, dict[str, Any]]]) -> tuple[Service, list[dict[str, Any]]]:
    """One worker that holds these (name, reference, config), and what each says of itself (`hosting.describe`).

    What verifiers need is known only after their import, which therefore happens under `INTRODUCTION`; the worker then
    lowers its own limits to what was asked for. Only one that asks for more is started anew.

    Raises:
        ConfigError: the code does not load. The path in it is `type`.
    """
    hosted = [{"name": name, "target": reference.target, "config": config} for name, reference, config in plugins]
    service = Service(", ".join(name for name, _, _ in plugins), HOST, hosted)
    service.limits, service.startup_seconds = INTRODUCTION
    descriptions = service.call("describe", list(range(len(plugins))), seconds=10)
    for (_, reference, _), answer in zip(plugins, descriptions, strict=True):
        if isinstance(answer, Failure):
            service.close()
            raise ConfigError(
                f"verifier {reference.type}", [("type", reference.type, f"does not load: {answer.message}")]
            )
    needs = [Needs(**description["needs"]) for description in descriptions]
    service.startup_seconds = max(need.startup_seconds for need in needs)
    if any(description["style"] == "slow" for description in descriptions):
        service.recycle_after = None  # its own jobs may be running in it
    if (memory := max(need.memory_mb for need in needs)) > service.limits.memory_mb:
        service.limits = Limits(memory_mb=memory)
        service.close()
    return service, descriptions
