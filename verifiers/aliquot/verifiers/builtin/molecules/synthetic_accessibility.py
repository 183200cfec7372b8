"""Synthetic accessibility: from 1 (easy to make) to 10 (hard), by fragment frequency and complexity penalties.

Source: Ertl & Schuffenhauer, Journal of Cheminformatics 1, 8 (2009), in RDKit's contributed `SA_Score`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class SyntheticAccessibilityConfig(VerifierConfig):
    maximum: float | None = Field(default=None, ge=1, le=10)
    """Refuse molecules above it; None: score only."""


class SyntheticAccessibility(PointwiseVerifier):
    """SA score, no unit, 1 (easy) to 10 (hard)."""

    name, version = "synthetic_accessibility", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=2)
    bounds = (1.0, 10.0)
    Config = SyntheticAccessibilityConfig
    fixtures = (
        Fixture.full("molecule", "C1CN2CC3=CCOC4CC(=O)N5C6C4C3CC2C61C7=CC=CC=C75", at_least=4),
        Fixture.zero("molecule", "CC(=O)Oc1ccccc1C(=O)O", at_most=2),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "CC(=O)Oc1ccccc1C(=O)O"),
    )

    def __init__(self, config: SyntheticAccessibilityConfig):
        super().__init__(config)
        from rdkit.Contrib.SA_Score import sascorer

        sascorer.readFragmentScores()
        self._score = sascorer.calculateScore

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        maximum = self.config.maximum
        for design in designs:
            value = float(self._score(parse(design)))
            accepted = maximum is None or value <= maximum
            yield Score(value, accepted, "" if accepted else f"SA score {value:.2f} is above {maximum:g}")
