"""Substructures that a molecule must have, or must not have, as SMARTS patterns.

Source of the language: Daylight's theory manual, chapter 4, as RDKit reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Self

from pydantic import field_validator, model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class SubstructureConfig(VerifierConfig):
    must: tuple[str, ...] = ()
    """SMARTS of what must be there."""
    need: Literal["all", "any"] = "all"
    """Whether all of `must`, or at least one."""
    must_not: tuple[str, ...] = ()
    """SMARTS of what must not be there."""

    @field_validator("must", "must_not")
    @classmethod
    def _parse(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        from rdkit import Chem, rdBase

        with rdBase.BlockLogs():
            wrong = [f"[{i}] {p!r}" for i, p in enumerate(patterns) if not p or Chem.MolFromSmarts(p) is None]
        if wrong:
            raise ValueError(f"not valid SMARTS: {', '.join(wrong)}")
        return patterns

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.must or self.must_not):
            raise ValueError("give at least one SMARTS, in `must` or in `must_not`")
        return self


class Substructure(PointwiseVerifier):
    """Share of the conditions that hold, no unit, 0 to 1; accepted when all do. `need: any` makes `must` one."""

    name, version = "substructure", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=5)
    bounds = (0.0, 1.0)
    Config = SubstructureConfig
    example = {"must": ["c1ccccc1"], "must_not": ["[N+](=O)[O-]"]}
    fixtures = (
        Fixture.full("molecule", "Cc1ccccc1", at_least=1, accepted=True),
        Fixture.zero("molecule", "C[N+](=O)[O-]", at_most=0, accepted=False),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "O=[N+]([O-])c1ccccc1"),
    )

    def __init__(self, config: SubstructureConfig):
        super().__init__(config)
        from rdkit import Chem

        self._must = [(smarts, Chem.MolFromSmarts(smarts)) for smarts in config.must]
        self._must_not = [(smarts, Chem.MolFromSmarts(smarts)) for smarts in config.must_not]

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        some = self.config.need == "any" and bool(self._must)
        conditions = len(self._must_not) + (1 if some else len(self._must))
        for design in designs:
            molecule = parse(design)
            lacking = [smarts for smarts, pattern in self._must if not molecule.HasSubstructMatch(pattern)]
            found = [smarts for smarts, pattern in self._must_not if molecule.HasSubstructMatch(pattern)]
            if some:
                lacking = [" or ".join(lacking)] if len(lacking) == len(self._must) else []
            reasons = [f"it lacks {smarts}" for smarts in lacking] + [f"it has {smarts}" for smarts in found]
            yield Score(1.0 - len(reasons) / conditions, not reasons, "; ".join(reasons))
