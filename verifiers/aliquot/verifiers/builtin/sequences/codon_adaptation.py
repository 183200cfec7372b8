"""Codon adaptation index: the geometric mean of the relative adaptiveness of a reading frame's codons.

Source: Sharp & Li, Nucleic Acids Res. 15, 1281 (1987). Codons without a choice (ATG, TGG, stops) do not count. The
tables and what they are made from: `codon_tables`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field, FiniteFloat, field_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.sequences.codon_tables import ADAPTIVENESS, STOPS, relative
from aliquot.verifiers.builtin.sequences.reading import nucleotides
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

CHOICES = frozenset(ADAPTIVENESS["e_coli"])
"""The 59 codons that count."""


class CodonAdaptationConfig(VerifierConfig):
    organism: Literal["e_coli", "s_cerevisiae", "h_sapiens"] = "e_coli"
    """Whose codon usage to adapt to."""
    usage: dict[str, FiniteFloat] | None = None
    """Counts or shares of the 59 codons that have a choice, instead of the table of an organism."""
    minimum: FiniteFloat | None = Field(default=None, ge=0, le=1)
    """Refuse sequences below it; None: score only."""

    @field_validator("usage")
    @classmethod
    def _complete(cls, usage: dict[str, float] | None) -> dict[str, float] | None:
        if usage is None:
            return None
        usage = {codon.upper().replace("U", "T"): share for codon, share in usage.items()}
        if missing := sorted(CHOICES - usage.keys()):
            raise ValueError(f"{len(missing)} of 59 codons are missing, e.g. {', '.join(missing[:3])}")
        if unknown := sorted(usage.keys() - CHOICES):
            raise ValueError(f"{', '.join(unknown[:3])}: no codon that has a choice")
        if wrong := [codon for codon, share in usage.items() if not share > 0]:
            raise ValueError(f"{wrong[0]} has {usage[wrong[0]]:g}; write a small share (e.g. 0.001) for a rare codon")
        return usage


class CodonAdaptation(PointwiseVerifier):
    """CAI, no unit: 0 to 1 (only the best codons). What is no reading frame scores 0 and is refused."""

    name, version = "codon_adaptation", "1"
    kinds = ("sequence",)
    bounds = (0.0, 1.0)
    needs = Needs(seconds=1)
    Config = CodonAdaptationConfig
    example = {"minimum": 0.5}
    fixtures = (
        Fixture.full("sequence", "ATGCTGCGTAAATAA", at_least=1.0, accepted=True),
        Fixture.zero("sequence", "ATGCTAAGGATA", at_most=0.01, accepted=False),
        Fixture.malformed("sequence", "MKLV"),
        Fixture.malformed("sequence", "ATGCT"),
        Fixture.seeded("sequence", "ATGCGTATCGATCGCGATACGATTAGGCGGATG"),
    )

    def __init__(self, config: CodonAdaptationConfig):
        super().__init__(config)
        weights = ADAPTIVENESS[config.organism] if config.usage is None else relative(config.usage)
        self._logarithms = {codon: math.log(weight) for codon, weight in weights.items()}

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        minimum = self.config.minimum
        for design in designs:
            sequence = nucleotides(design)
            if problem := no_frame(sequence):
                yield Score(0.0, False, problem)
                continue
            counted = [c for c in _codons(sequence) if c in self._logarithms]
            if not counted:
                raise ValueError("it has no codon with a choice, so the index has no value")
            index = math.exp(math.fsum(self._logarithms[codon] for codon in counted) / len(counted))
            accepted = minimum is None or index >= minimum
            yield Score(index, accepted, "" if accepted else f"CAI {index:.3f} is below {minimum:g}")


def no_frame(sequence: str) -> str:
    """Why it is no reading frame, or an empty text."""
    if len(sequence) % 3:
        return f"{len(sequence)} nucleotides are no whole number of codons"
    for i, codon in enumerate(_codons(sequence)[:-1]):
        if codon in STOPS:
            return f"stop codon {codon} inside, at position {3 * i + 1}"
    return ""


def _codons(sequence: str) -> list[str]:
    return [sequence[i : i + 3] for i in range(0, len(sequence), 3)]
