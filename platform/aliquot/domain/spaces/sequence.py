"""Sequences over an alphabet: peptides, DNA, RNA, or any other string of symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from aliquot.domain.base import Noun
from aliquot.domain.design import Design
from aliquot.domain.errors import InvalidDesign
from aliquot.domain.spaces.codec import EOS, SPECIAL_TOKENS, body_of

ALPHABETS = {"protein": "ACDEFGHIKLMNPQRSTVWY", "dna": "ACGT", "rna": "ACGU"}


class SequenceSpace(Noun):
    """Which sequences may be proposed."""

    type: Literal["sequence"] = "sequence"
    alphabet: str = "protein"
    """`protein`, `dna`, `rna`, or the single-character symbols themselves, e.g. `HP`."""
    min_length: int = Field(default=1, ge=1)
    max_length: int = Field(ge=1, le=10_000)
    seeds: tuple[str, ...] = ()
    """Known sequences to propose before anything else."""

    @field_validator("alphabet")
    @classmethod
    def _symbols(cls, alphabet):
        symbols = ALPHABETS.get(alphabet, alphabet)
        if len(symbols) < 2 or len(set(symbols)) != len(symbols) or any(s.isspace() for s in symbols):
            known = ", ".join(ALPHABETS)
            raise ValueError(f"an alphabet is {known}, or two or more different characters without white space")
        return symbols

    @model_validator(mode="after")
    def _possible(self):
        if self.min_length > self.max_length:
            raise ValueError(
                f"the design space is empty: min_length={self.min_length} is above max_length={self.max_length}"
            )
        for i, seed in enumerate(self.seeds):
            try:
                self.design(seed)
            except InvalidDesign as error:
                raise ValueError(f"seeds[{i}]: {error}") from None
        return self

    def design(self, value: Any) -> Design:
        """The design that a string names.

        Raises:
            InvalidDesign: not a string, a symbol outside the alphabet, or a length outside the limits.
        """
        if not isinstance(value, str):
            raise InvalidDesign(f"a sequence is written as a string, not {value!r}")
        text = value.strip()
        if foreign := sorted(set(text) - set(self.alphabet)):
            raise InvalidDesign(f"{text!r} holds {' '.join(foreign)}; the alphabet is {self.alphabet}")
        if not self.min_length <= len(text) <= self.max_length:
            raise InvalidDesign(f"{text!r} has length {len(text)}; allowed: {self.min_length} to {self.max_length}")
        return Design(kind="sequence", value=text)

    def codec(self) -> SequenceCodec:
        return SequenceCodec(self)


class SequenceCodec:
    """Sequence ↔ one token per symbol."""

    def __init__(self, space: SequenceSpace):
        self.space, self.max_tokens = space, space.max_length + 1
        self.vocabulary: tuple[str, ...] = (*SPECIAL_TOKENS, *space.alphabet)
        self._ids = {symbol: i for i, symbol in enumerate(self.vocabulary)}

    def encode(self, design: Design) -> list[int]:
        return [self._ids[symbol] for symbol in str(design.value)] + [EOS]

    def decode(self, ids: Sequence[int]) -> Design:
        return self.space.design("".join(self.vocabulary[i] for i in body_of(ids) if i >= len(SPECIAL_TOKENS)))

    def position_mask(self) -> np.ndarray:
        mask = np.zeros((self.max_tokens, len(self.vocabulary)), dtype=bool)
        mask[: self.space.max_length, len(SPECIAL_TOKENS) :] = True
        mask[self.space.min_length :, EOS] = True
        return mask
