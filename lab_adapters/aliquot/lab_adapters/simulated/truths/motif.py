"""A score of sequences: do they hold the wanted motifs, and is their net charge right?

    value = low + (high − low) · M · C

M is the mean over the motifs of the best match anywhere in the sequence, the share of a motif's fixed symbols that
stand where they should (`.` stands for any symbol). C = exp(−((net charge − charge) / tolerance)² / 2), with the net
charge the sum of `charges` over the symbols; the defaults are the side chains of a peptide at pH 7 (K, R +1; D, E −1).
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from aliquot.domain import Design
from aliquot.lab_adapters.simulated.truths.base import TruthConfig

ANY = "."


class Motif(TruthConfig):
    """`high` when every motif is there and the charge is right."""

    kinds: ClassVar[tuple[str, ...]] = ("sequence",)
    type: Literal["motif"] = "motif"
    motifs: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    low: float = 0.0
    high: float = 1.0
    charge: float | None = None
    """Wanted net charge; None: any."""
    tolerance: float = Field(default=2.0, gt=0)
    """Standard deviation of the charge term, in charges."""
    charges: dict[str, float] = {"K": 1.0, "R": 1.0, "D": -1.0, "E": -1.0}
    """Charge of each symbol; those left out have none."""

    @model_validator(mode="after")
    def _consistent(self) -> Motif:
        if empty := [motif for motif in self.motifs if not motif.strip(ANY)]:
            raise ValueError(f"motif {empty[0]!r} asks for nothing: give at least one symbol beside {ANY!r}")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low must be less than high, both finite; low={self.low}, high={self.high}")
        return self

    def value(self, design: Design) -> float:
        sequence = str(design.value)
        matched = sum(best_match(motif, sequence) for motif in self.motifs) / len(self.motifs)
        charged = 1.0
        if self.charge is not None:
            net = sum(self.charges.get(symbol, 0.0) for symbol in sequence)
            charged = math.exp(-(((net - self.charge) / self.tolerance) ** 2) / 2)
        return self.low + (self.high - self.low) * matched * charged


def best_match(motif: str, sequence: str) -> float:
    """Largest share of a motif's fixed symbols found at any offset, in [0, 1]; a motif must fit inside the sequence."""
    fixed = [(i, symbol) for i, symbol in enumerate(motif) if symbol != ANY]
    offsets = range(len(sequence) - len(motif) + 1)
    return max((sum(sequence[o + i] == symbol for i, symbol in fixed) / len(fixed) for o in offsets), default=0.0)
