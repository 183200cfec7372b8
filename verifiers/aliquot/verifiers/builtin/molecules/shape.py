"""How well the three-dimensional shape of a molecule can cover that of a reference molecule.

Conformers by ETKDG (Riniker & Landrum, J. Chem. Inf. Model. 55, 2562, 2015; Wang et al., ibid. 60, 2044, 2020);
Gaussian shape overlap (Grant, Gallardo & Pickup, J. Comput. Chem. 17, 1653, 1996), aligned by RDKit's `rdShapeAlign`.
The seed is fixed, so the score of a design is always the same. It takes a thousand times as long as a fingerprint:
put it late.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field, field_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.parsing import parse, parse_smiles, valid_smiles
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

RADIUS_KNOWN = {*range(0, 21), *range(31, 39), *range(49, 57), *range(81, 89)}
"""Atomic numbers that the alignment knows a radius of: the main groups (a dummy atom, 0, is passed over)."""


class ShapeConfig(VerifierConfig):
    reference: str
    """SMILES of the molecule whose shape is wanted; its first conformer is taken."""
    conformers: int = Field(default=4, ge=1, le=100)
    """Conformers of the design, of which the best counts."""
    minimum: float | None = Field(default=None, ge=0, le=1)
    """Refuse molecules below it; None: score only."""
    largest: int = Field(default=70, ge=1, le=200)
    """Heavy atoms of a molecule that is tried at all; embedding takes the time of their cube."""
    seed: int = Field(default=7, ge=0)
    """Where the search for conformers starts."""

    @field_validator("reference")
    @classmethod
    def _parse(cls, reference: str) -> str:
        valid_smiles((reference,))
        return reference


class Shape(PointwiseVerifier):
    """Shape Tanimoto, no unit, 0 to 1; 0, refused, where no conformer is found. Hydrogens do not count."""

    name, version = "shape", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=120)
    bounds = (0.0, 1.0)
    Config = ShapeConfig
    example = {"reference": "CC(C)Cc1ccc(cc1)C(C)C(=O)O", "conformers": 1}
    fixtures = (
        Fixture.full("molecule", "CC(C)Cc1ccc(cc1)C(C)C(=O)O", at_least=0.99),
        Fixture.zero("molecule", "C", at_most=0.15),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "CC(=O)Oc1ccccc1C(=O)O"),
    )

    def __init__(self, config: ShapeConfig):
        super().__init__(config)
        from rdkit.Chem import rdDistGeom, rdShapeAlign

        self._embed, self._align = rdDistGeom.EmbedMultipleConfs, rdShapeAlign.AlignMol
        parameters: Any = rdDistGeom.ETKDGv3()
        parameters.randomSeed, parameters.numThreads = config.seed, 1
        self._parameters = parameters
        reference, found = self._embedded(parse_smiles(config.reference), 1)
        if not found:
            raise ValueError(f"no conformer of the reference {config.reference} was found")
        self._reference = rdShapeAlign.PrepareConformer(reference, found[0])

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        minimum = self.config.minimum
        for design in designs:
            molecule, found = self._embedded(parse(design), self.config.conformers)
            if not found:
                yield Score(0.0, accepted=False, reason="it has no three-dimensional structure to compare")
                continue
            value = min(max(self._overlap(molecule, each) for each in found), 1.0)
            accepted = minimum is None or value >= minimum
            yield Score(value, accepted, "" if accepted else f"shape similarity {value:.3f} is below {minimum:g}")

    def _overlap(self, molecule: Any, conformer: int) -> float:
        """The largest shape Tanimoto; moves the conformer there."""
        shape, _ = self._align(self._reference, molecule, conformer, useColors=False, opt_param=1.0)
        return float(shape)

    def _embedded(self, molecule: Any, conformers: int) -> tuple[Any, list[int]]:
        """A copy with hydrogens and conformers, and the conformers' ids; none where a shape cannot be made of it."""
        from rdkit import Chem

        numbers = {atom.GetAtomicNum() for atom in molecule.GetAtoms()}
        # The alignment knows no radius of a metal, and without any heavy atom it would crash the process.
        if not numbers - {0, 1} or not numbers <= RADIUS_KNOWN or molecule.GetNumHeavyAtoms() > self.config.largest:
            return molecule, []
        with_hydrogens = Chem.AddHs(molecule)
        return with_hydrogens, list(self._embed(with_hydrogens, conformers, self._parameters))
