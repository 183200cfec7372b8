"""Whether a sequence is written in the alphabet asked for, with the share of each symbol under control if wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import FiniteFloat, field_validator, model_validator

from aliquot.domain import Design
from aliquot.domain.spaces.sequence import ALPHABETS
from aliquot.verifiers.builtin.sequences.reading import symbols
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class AlphabetConfig(VerifierConfig):
    alphabet: str = "protein"
    """`protein`, `dna`, `rna`, or the symbols themselves."""
    most: dict[str, FiniteFloat] = {}
    """Largest share of single symbols, 0 to 1, e.g. {"C": 0.1}."""

    @field_validator("alphabet")
    @classmethod
    def _symbols(cls, alphabet: str) -> str:
        written = ALPHABETS.get(alphabet, alphabet)
        if not written or len(set(written)) != len(written):
            raise ValueError(f"an alphabet is {', '.join(ALPHABETS)}, or different symbols in a row")
        return written

    @model_validator(mode="after")
    def _shares(self) -> AlphabetConfig:
        for symbol, share in self.most.items():
            if symbol not in self.alphabet or len(symbol) != 1:
                raise ValueError(f"most: {symbol!r} is no symbol of the alphabet {self.alphabet}")
            if not 0 <= share <= 1:
                raise ValueError(f"most: the share of {symbol} is {share:g}; shares are from 0 to 1")
        return self


class Alphabet(PointwiseVerifier):
    """Share of the symbols that belong to the alphabet, no unit: 0 to 1. Anything less than 1 is refused."""

    name, version = "alphabet", "1"
    kinds = ("sequence",)
    bounds = (0.0, 1.0)
    needs = Needs(seconds=1)
    Config = AlphabetConfig
    example = {"alphabet": "dna"}
    fixtures = (
        Fixture.full("sequence", "ACGTACGT", at_least=1.0, accepted=True),
        Fixture.zero("sequence", "XXXX", at_most=0.0, accepted=False),
        Fixture.malformed("sequence", ""),
        Fixture.seeded("sequence", "ACGN", at_least=0.75, at_most=0.75, accepted=False),
    )

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        alphabet = set(self.config.alphabet)
        for design in designs:
            sequence = symbols(design)
            foreign = {s: sequence.index(s) + 1 for s in dict.fromkeys(sequence) if s not in alphabet}
            reasons = [f"{symbol!r} (first at position {at}) is not in the alphabet" for symbol, at in foreign.items()]
            for symbol, most in self.config.most.items():
                if (share := sequence.count(symbol) / len(sequence)) > most:
                    reasons.append(f"{share:.0%} of it is {symbol}, above {most:.0%}")
            score = sum(symbol in alphabet for symbol in sequence) / len(sequence)
            yield Score(score, not reasons, "; ".join(reasons[:20]))
