"""Whether a design can be read back: for molecules, RDKit parsing and sanitisation (valence, aromaticity).

Conditions and sequences are made well-formed by their design spaces and always pass. Source: RDKit's
`SanitizeMol`, https://www.rdkit.org/docs/RDKit_Book.html#molecular-sanitization.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.parsing import parse_smiles
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class Validity(PointwiseVerifier):
    """1 for a valid design, 0 (refused) for another. No unit."""

    name, version = "validity", "1"
    needs = Needs(seconds=2)
    bounds = (0.0, 1.0)
    fixtures = (
        Fixture.full("molecule", "CC(=O)Oc1ccccc1C(=O)O", at_least=1, accepted=True),
        Fixture.zero("molecule", "CN(C)(C)(C)C", at_most=0, accepted=False),
        Fixture.malformed("molecule", "c1cccc1", accepted=False),
        Fixture.seeded("molecule", "CCO"),
    )

    def __init__(self, config: VerifierConfig):
        super().__init__(config)
        parse_smiles("C")

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        for design in designs:
            if design.kind == "molecule" and parse_smiles(str(design.value)) is None:
                yield Score(0.0, accepted=False, reason=f"{design.value!r} does not parse or fails sanitisation")
            else:
                yield Score(1.0)
