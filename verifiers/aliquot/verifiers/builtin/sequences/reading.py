"""How these verifiers read a sequence: upper case, U read as T; what does not belong is named with its position."""

from __future__ import annotations

from aliquot.domain import Design
from aliquot.domain.spaces.sequence import ALPHABETS

COMPLEMENT = str.maketrans("ACGTRYSWKMBDHVN", "TGCAYRSWMKVHDBN")


def symbols(design: Design) -> str:
    """The sequence as it is.

    Raises:
        ValueError: the design is no sequence, or an empty one.
    """
    if not isinstance(design.value, str):
        raise ValueError(f"{design.text!r} is a {design.kind}; a sequence is a string of symbols")
    if not design.value:
        raise ValueError("the sequence is empty")
    return design.value


def nucleotides(design: Design) -> str:
    """The sequence in A, C, G and T.

    Raises:
        ValueError: it holds something else.
    """
    return _only(symbols(design).upper().replace("U", "T"), "ACGT", "nucleotides A, C, G and T (or U)")


def residues(design: Design) -> str:
    """The sequence in one-letter amino acids.

    Raises:
        ValueError: it holds something that is none of the twenty.
    """
    return _only(symbols(design).upper(), ALPHABETS["protein"], "the twenty standard amino acids")


def reverse_complement(sequence: str) -> str:
    """The other strand, in its own direction; IUPAC letters are allowed."""
    return sequence.translate(COMPLEMENT)[::-1]


def _only(sequence: str, allowed: str, name: str) -> str:
    for i, symbol in enumerate(sequence):
        if symbol not in allowed:
            raise ValueError(f"{symbol!r} at position {i + 1} is none of {name}")
    return sequence
