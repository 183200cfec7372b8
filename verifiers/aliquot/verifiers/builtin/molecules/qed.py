"""Quantitative estimate of drug-likeness: the weighted geometric mean of eight property desirabilities, in (0, 1).

Source: Bickerton, Paolini, Besnard, Muresan & Hopkins, Nature Chemistry 4, 90 (2012), as RDKit's `QED.qed` computes it
with the average of the best weights (the paper's QED_w,mo).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class QedConfig(VerifierConfig):
    minimum: float | None = Field(default=None, ge=0, le=1)
    """Refuse molecules below it; None: score only."""


class Qed(PointwiseVerifier):
    """QED, no unit, 0 (not drug-like) to 1."""

    name, version = "qed", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=2)
    bounds = (0.0, 1.0)
    Config = QedConfig
    fixtures = (
        Fixture.full("molecule", "COc1ccc2c(c1)CCN2S(=O)(=O)c1ccccc1", at_least=0.8),
        Fixture.zero("molecule", "CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC", at_most=0.1),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "CC(=O)Oc1ccccc1C(=O)O"),
    )

    def __init__(self, config: QedConfig):
        super().__init__(config)
        from rdkit.Chem.QED import qed

        self._qed = qed

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        minimum = self.config.minimum
        for design in designs:
            value = float(self._qed(parse(design)))
            accepted = minimum is None or value >= minimum
            yield Score(value, accepted, "" if accepted else f"QED {value:.3f} is below {minimum:g}")
