"""A sequence as its symbols by position and the counts of its short words.

One-hot by position for the first 256 positions; counts of every word of length 1, 2, … up to the longest length (3 at
most) that has no more than 1,024 words: 2 for proteins, 3 for DNA.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from aliquot.domain import Design, SequenceSpace

MOST_POSITIONS, LONGEST_WORD, MOST_WORDS = 256, 3, 1024


def sequence_features(space: SequenceSpace):
    """A function from n designs to float32 [n, positions · symbols + words]."""
    symbols = {symbol: i for i, symbol in enumerate(space.alphabet)}
    positions = min(space.max_length, MOST_POSITIONS)
    lengths = [k for k in range(1, LONGEST_WORD + 1) if k == 1 or len(symbols) ** k <= MOST_WORDS]
    texts = ("".join(word) for k in lengths for word in product(space.alphabet, repeat=k))
    words = {text: positions * len(symbols) + i for i, text in enumerate(texts)}

    def features(designs: Sequence[Design]) -> np.ndarray:
        matrix = np.zeros((len(designs), positions * len(symbols) + len(words)), dtype=np.float32)
        for row, design in zip(matrix, designs, strict=True):
            text = str(design.value)
            for position, symbol in enumerate(text[:positions]):
                row[position * len(symbols) + symbols[symbol]] = 1.0
            for k in lengths:
                for start in range(len(text) - k + 1):
                    row[words[text[start : start + k]]] += 1.0
        return matrix

    return features
