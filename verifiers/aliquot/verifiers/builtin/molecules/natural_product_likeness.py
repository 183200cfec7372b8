"""How much a molecule looks like a natural product: from about −5 (synthetic) to about 5 (natural).

Source: Ertl, Roggo & Schuffenhauer, J. Chem. Inf. Model. 48, 68 (2008), in RDKit's contributed `NP_Score` with its
model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class NaturalProductLikenessConfig(VerifierConfig):
    minimum: float | None = Field(default=None, ge=-6, le=6)
    """Refuse molecules below it; None: score only."""


class NaturalProductLikeness(PointwiseVerifier):
    """NP score, no unit, about −5 to 5 (beyond ±4 it grows with the logarithm only).

    `values["confidence"]` is the share of its atom environments that the model knows.
    """

    name, version = "natural_product_likeness", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=2, startup_seconds=120)
    bounds = (-6.0, 6.0)
    Config = NaturalProductLikenessConfig
    fixtures = (
        Fixture.full("molecule", "CN1CCC23C4C1CC5=C2C(=C(C=C5)O)OC3C(C=C4)O", at_least=1),
        Fixture.zero("molecule", "CC1=CC=C(C=C1)C1=CC(=NN1C1=CC=C(C=C1)S(N)(=O)=O)C(F)(F)F", at_most=-0.5),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "CC(=O)Oc1ccccc1C(=O)O"),
    )

    def __init__(self, config: NaturalProductLikenessConfig):
        super().__init__(config)
        from rdkit.Contrib.NP_Score import npscorer

        self._model = npscorer.readNPModel()
        self._score = npscorer.scoreMolWConfidence

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        minimum = self.config.minimum
        for design in designs:
            found = self._score(parse(design), self._model)
            value = float(found.nplikeness)
            accepted = minimum is None or value >= minimum
            reason = "" if accepted else f"natural product likeness {value:.2f} is below {minimum:g}"
            yield Score(value, accepted, reason, {"confidence": float(found.confidence)})
