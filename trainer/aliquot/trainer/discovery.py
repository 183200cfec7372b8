"""Sections of a config that are told apart by their `type`, and found, not listed.

A family is every subclass of its base that gives `type` a default: those in the modules of the family's own folder,
those that an installed package announces under the family's entry point group (`name = "module:Class"`, the name being
the type), and any other that somebody has imported. A new file in the folder is all that a new member takes.

    LossConfig = Annotated[SerializeAsAny[Loss], Family("loss", Loss, "aliquot.trainer.losses", "aliquot.losses")]

makes a field that takes a member or a mapping with its `type`, writes all of the member's fields, and describes every
member in its JSON schema.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from aliquot.domain import Noun


@dataclass(frozen=True)
class Family:
    """What a config may name where a `base` is wanted."""

    word: str
    """What messages call a member."""
    base: type[Noun]
    package: str
    """The package whose modules are the built-in members."""
    group: str
    """Entry point group of members from other packages."""

    def members(self) -> dict[str, type[Noun]]:
        """Every member by its type; installed ones are imported.

        Raises:
            ValueError: an entry point is not what it says.
            TypeError: two members have the same type.
        """
        known = self._imported()
        for point in entry_points(group=self.group):
            if point.name not in known:
                known[point.name] = self._load(point)
        return known

    def member(self, name: str) -> type[Noun]:
        """The member of this type; only that one is imported if it comes from another package.

        Raises:
            ValueError: there is none; the message names the types there are.
            TypeError: two members have the same type.
        """
        known = self._imported()
        if name in known:
            return known[name]
        installed = {point.name: point for point in entry_points(group=self.group)}
        if name in installed:
            return self._load(installed[name])
        names = sorted({*known, *installed})
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"no such {self.word}; {hint}known: {', '.join(names)}")

    def _imported(self) -> dict[str, type[Noun]]:
        for module in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
            importlib.import_module(f"{self.package}.{module.name}")
        found: dict[str, type[Noun]] = {}
        for cls in dict.fromkeys(_below(self.base)):
            name = cls.model_fields["type"].default
            if not isinstance(name, str):
                continue
            if name in found:
                there = f"{found[name].__module__}.{found[name].__name__} and {cls.__module__}.{cls.__name__}"
                raise TypeError(f"two {self.word} classes have the type {name!r}: {there}; rename one")
            found[name] = cls
        return dict(sorted(found.items()))

    def _load(self, point: EntryPoint) -> type[Noun]:
        try:
            cls = point.load()
        except (ImportError, AttributeError) as error:
            raise ValueError(f"{point.value} does not import: {error}; mend or uninstall its package") from error
        is_one = isinstance(cls, type) and issubclass(cls, self.base)
        if not is_one or cls.model_fields["type"].default != point.name:
            wanted = f"a subclass of {self.base.__module__}.{self.base.__name__} whose type is {point.name!r}"
            raise ValueError(f"the entry point {point.name} of {self.group} must name {wanted}, not {point.value}")
        return cls

    def _choose(self, value: Any) -> Noun:
        if isinstance(value, self.base):
            return value
        if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
            where = ("type",) if isinstance(value, Mapping) else ()
            known = ", ".join(sorted({*self._imported(), *entry_points(group=self.group).names}))
            raise self._wrong(where, value, f"a {self.word} is a section with its `type`, which is one of {known}")
        try:
            cls = self.member(value["type"])
        except ValueError as error:
            raise self._wrong(("type",), value["type"], str(error)) from error
        names = list(cls.model_fields)
        for key in value:
            if key not in names:
                near = get_close_matches(str(key), names, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise self._wrong((str(key),), value[key], f"unknown key; {hint}known here: {', '.join(names)}")
        return cls.model_validate(value)

    def _wrong(self, where: tuple[str, ...], value: Any, message: str) -> ValidationError:
        told = PydanticCustomError("family", "{message}", {"message": message})
        return ValidationError.from_exception_data(self.word, [InitErrorDetails(type=told, loc=where, input=value)])

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._choose, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"oneOf": [handler(cls.__pydantic_core_schema__) for cls in self.members().values()]}


def _below(cls: type[Noun]) -> Iterator[type[Noun]]:
    for child in cls.__subclasses__():
        yield child
        yield from _below(child)
