"""A scoring component of REINVENT4, a `comp_*.py`, as a verifier. REINVENT4 itself need not be installed.

The component is called as REINVENT calls it: parameters of all endpoints collected into lists, one call with a list of
SMILES, one array of scores for each endpoint. NaN, which a component gives where it failed, leaves the design without
a score (REINVENT counts it as nothing). SMILES that RDKit cannot read are kept from it, as there.

Source of the interface: Loeffler, He, Tibo, Janet, Voronov, Mervin & Engkvist, J. Cheminf. 16, 20 (2024), and the
documentation of REINVENT4 on scoring plugins.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, JsonValue, model_validator

from aliquot.domain import Design
from aliquot.verifiers.adapters import reinvent_names
from aliquot.verifiers.adapters.foreign import (
    HostingConfig,
    load_file,
    needs_of,
    not_a_number,
    plain,
    scored,
    unreadable,
)
from aliquot.verifiers.adapters.transforms import Transform
from aliquot.verifiers.sdk import DataFile, Needs, NoScore, PointwiseVerifier, Score, VerifierConfig


class Endpoint(VerifierConfig):
    """One of the scores that the component gives."""

    name: str = Field(min_length=1)
    """What it is called in `values`."""
    params: dict[str, JsonValue] = {}
    """Parameters of this endpoint alone."""
    transform: Transform | None = None
    """Applied to its score; None: the component's own number."""


class ReinventComponentConfig(HostingConfig):
    file: DataFile
    """The component, a `comp_*.py`."""
    helpers: tuple[DataFile, ...] = ()
    """Further files or folders that it imports (from beside it) or reads."""
    component: str = ""
    """Its class, in any spelling that REINVENT takes; default: the only one that is tagged."""
    endpoints: tuple[Endpoint, ...] = (Endpoint(name="score"),)
    """In the order of the component's scores."""
    params: dict[str, JsonValue] = {}
    """Parameters of all endpoints."""
    score: str = ""
    """The endpoint that is the verifier's score; default: the first. The others stand in `values`."""

    @model_validator(mode="after")
    def _known(self) -> ReinventComponentConfig:
        names = [endpoint.name for endpoint in self.endpoints]
        if not names:
            raise ValueError("endpoints: name at least one")
        if len({*names}) < len(names):
            raise ValueError(f"endpoints: two have the same name; each needs its own, there are {', '.join(names)}")
        if self.score and self.score not in names:
            raise ValueError(f"score: {self.score!r} is no endpoint; there are {', '.join(names)}")
        return self


class ReinventComponent(PointwiseVerifier):
    """The score of a REINVENT4 component, in its own unit; after a transform, 0 to 1 and no unit.

    `values` holds each endpoint's own number under its name, the transformed one under `NAME transformed`, and
    what the component tells beside (its metadata). A component that is tagged as a filter refuses what it scores 0.
    """

    name, version = "reinvent_component", "1"
    kinds = ("molecule",)
    Config = ReinventComponentConfig

    def __init__(self, config: ReinventComponentConfig):
        super().__init__(config)
        component, parameters = find_component(import_component(config.file), config.component)
        self.filter = getattr(component, "__component", "") == "filter"
        collected = _collected([{**config.params, **endpoint.params} for endpoint in config.endpoints])
        if parameters is None and collected:
            raise ValueError(f"{component.__name__} takes no parameters, and is given {', '.join(collected)}")
        self._component: Any = component(None if parameters is None else parameters(**collected))
        names = [endpoint.name for endpoint in config.endpoints]
        self._scored = names.index(config.score or names[0])

    @classmethod
    def needs_for(cls, config: Any) -> Needs:
        return needs_of(config, requirements=config.requirements)

    def verify(self, designs: Sequence[Design]) -> Iterable[Score | NoScore]:
        unread = [unreadable(design) for design in designs]
        asked = [str(design.value) for design, problem in zip(designs, unread, strict=True) if problem is None]
        answers = iter(self._answers(asked) if asked else [])
        for problem in unread:
            yield next(answers) if problem is None else problem

    def _answers(self, smiles: list[str]) -> list[Score | NoScore]:
        results = self._component(smiles)
        arrays = [list(array) for array in getattr(results, "scores", results)]
        wanted = len(self.config.endpoints)
        if len(arrays) != wanted:
            raise ValueError(f"the component gave {len(arrays)} arrays of scores; {wanted} endpoints are named")
        if wrong := [len(array) for array in arrays if len(array) != len(smiles)]:
            raise ValueError(f"the component gave {wrong[0]} scores for {len(smiles)} SMILES")
        told = _per_design(getattr(results, "metadata", None), len(smiles))
        return [self._answer([array[i] for array in arrays], told[i]) for i in range(len(smiles))]

    def _answer(self, row: list[Any], told: dict[str, Any]) -> Score | NoScore:
        values, final = dict(told), row[self._scored]
        for i, (endpoint, value) in enumerate(zip(self.config.endpoints, row, strict=True)):
            values[endpoint.name] = plain(value)
            if endpoint.transform is None:
                continue
            categorical = endpoint.transform.type == "value_mapping"
            if not categorical and not_a_number(value):
                continue  # told by what follows, where it is the score
            transformed = endpoint.transform(value if categorical else float(value))
            values[f"{endpoint.name} transformed"] = plain(transformed)
            final = transformed if i == self._scored else final
        name = self.config.endpoints[self._scored].name
        answer = scored(final, self.config, name=name, values=values)
        if self.filter and isinstance(answer, Score) and answer.score == 0:
            return dataclasses.replace(answer, accepted=False, reason=f"the filter {name} does not let it pass")
        return answer


