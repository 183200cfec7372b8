"""From a design to the numbers that a trained model reads, one kind of feature a class.

Always true: `vector` gives float64 [size], finite, the same for the same design. Columns stand in the order declared,
which has to be the order of the training.
"""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.conditions.reading import number, text
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.builtin.sequences.reading import symbols
from aliquot.verifiers.sdk import VerifierConfig


class Column(VerifierConfig):
    parameter: str = Field(min_length=1)
    """A parameter of the design space."""
    choices: tuple[str, ...] = ()
    """One column of 0 or 1 for each of these names; empty: the number itself."""


class Parameters(VerifierConfig):
    """Parameters of conditions: numbers as they are, names one-hot."""

    type: Literal["parameters"]
    """Which kind of features."""
    columns: tuple[Column, ...] = Field(min_length=1)
    """In the order of the training."""

    @property
    def size(self) -> int:
        return sum(max(1, len(column.choices)) for column in self.columns)

    def vector(self, design: Design) -> np.ndarray:
        values: list[float] = []
        for column in self.columns:
            if not column.choices:
                values.append(number(design, column.parameter))
                continue
            found = text(design, column.parameter)
            if found not in column.choices:
                known = ", ".join(column.choices)
                raise ValueError(f"{column.parameter}={found!r} is unknown to the model; it was trained on {known}")
            values += [float(choice == found) for choice in column.choices]
        return np.array(values)


class Morgan(VerifierConfig):
    """Morgan fingerprint of a molecule, Rogers & Hahn, J. Chem. Inf. Model. 50, 742 (2010); radius 2 is ECFP4."""

    type: Literal["morgan"]
    """Which kind of features."""
    radius: int = Field(default=2, ge=0, le=6)
    """Bonds around an atom that an environment reaches."""
    size: int = Field(default=2048, ge=16, le=16384)
    """Length of the fingerprint."""
    counts: bool = False
    """How often each environment occurs, instead of whether."""

    @cached_property
    def _generator(self) -> Any:
        from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

        return GetMorganGenerator(radius=self.radius, fpSize=self.size)

    def vector(self, design: Design) -> np.ndarray:
        give = self._generator.GetCountFingerprintAsNumPy if self.counts else self._generator.GetFingerprintAsNumPy
        return give(parse(design)).astype(float)


class Descriptors(VerifierConfig):
    """Descriptors of a molecule by RDKit's names, e.g. MolLogP, TPSA, MolWt."""

    type: Literal["descriptors"]
    """Which kind of features."""
    names: tuple[str, ...] = Field(min_length=1)
    """In the order of the training."""

    @field_validator("names")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = _descriptors()
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"RDKit has no descriptor {', '.join(unknown)}; e.g. MolLogP, TPSA, MolWt, NumHDonors")
        return names

    @property
    def size(self) -> int:
        return len(self.names)

    def vector(self, design: Design) -> np.ndarray:
        known, molecule = _descriptors(), parse(design)
        values = np.array([float(known[name](molecule)) for name in self.names])
        if wrong := [name for name, value in zip(self.names, values, strict=True) if not np.isfinite(value)]:
            raise ValueError(f"{', '.join(wrong)} has no finite value for {design.text}")
        return values


class Composition(VerifierConfig):
    """Share of each stretch of `k` symbols in a sequence, in the order of the alphabet; a shorter one gives zeros."""

    type: Literal["composition"]
    """Which kind of features."""
    alphabet: str = Field(min_length=2, max_length=64)
    """Symbols in the order of the training."""
    k: int = Field(default=1, ge=1, le=4)
    """Length of the stretches that are counted."""

    @property
    def size(self) -> int:
        return len(self.alphabet) ** self.k

    def vector(self, design: Design) -> np.ndarray:
        sequence = symbols(design)
        if foreign := sorted(set(sequence) - set(self.alphabet)):
            raise ValueError(f"{' '.join(foreign)} is not in the model's alphabet {self.alphabet}")
        index = {"".join(stretch): i for i, stretch in enumerate(product(self.alphabet, repeat=self.k))}
        counts, places = np.zeros(len(index)), len(sequence) - self.k + 1
        for i in range(places):
            counts[index[sequence[i : i + self.k]]] += 1
        return counts / max(1, places)


Features = Annotated[Parameters | Morgan | Descriptors | Composition, Field(discriminator="type")]


def _descriptors() -> dict[str, Any]:
    from rdkit.Chem.Descriptors import descList

    return dict(descList)
