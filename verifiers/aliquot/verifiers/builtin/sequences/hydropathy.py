"""Grand average of hydropathy: the mean of the residues' hydropathy, in the whole and in a window that slides.

Source: Kyte & Doolittle, J. Mol. Biol. 157, 105 (1982). They take a mean above 1.6 in a window of 19 for a segment that
spans a membrane.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field, FiniteFloat, model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.sequences.reading import residues
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

HYDROPATHY = dict(
    A=1.8, R=-4.5, N=-3.5, D=-3.5, C=2.5, Q=-3.5, E=-3.5, G=-0.4, H=-3.2, I=4.5,
    L=3.8, K=-3.9, M=1.9, F=2.8, P=-1.6, S=-0.8, T=-0.7, W=-0.9, Y=-1.3, V=4.2,
)  # fmt: skip


class HydropathyConfig(VerifierConfig):
    minimum: FiniteFloat | None = None
    """Refuse proteins below it; None: no limit."""
    maximum: FiniteFloat | None = None
    """Refuse proteins above it; None: no limit."""
    window: int | None = Field(default=None, ge=3)
    """Length of a window that slides over the protein; a shorter protein is one window. None: only the whole."""
    window_maximum: FiniteFloat | None = None
    """Refuse proteins with a window above it."""

    @model_validator(mode="after")
    def _possible(self) -> HydropathyConfig:
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum={self.minimum:g} is above maximum={self.maximum:g}: nothing can pass")
        if self.window is None and self.window_maximum is not None:
            raise ValueError("`window_maximum` needs the length of a `window`")
        return self


class Hydropathy(PointwiseVerifier):
    """GRAVY on the scale of Kyte and Doolittle, no unit: -4.5 (arginine) to 4.5 (isoleucine)."""

    name, version = "hydropathy", "1"
    kinds = ("sequence",)
    bounds = (-4.5, 4.5)
    needs = Needs(seconds=1)
    Config = HydropathyConfig
    example = {"maximum": 2.0, "window": 5, "window_maximum": 3.0}
    fixtures = (
        Fixture.full("sequence", "IIIIII", at_least=4.5, accepted=False),
        Fixture.zero("sequence", "RRRRRR", at_most=-4.5, accepted=True),
        Fixture.malformed("sequence", "MKLX"),
        Fixture.malformed("sequence", ""),
        Fixture.seeded("sequence", "MAEGEITTFTALTEK"),
    )

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        config = self.config
        for design in designs:
            scale = [HYDROPATHY[residue] for residue in residues(design)]
            mean = sum(scale) / len(scale)
            reasons, values = [], {}
            if config.minimum is not None and mean < config.minimum:
                reasons.append(f"GRAVY {mean:.2f} is below {config.minimum:g}")
            if config.maximum is not None and mean > config.maximum:
                reasons.append(f"GRAVY {mean:.2f} is above {config.maximum:g}")
            if config.window is not None:
                width = min(config.window, len(scale))
                means = [sum(scale[i : i + width]) / width for i in range(len(scale) - width + 1)]
                highest = max(means)
                values = {"highest_window": highest, "lowest_window": min(means)}
                if config.window_maximum is not None and highest > config.window_maximum:
                    at = means.index(highest) + 1
                    reasons.append(f"hydropathy {highest:.2f} in the window at {at}, above {config.window_maximum:g}")
            yield Score(mean, not reasons, "; ".join(reasons), values)
