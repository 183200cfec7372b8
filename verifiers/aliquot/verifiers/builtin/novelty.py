"""How unlike a molecule is to everything known: 1 − the largest Tanimoto similarity of ECFP4 fingerprints.

What is known is a list of references and a memory of the designs accepted so far, the newest `remember` of them; a
refused design is not remembered. ECFP4 is the Morgan fingerprint of radius 2, 2048 bits: Rogers & Hahn, J. Chem. Inf.
Model. 50, 742 (2010).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field, field_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecule import parse, parse_smiles, valid_smiles
from aliquot.verifiers.sdk import Needs, Score, SetVerifier, VerifierConfig


class NoveltyConfig(VerifierConfig):
    references: tuple[str, ...] = ()
    """SMILES of known molecules."""
    remember: int = Field(default=10_000, ge=0, le=100_000)
    """How many accepted designs are kept beside them; 0: the references only."""
    minimum: float | None = Field(default=None, ge=0, le=1)
    """Refuse molecules below it; None: score only."""

    @field_validator("references")
    @classmethod
    def _parse(cls, references: tuple[str, ...]) -> tuple[str, ...]:
        return valid_smiles(references)


class Novelty(SetVerifier):
    """1 − largest similarity, no unit: 0 (known) to 1; 1 when nothing is known yet."""

    name, version = "novelty", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=2)
    Config = NoveltyConfig

    def __init__(self, config: NoveltyConfig):
        super().__init__(config)
        from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
        from rdkit.DataStructs import BulkTanimotoSimilarity

        self._fingerprint = GetMorganGenerator(radius=2, fpSize=2048).GetFingerprint
        self._similarities = BulkTanimotoSimilarity
        self._references = [self._fingerprint(parse_smiles(s)) for s in config.references]
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
