"""Motifs that must not occur: restriction sites, promoters, glycosylation sites, whatever a pattern can say.

Nucleotide motifs are written in the letters of IUPAC-IUB (Cornish-Bowden, Nucleic Acids Res. 13, 3021, 1985) and looked
for on both strands; protein motifs in one-letter amino acids with X for any, B for D or N, Z for E or Q, J for I or L.
Anything else is a regular expression of Python. Occurrences may overlap; a site that reads the same on both strands
counts once. A pattern that backtracks for ever is ended by the time limit of the worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field, model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.sequences.reading import nucleotides, residues, reverse_complement, symbols
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

NUCLEOTIDE = dict(
    A="A", C="C", G="G", T="T", U="T", R="[AG]", Y="[CT]", S="[CG]", W="[AT]", K="[GT]", M="[AC]", B="[CGT]",
    D="[AGT]", H="[ACT]", V="[ACG]", N="[ACGT]",
)  # fmt: skip
PROTEIN = {**{letter: letter for letter in "ACDEFGHIKLMNPQRSTVWY"}, "X": ".", "B": "[DN]", "Z": "[EQ]", "J": "[IL]"}
SHOWN = 20
"""How many occurrences a verdict lists."""


class Motif(VerifierConfig):
    pattern: str = Field(min_length=1, max_length=500)
    """The motif itself."""
    syntax: Literal["iupac", "regex"] = "iupac"
    """How the pattern is written."""
    name: str = ""
    """Shown in messages; default: the pattern."""

    def expression(self, alphabet: str) -> str:
        """The pattern as a regular expression. Raises ValueError where it cannot be one."""
        if self.syntax == "iupac":
            letters = PROTEIN if alphabet == "protein" else NUCLEOTIDE
            if alphabet == "any":
                raise ValueError(f"{self.pattern!r}: IUPAC letters need an `alphabet`; say which, or use syntax: regex")
            if foreign := [s for s in self.pattern.upper() if s not in letters]:
                raise ValueError(f"{self.pattern!r}: {foreign[0]!r} is no IUPAC letter for {alphabet}")
            return "".join(letters[symbol] for symbol in self.pattern.upper())
        try:
            if re.compile(self.pattern).match(""):
                raise ValueError(f"{self.pattern!r} matches the empty text, so it would match everywhere")
        except re.error as error:
            raise ValueError(f"{self.pattern!r} is no regular expression: {error}") from None
        return self.pattern


class ForbiddenMotifsConfig(VerifierConfig):
    motifs: tuple[Motif, ...] = Field(min_length=1)
    """None of them may occur."""
    alphabet: Literal["dna", "rna", "protein", "any"] = "dna"
    """What the sequences are; `any`: strings of any symbols, with regular expressions only."""
    both_strands: bool = True
    """Look on the opposite strand too; DNA only."""

    @model_validator(mode="after")
    def _readable(self) -> ForbiddenMotifsConfig:
        for motif in self.motifs:
            motif.expression(self.alphabet)
        return self


class ForbiddenMotifs(PointwiseVerifier):
    """Number of occurrences, 0 upwards; any is refused. Positions count from 1, on the strand that is written."""

    name, version = "forbidden_motifs", "1"
    kinds = ("sequence",)
    unit = "occurrences"
    bounds = (0.0, None)
    needs = Needs(seconds=2)
    Config = ForbiddenMotifsConfig
    example = {"motifs": [{"pattern": "GGTCTC", "name": "BsaI"}, {"pattern": "A{6,}", "syntax": "regex"}]}
    fixtures = (
        Fixture.full("sequence", "ATGGCTAGC", 0.0, at_most=0.0, accepted=True),
        Fixture.zero("sequence", "TTGGTCTCAAGAGACCTT", 2.0, at_least=2.0, accepted=False),
        Fixture.malformed("sequence", "ATGXXX"),
        Fixture.malformed("sequence", ""),
        Fixture.seeded("sequence", "CCTTTTTTCC", at_least=1.0, accepted=False),
    )

    def __init__(self, config: ForbiddenMotifsConfig):
        super().__init__(config)
        self._read = {"protein": residues, "any": symbols}.get(config.alphabet, nucleotides)
        self._motifs = [  # a look-ahead finds occurrences that overlap
            (motif.name or motif.pattern, re.compile(f"(?=({motif.expression(config.alphabet)}))"))
            for motif in config.motifs
        ]

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        for design in designs:
            sequence = self._read(design)
            hits = sorted(self._hits(sequence))
            shown = [{"motif": name, "start": start + 1, "end": end} for start, end, name in hits[:SHOWN]]
            said = ", ".join(f"{hit['motif']} at {hit['start']}-{hit['end']}" for hit in shown)
            yield Score(float(len(hits)), not hits, f"found: {said}" if hits else "", {"hits": shown})

    def _hits(self, sequence: str) -> set[tuple[int, int, str]]:
        found = {(m.start(1), m.end(1), name) for name, motif in self._motifs for m in motif.finditer(sequence)}
        if self.config.both_strands and self.config.alphabet == "dna":
            other, length = reverse_complement(sequence), len(sequence)
            for name, motif in self._motifs:
                found |= {(length - m.end(1), length - m.start(1), name) for m in motif.finditer(other)}
        return found
