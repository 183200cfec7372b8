"""Whether a molecule's scaffold is known already: the Murcko framework against those of a set of molecules.

Source: Bemis & Murcko, J. Med. Chem. 39, 2887 (1996). Molecules without a ring have the empty scaffold; it is known
when one of the set has no ring either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from pydantic import model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.builtin.molecules.references import ReferencesConfig
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score


class ScaffoldNoveltyConfig(ReferencesConfig):
    generic: bool = False
    """Compare frameworks of carbon and single bonds only, so that pyridine and benzene are the same."""
    refuse_known: bool = True
    """False: score only."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.references and self.file is None:
            raise ValueError("give the molecules to compare with, in `references` or in a `file`")
        return self


class ScaffoldNovelty(PointwiseVerifier):
    """1 for a new scaffold, 0 for a known one. No unit. `values["scaffold"]` is its SMILES."""

    name, version = "scaffold_novelty", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=5)
    bounds = (0.0, 1.0)
    Config = ScaffoldNoveltyConfig
    example = {"references": ["Cc1ccccc1"]}
    fixtures = (
        Fixture.full("molecule", "Cc1ccncc1", at_least=1, accepted=True),
        Fixture.zero("molecule", "Oc1ccccc1", at_most=0, accepted=False),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "C1CCNCC1"),
    )

    def __init__(self, config: ScaffoldNoveltyConfig):
        super().__init__(config)
        self._known = {self._scaffold(molecule) for molecule in config.molecules()}

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        for design in designs:
            scaffold = self._scaffold(parse(design))
            known = scaffold in self._known
            reason = f"the scaffold {scaffold or '(no ring)'} is known" if known else ""
            yield Score(float(not known), not (known and self.config.refuse_known), reason, {"scaffold": scaffold})

    def _scaffold(self, molecule: Any) -> str:
        from rdkit import Chem
        from rdkit.Chem.Scaffolds import MurckoScaffold

        scaffold = MurckoScaffold.GetScaffoldForMol(molecule)
        if self.config.generic:
            # a framework made generic may have single atoms where there were double bonds to its outside: trim them
            scaffold = MurckoScaffold.GetScaffoldForMol(MurckoScaffold.MakeScaffoldGeneric(scaffold))
        return Chem.MolToSmiles(scaffold, isomericSmiles=False)
