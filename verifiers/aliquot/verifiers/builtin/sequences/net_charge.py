"""Charge of a protein at a given pH, from the dissociation of its side chains and ends, each by itself.

pK values: Bjellqvist et al., Electrophoresis 14, 1023 (1993) and 15, 529 (1994); those of the N-terminus depend on the
residue there. Folding, neighbours and modifications are not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field, FiniteFloat, model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.sequences.reading import residues
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

BASIC = {"K": 10.0, "R": 12.0, "H": 5.98}
ACIDIC = {"D": 4.05, "E": 4.45, "C": 9.0, "Y": 10.0}
N_TERMINUS = {"A": 7.59, "M": 7.0, "S": 6.93, "P": 8.36, "T": 6.82, "V": 7.44, "E": 7.7}
N_TERMINUS_OTHER = 7.5
C_TERMINUS = {"D": 4.55, "E": 4.75}
C_TERMINUS_OTHER = 3.55


def charge(sequence: str, ph: float) -> float:
    """Net charge in elementary charges, by Henderson and Hasselbalch."""
    basic = [(BASIC[r], sequence.count(r)) for r in BASIC] + [(N_TERMINUS.get(sequence[0], N_TERMINUS_OTHER), 1)]
    acidic = [(ACIDIC[r], sequence.count(r)) for r in ACIDIC] + [(C_TERMINUS.get(sequence[-1], C_TERMINUS_OTHER), 1)]
    positive = sum(count / (1 + 10 ** (ph - pk)) for pk, count in basic)
    return positive - sum(count / (1 + 10 ** (pk - ph)) for pk, count in acidic)


class NetChargeConfig(VerifierConfig):
    ph: FiniteFloat = Field(default=7.4, ge=0, le=14)
    """At which the charge is taken."""
    minimum: FiniteFloat | None = None
    """Refuse proteins below it; None: no limit."""
    maximum: FiniteFloat | None = None
    """Refuse proteins above it; None: no limit."""

    @model_validator(mode="after")
    def _possible(self) -> NetChargeConfig:
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum={self.minimum:g} is above maximum={self.maximum:g}: nothing can pass")
        return self


class NetCharge(PointwiseVerifier):
    """Net charge, elementary charges: any number."""

    name, version = "net_charge", "1"
    kinds = ("sequence",)
    unit = "e"
    needs = Needs(seconds=1)
    Config = NetChargeConfig
    example = {"minimum": 0}
    fixtures = (
        Fixture.full("sequence", "KKKKKKKKKK", at_least=9.5, accepted=True),
        Fixture.zero("sequence", "DDDDDDDDDD", at_most=-9.9, accepted=False),
        Fixture.malformed("sequence", "MKLX"),
        Fixture.malformed("sequence", ""),
        Fixture.seeded("sequence", "MAEGEITTFTALTEK"),
    )

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        config = self.config
        for design in designs:
            net = charge(residues(design), config.ph)
            reason = ""
            if config.minimum is not None and net < config.minimum:
                reason = f"charge {net:.2f} at pH {config.ph:g} is below {config.minimum:g}"
            if config.maximum is not None and net > config.maximum:
                reason = f"charge {net:.2f} at pH {config.ph:g} is above {config.maximum:g}"
            yield Score(net, not reason, reason)
