"""How unlike a molecule is to everything known: 1 − the largest Tanimoto similarity of ECFP4 fingerprints.

What is known is a set of references and a memory of the designs accepted so far, the newest `remember` of them; a
refused design is not remembered. ECFP4 is the Morgan fingerprint of radius 2, 2048 bits: Rogers & Hahn, J. Chem. Inf.
Model. 50, 742 (2010).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.parsing import parse, parse_smiles
from aliquot.verifiers.builtin.molecules.references import ReferencesConfig
from aliquot.verifiers.sdk import Fixture, Needs, Score, SetVerifier


class NoveltyConfig(ReferencesConfig):
    remember: int = Field(default=10_000, ge=0, le=100_000)
    """How many accepted designs are kept beside them; 0: the references only."""
    minimum: float | None = Field(default=None, ge=0, le=1)
    """Refuse molecules below it; None: score only."""


class Novelty(SetVerifier):
    """1 − largest similarity, no unit: 0 (known) to 1; 1 when nothing is known yet."""

    name, version = "novelty", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=2)
    bounds = (0.0, 1.0)
    Config = NoveltyConfig
    example = {"references": ["CC(=O)Oc1ccccc1C(=O)O"]}
    fixtures = (
        Fixture.full("molecule", "C", at_least=1),
        Fixture.zero("molecule", "CC(=O)Oc1ccccc1C(=O)O", at_most=0),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "O=C(O)c1ccccc1O"),
    )

    def __init__(self, config: NoveltyConfig):
        super().__init__(config)
        from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
        from rdkit.DataStructs import BulkTanimotoSimilarity

        self._fingerprint = GetMorganGenerator(radius=2, fpSize=2048).GetFingerprint
        self._similarities = BulkTanimotoSimilarity
        self._references = [self._fingerprint(molecule) for molecule in config.molecules()]
        self.restore([])

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        minimum = self.config.minimum
        for design in designs:
            fingerprint = self._fingerprint(parse(design))
            value = 1.0 - max(
                max(self._similarities(fingerprint, self._references), default=0.0),
                max(self._similarities(fingerprint, list(self._remembered)), default=0.0),
            )
            accepted = minimum is None or value >= minimum
            if accepted:
                self._smiles.append(design.value)
                self._remembered.append(fingerprint)
            yield Score(value, accepted, "" if accepted else f"novelty {value:.3f} is below {minimum:g}")

    def state(self) -> Any:
        return list(self._smiles)

    def restore(self, state: Any) -> None:
        size = self.config.remember
        self._smiles = deque(state, maxlen=size)
        self._remembered = deque((self._fingerprint(parse_smiles(s)) for s in self._smiles), maxlen=size)
