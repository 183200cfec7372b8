"""How similar a molecule is to known ones, by fingerprints: to be near them, to keep away from them, or both.

Tanimoto similarity of the fingerprints that `fingerprints` names. For similarity to what the campaign itself proposed
before, take `novelty`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.fingerprints import FingerprintName, fingerprint, similarities
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.builtin.molecules.references import ReferencesConfig
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score


class SimilarityConfig(ReferencesConfig):
    fingerprint: FingerprintName = "ecfp4"
    """What is compared."""
    to: Literal["nearest", "mean"] = "nearest"
    """The largest of the similarities to the references, or their mean."""
    minimum: float = Field(default=0.0, ge=0, le=1)
    """Refuse molecules below it."""
    maximum: float = Field(default=1.0, ge=0, le=1)
    """Refuse molecules above it; this asks for dissimilarity."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not self.references and self.file is None:
            raise ValueError("give the molecules to compare with, in `references` or in a `file`")
        if self.minimum > self.maximum:
            raise ValueError(f"the maximum, {self.maximum:g}, is below the minimum, {self.minimum:g}")
        return self


class Similarity(PointwiseVerifier):
    """Tanimoto similarity, no unit, 0 (nothing shared) to 1 (the same fingerprint)."""

    name, version = "similarity", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=5)
    bounds = (0.0, 1.0)
    Config = SimilarityConfig
    example = {"references": ["CC(=O)Oc1ccccc1C(=O)O"]}
    fixtures = (
        Fixture.full("molecule", "CC(=O)Oc1ccccc1C(=O)O", at_least=1),
        Fixture.zero("molecule", "C", at_most=0),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "O=C(O)c1ccccc1O"),
    )

    def __init__(self, config: SimilarityConfig):
        super().__init__(config)
        self._of = fingerprint(config.fingerprint)
        self._references = [self._of(molecule) for molecule in config.molecules()]
        if not self._references:
            raise ValueError(f"{config.file} holds no molecule")

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        low, high = self.config.minimum, self.config.maximum
        for design in designs:
            all_of_them = similarities(self._of(parse(design)), self._references)
            value = max(all_of_them) if self.config.to == "nearest" else sum(all_of_them) / len(all_of_them)
            if value < low:
                reason = f"similarity {value:.3f} is below {low:g}"
            else:
                reason = f"similarity {value:.3f} is above {high:g}" if value > high else ""
            yield Score(value, not reason, reason)
