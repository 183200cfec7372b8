"""Share of G and C in a nucleotide sequence, in the whole and in every window of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from pydantic import Field, FiniteFloat, model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.sequences.reading import nucleotides
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class GcContentConfig(VerifierConfig):
    low: FiniteFloat = Field(default=0.0, ge=0, le=1)
    """Lowest share of G and C in the whole that is accepted."""
    high: FiniteFloat = Field(default=1.0, ge=0, le=1)
    """Highest share of G and C in the whole."""
    window: int | None = Field(default=None, ge=2)
    """Length of a window that slides over the sequence; a shorter sequence is one window. None: only the whole."""
    window_low: FiniteFloat = Field(default=0.0, ge=0, le=1)
    """Lowest share in any window."""
    window_high: FiniteFloat = Field(default=1.0, ge=0, le=1)
    """Highest share in any window."""

    @model_validator(mode="after")
    def _possible(self) -> GcContentConfig:
        if self.low > self.high or self.window_low > self.window_high:
            raise ValueError("a lower limit is above its upper limit: nothing can pass")
        if self.window is None and (self.window_low, self.window_high) != (0.0, 1.0):
            raise ValueError("limits for windows need the length of a `window`")
        return self


class GcContent(PointwiseVerifier):
    """Share of G and C, no unit: 0 to 1. `values` has the extremes over all windows."""

    name, version = "gc_content", "1"
    kinds = ("sequence",)
    bounds = (0.0, 1.0)
    needs = Needs(seconds=1)
    Config = GcContentConfig
    example = {"low": 0.25, "high": 1.0, "window": 4, "window_low": 0.25}
    fixtures = (
        Fixture.full("sequence", "GCGCGC", at_least=1.0, accepted=True),
        Fixture.zero("sequence", "ATATAT", at_most=0.0, accepted=False),
        Fixture.malformed("sequence", "GCXT"),
        Fixture.malformed("sequence", ""),
        Fixture.seeded("sequence", "GCGCAAAAGCGC", accepted=False),
    )

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        config = self.config
        for design in designs:
            sequence = nucleotides(design)
            sums = [0, *accumulate(symbol in "GC" for symbol in sequence)]
            whole = sums[-1] / len(sequence)
            reasons, values = _outside("GC content", whole, config.low, config.high), {}
            if config.window is not None:
                width = min(config.window, len(sequence))
                shares = [(sums[i + width] - sums[i]) / width for i in range(len(sequence) - width + 1)]
                for extreme, share in (("lowest", min(shares)), ("highest", max(shares))):
                    values[f"{extreme}_window"] = share
                    where = f"GC content of the window at {shares.index(share) + 1}"
                    reasons += _outside(where, share, config.window_low, config.window_high)
            yield Score(whole, not reasons, "; ".join(dict.fromkeys(reasons)), values)


def _outside(what: str, share: float, low: float, high: float) -> list[str]:
    return [] if low <= share <= high else [f"{what} is {share:.1%}, outside {low:.1%} to {high:.1%}"]
