"""Which atoms may occur, and how: elements, valences, charges, radicals, isotopes, separate parts.

Sanitisation (`validity`) refuses what chemistry forbids; this refuses what the chemist does not want. Valence is the
sum of bond orders with hydrogens, as RDKit counts it (`Atom.GetTotalValence`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field, field_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class AllowedAtomsConfig(VerifierConfig):
    elements: tuple[str, ...] = Field(default=("B", "C", "N", "O", "F", "P", "S", "Cl", "Br", "I"), min_length=1)
    """Symbols of those that may occur; hydrogen always may."""
    valences: Mapping[str, tuple[int, ...]] = {}
    """Of elements that are not free in it, e.g. `S: [2, 6]`. For uncharged atoms."""
    charged_atoms: int = Field(default=2, ge=0)
    """Atoms that may carry a charge; a nitro group has two."""
    net_charge: int = Field(default=0, ge=0)
    """Largest charge of the whole, positive or negative."""
    radicals: bool = False
    """Whether atoms may have unpaired electrons."""
    isotopes: bool = False
    """Whether atoms may be labelled with an isotope."""
    parts: int = Field(default=1, ge=1)
    """Separate parts, such as a salt's ions."""

    @field_validator("elements", "valences")
    @classmethod
    def _known(cls, symbols: Any) -> Any:
        from rdkit import Chem

        known = {Chem.GetPeriodicTable().GetElementSymbol(number) for number in range(1, 119)}
        if wrong := [symbol for symbol in symbols if symbol not in known]:
            raise ValueError(f"no symbols of elements: {', '.join(map(repr, wrong))}")
        return symbols


class AllowedAtoms(PointwiseVerifier):
    """Number of objections, 0 (accepted) upwards. `values["objections"]` says them."""

    name, version = "allowed_atoms", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=2)
    bounds = (0.0, None)
    Config = AllowedAtomsConfig
    fixtures = (
        Fixture.full("molecule", "O=[N+]([O-])c1ccccc1", at_least=0, at_most=0, accepted=True),
        Fixture.zero("molecule", "C[Si](C)(C)C", at_least=1, at_most=1, accepted=False),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "[Na+].[Cl-]"),
    )

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        for design in designs:
            objections = self._objections(parse(design))
            yield Score(float(len(objections)), not objections, "; ".join(objections), {"objections": objections})

    def _objections(self, molecule: Any) -> list[str]:
        from rdkit import Chem

        config, said = self.config, []
        for atom in molecule.GetAtoms():
            symbol = atom.GetSymbol()
            where = f"{symbol} (atom {atom.GetIdx() + 1})"
            if symbol not in config.elements and symbol != "H":
                said.append(f"{where} is none of the allowed elements")
            allowed = config.valences.get(symbol)
            if allowed is not None and not atom.GetFormalCharge() and atom.GetTotalValence() not in allowed:
                said.append(f"{where} has the valence {atom.GetTotalValence()}, not {' or '.join(map(str, allowed))}")
            if atom.GetNumRadicalElectrons() and not config.radicals:
                said.append(f"{where} is a radical")
            if atom.GetIsotope() and not config.isotopes:
                said.append(f"{where} is the isotope {atom.GetIsotope()}")
        charged = sum(atom.GetFormalCharge() != 0 for atom in molecule.GetAtoms())
        if charged > config.charged_atoms:
            said.append(f"{charged} atoms are charged; {config.charged_atoms} may be")
        if abs(charge := Chem.GetFormalCharge(molecule)) > config.net_charge:
            said.append(f"the charge is {charge:+d}; {config.net_charge} is the most")
        if (parts := len(Chem.GetMolFrags(molecule))) > config.parts:
            said.append(f"it consists of {parts} parts; {config.parts} may be")
        return said
