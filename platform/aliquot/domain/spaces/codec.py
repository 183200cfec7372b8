"""What a codec promises, whatever the design space.

A codec maps a design to token ids and back: `decode(encode(design)) == design` for every design of its space.
Ids 0, 1, 2 are always `<pad>`, `<bos>`, `<eos>`. A sequence is `<bos> body <eos>`; `encode` returns the body and its
`<eos>` (what a policy generates), and `decode` takes just that, with or without the `<eos>`.

Some spaces know at each position which tokens may stand there. `position_mask` says so, and the policy applies it as
part of its own softmax, when it samples and when it is trained alike, so that no probability mass is cut away behind
the importance ratio's back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from aliquot.domain.design import Design

PAD, BOS, EOS = 0, 1, 2
SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>")


@runtime_checkable
class Codec(Protocol):
    """Design ↔ tokens for one design space."""

    vocabulary: tuple[str, ...]
    """Token strings by id; the first three are `SPECIAL_TOKENS`."""
    max_tokens: int
    """Longest body plus `<eos>` that a design of this space may take."""

    def encode(self, design: Design) -> list[int]:
        """Token ids of the body and the closing `<eos>`.

        Raises:
            InvalidDesign: the design needs a token that is not in the vocabulary, or is too long.
        """
        ...

    def decode(self, ids: Sequence[int]) -> Design:
        """The design that a generated sequence names, in canonical form.

        Raises:
            InvalidDesign: the ids do not name a design of the space.
        """
        ...

    def position_mask(self) -> np.ndarray | None:
        """Boolean array [max_tokens, vocabulary], true where a token may stand, or None for "any token anywhere"."""
        ...


def body_of(ids: Sequence[int]) -> list[int]:
    """The ids before the first `<eos>`."""
    ids = [int(i) for i in ids]
    return ids[: ids.index(EOS)] if EOS in ids else ids