def import_component(path: Path) -> Any:
    """The module of a component, as a part of REINVENT's package, so that its relative imports lead somewhere."""
    reinvent_names.provide()
    below = _folders_below(path)
    name = ".".join([reinvent_names.COMPONENTS, *["of_campaign"] * below])
    reinvent_names.package(reinvent_names.COMPONENTS, str([path.parent, *path.parents[1:]][below]))
    for i in range(1, below + 1):
        above = ".".join([reinvent_names.COMPONENTS, *["of_campaign"] * i])
        reinvent_names.package(above, str([path.parent, *path.parents[1:]][below - i]))
    return load_file(path, f"{name}.{path.stem}")


def find_component(module: Any, wanted: str) -> tuple[type, type | None]:
    """(class of the component, class of its parameters) in a module.

    Raises:
        ValueError: it has no such component, or several and none is named.
    """
    classes = [member for member in vars(module).values() if isinstance(member, type)]
    components = {_spelling(cls.__name__): cls for cls in classes if "__component" in vars(cls)}
    parameters = [cls for cls in classes if "__parameters" in vars(cls) and dataclasses.is_dataclass(cls)]
    there = ", ".join(cls.__name__ for cls in components.values())
    if not components:
        raise ValueError(f'{module.__file__} has no component: tag its class with @add_tag("__component")')
    if not wanted and len(components) > 1:
        raise ValueError(f"{module.__file__} has several components; name one of {there} as `component`")
    found = components.get(_spelling(wanted)) if wanted else next(iter(components.values()))
    if found is None:
        raise ValueError(f"{module.__file__} has no component {wanted!r}; there is {there}")
    return found, parameters[-1] if parameters else None


def _folders_below(path: Path) -> int:
    """How many folders below REINVENT's folder of components this one stands, as its relative imports tell."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        first = (node.module or "").partition(".")[0]
        if first in reinvent_names.BESIDE:
            return node.level - 1
        if first in reinvent_names.ABOVE:
            return max(0, node.level - 2)
    return 0


def _collected(parameters: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """One list for each parameter, with an entry for each endpoint; None where it is not given."""
    keys = dict.fromkeys(key for given in parameters for key in given)
    return {key: [given.get(key) for given in parameters] for key in keys}


def _per_design(metadata: Any, count: int) -> list[dict[str, Any]]:
    """Of what a component tells beside, the lists that have an entry for each SMILES."""
    told: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, members in (metadata or {}).items():
        if isinstance(members, str | bytes) or not hasattr(members, "__len__") or len(members) != count:
            continue
        for i, member in enumerate(members):
            told[i][str(key)] = plain(member)
    return told


def _spelling(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
