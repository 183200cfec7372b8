"""One property of a molecule, with limits: log P, polar surface, weight, counts of rings, bonds and atoms.

Sources: log P and molar refractivity, Wildman & Crippen, J. Chem. Inf. Comput. Sci. 39, 868 (1999); polar surface (N
and O), Ertl, Rohde & Selzer, J. Med. Chem. 43, 3714 (2000); complexity, Bertz, J. Am. Chem. Soc. 103, 3599 (1981);
the rest are counts, as RDKit's `Descriptors` makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from pydantic import ValidationInfo, field_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

PropertyName = Literal[
    "logp", "tpsa", "molecular_weight", "exact_mass", "molar_refractivity", "heavy_atoms", "atoms", "heteroatoms",
    "hydrogen_bond_donors", "hydrogen_bond_acceptors", "nh_and_oh", "n_and_o", "rotatable_bonds", "rings",
    "aromatic_rings", "aliphatic_rings", "fraction_sp3", "formal_charge", "stereocentres", "complexity",
]  # fmt: skip

UNITS: dict[str, str] = {"tpsa": "Å²", "molecular_weight": "g/mol", "exact_mass": "Da"}
"""Of the properties that have one."""

RDKIT_NAMES: dict[str, str] = {
    "logp": "MolLogP", "tpsa": "TPSA", "molecular_weight": "MolWt", "exact_mass": "ExactMolWt",
    "molar_refractivity": "MolMR", "heavy_atoms": "HeavyAtomCount", "heteroatoms": "NumHeteroatoms",
    "hydrogen_bond_donors": "NumHDonors", "hydrogen_bond_acceptors": "NumHAcceptors", "nh_and_oh": "NHOHCount",
    "n_and_o": "NOCount", "rotatable_bonds": "NumRotatableBonds", "rings": "RingCount",
    "aromatic_rings": "NumAromaticRings", "aliphatic_rings": "NumAliphaticRings", "fraction_sp3": "FractionCSP3",
    "complexity": "BertzCT",
}  # fmt: skip


class DescriptorConfig(VerifierConfig):
    property: PropertyName
    """Which one; `nh_and_oh` and `n_and_o` are the counts that Lipinski's rule takes for donors and acceptors."""
    minimum: float | None = None
    """Refuse molecules below it, in the property's unit; None: no limit."""
    maximum: float | None = None
    """Refuse molecules above it; None: no limit."""

    @field_validator("maximum")
    @classmethod
    def _ordered(cls, maximum: float | None, info: ValidationInfo) -> float | None:
        minimum = info.data.get("minimum")
        if None not in (minimum, maximum) and minimum > maximum:  # type: ignore[operator]
            raise ValueError(f"the maximum is below the minimum, {minimum:g}: nothing could pass")
        return maximum


class Descriptor(PointwiseVerifier):
    """The property itself, in its own unit: Å² for `tpsa`, g/mol for `molecular_weight`, none for most."""

    name, version = "descriptor", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=2)
    Config = DescriptorConfig
    example = {"property": "logp", "minimum": -1, "maximum": 5}
    fixtures = (
        Fixture.full("molecule", "CC(=O)Oc1ccccc1C(=O)O", at_least=1.3, at_most=1.32, accepted=True),
        Fixture.zero("molecule", "OCC(O)C(O)C(O)C(O)CO", at_most=-3, accepted=False),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "CC(=O)Oc1ccccc1C(=O)O"),
    )

    def __init__(self, config: DescriptorConfig):
        super().__init__(config)
        self._of = function_of(config.property)

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        low, high, name = self.config.minimum, self.config.maximum, self.config.property
        for design in designs:
            value = self._of(parse(design))
            if low is not None and value < low:
                reason = f"{name} {value:.4g} is below {low:g}"
            elif high is not None and value > high:
                reason = f"{name} {value:.4g} is above {high:g}"
            else:
                reason = ""
            yield Score(value, not reason, reason)


def function_of(name: str) -> Callable[[Any], float]:
    """The function from an RDKit molecule to this property."""
    from rdkit import Chem
    from rdkit.Chem import Descriptors

    if name == "formal_charge":
        return lambda molecule: float(Chem.GetFormalCharge(molecule))
    if name == "atoms":
        return lambda molecule: float(molecule.GetNumAtoms(onlyExplicit=False))
    if name == "stereocentres":
        return lambda molecule: float(len(Chem.FindMolChiralCenters(molecule, includeUnassigned=True)))
    function = getattr(Descriptors, RDKIT_NAMES[name])
    return lambda molecule: float(function(molecule))
