"""Potency as likeness to a known ligand: low + (high − low) · T^power.

T is the Tanimoto similarity of FCFP4 counts (Morgan radius 2 on pharmacophoric atom features), Σ min / Σ max, as in
the similarity tasks of GuacaMol (Brown et al., J. Chem. Inf. Model. 59, 1096, 2019).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from aliquot.domain import Design, InvalidDesign
from aliquot.lab_adapters.simulated.truths.base import TruthConfig, molecule


class Similarity(TruthConfig):
    """`high` for the reference, towards `low` for what shares nothing with it."""

    kinds: ClassVar[tuple[str, ...]] = ("molecule",)
    type: Literal["similarity"] = "similarity"
    reference: str
    """SMILES of the ligand."""
    low: float = 0.0
    high: float = 1.0
    power: float = Field(default=1.0, gt=0)

    @field_validator("reference")
    @classmethod
    def _parses(cls, reference: str) -> str:
        try:
            molecule(reference)
        except InvalidDesign as error:
            raise ValueError(str(error)) from None
        return reference

    @model_validator(mode="after")
    def _ordered(self) -> Similarity:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low must be less than high, both finite; low={self.low}, high={self.high}")
        return self

    def value(self, design: Design) -> float:
        from rdkit import DataStructs

        tanimoto = DataStructs.TanimotoSimilarity(_counts(self.reference), _counts(str(design.value)))
        return self.low + (self.high - self.low) * tanimoto**self.power


@lru_cache(maxsize=4096)
def _counts(smiles: str) -> Any:
    return _generator().GetSparseCountFingerprint(molecule(smiles))


@lru_cache(maxsize=1)
def _generator() -> Any:
    from rdkit.Chem import rdFingerprintGenerator

    features = rdFingerprintGenerator.GetMorganFeatureAtomInvGen()
    return rdFingerprintGenerator.GetMorganGenerator(radius=2, atomInvariantsGenerator=features)
