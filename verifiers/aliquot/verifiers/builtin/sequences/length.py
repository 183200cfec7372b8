"""How long a sequence is, with limits and, for reading frames, a divisor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field, model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.sequences.reading import symbols
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class LengthConfig(VerifierConfig):
    minimum: int = Field(default=1, ge=1)
    """Fewest symbols."""
    maximum: int | None = Field(default=None, ge=1)
    """None: no limit."""
    multiple_of: int = Field(default=1, ge=1)
    """3 for whole codons."""

    @model_validator(mode="after")
    def _possible(self) -> LengthConfig:
        if self.maximum is not None and self.maximum // self.multiple_of * self.multiple_of < self.minimum:
            raise ValueError(
                f"no length from {self.minimum} to {self.maximum} is a multiple of {self.multiple_of}: nothing can pass"
            )
        return self


class Length(PointwiseVerifier):
    """Number of symbols, 1 upwards."""

    name, version = "length", "1"
    kinds = ("sequence",)
    unit = "symbols"
    bounds = (1.0, None)
    needs = Needs(seconds=1)
    Config = LengthConfig
    example = {"minimum": 3, "maximum": 12, "multiple_of": 3}
    fixtures = (
        Fixture.full("sequence", "ACGTACGTACGT", at_least=12.0, at_most=12.0, accepted=True),
        Fixture.zero("sequence", "A", at_most=1.0, accepted=False),
        Fixture.malformed("sequence", ""),
        Fixture.seeded("sequence", "ACGTA", accepted=False),
    )

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        config = self.config
        for design in designs:
            length = len(symbols(design))
            reasons = []
            if length < config.minimum:
                reasons.append(f"length {length} is below {config.minimum}")
            if config.maximum is not None and length > config.maximum:
                reasons.append(f"length {length} is above {config.maximum}")
            if length % config.multiple_of:
                reasons.append(f"length {length} is no multiple of {config.multiple_of}")
            yield Score(float(length), not reasons, "; ".join(reasons))
