"""The pH at which a protein has no net charge. Charges and their sources: `net_charge`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field, FiniteFloat, model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.sequences.net_charge import charge
from aliquot.verifiers.builtin.sequences.reading import residues
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


def isoelectric_point(sequence: str) -> float:
    """By bisection over pH 0 to 14, to 1e-6; the charge falls with every step of pH."""
    low, high = 0.0, 14.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if charge(sequence, middle) > 0 else (low, middle)
    return (low + high) / 2


class IsoelectricPointConfig(VerifierConfig):
    low: FiniteFloat = Field(default=0.0, ge=0, le=14)
    """Lowest isoelectric point that is accepted."""
    high: FiniteFloat = Field(default=14.0, ge=0, le=14)
    """Highest isoelectric point that is accepted."""
    avoid: FiniteFloat | None = Field(default=None, ge=0, le=14)
    """pH of the buffer, from which to keep away: a protein dissolves worst at its isoelectric point."""
    distance: FiniteFloat = Field(default=1.0, gt=0)
    """How far to keep away, pH units."""

    @model_validator(mode="after")
    def _possible(self) -> IsoelectricPointConfig:
        if self.low > self.high:
            raise ValueError(f"low={self.low:g} is above high={self.high:g}: nothing can pass")
        return self


class IsoelectricPoint(PointwiseVerifier):
    """Isoelectric point, pH: 0 to 14."""

    name, version = "isoelectric_point", "1"
    kinds = ("sequence",)
    unit = "pH"
    bounds = (0.0, 14.0)
    needs = Needs(seconds=1)
    Config = IsoelectricPointConfig
    example = {"avoid": 7.4}
    fixtures = (
        Fixture.full("sequence", "RRRRRRRRRR", at_least=12.0, accepted=True),
        Fixture.zero("sequence", "DDDDDDDDDD", at_most=3.5, accepted=True),
        Fixture.malformed("sequence", "MKLX"),
        Fixture.malformed("sequence", ""),
        Fixture.seeded("sequence", "MAEGEITTFTALTEK"),
    )

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        config = self.config
        for design in designs:
            point = isoelectric_point(residues(design))
            reasons = []
            if not config.low <= point <= config.high:
                reasons.append(f"isoelectric point {point:.2f} is outside {config.low:g} to {config.high:g}")
            if config.avoid is not None and abs(point - config.avoid) < config.distance:
                reasons.append(f"isoelectric point {point:.2f} is within {config.distance:g} of pH {config.avoid:g}")
            yield Score(point, not reasons, "; ".join(reasons))
