"""A molecule as Morgan counts (radius 2, folded to 2,048) and eleven descriptors that fingerprints express badly."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from aliquot.domain import Design
from aliquot.surrogates.protocol import SurrogateError

BITS = 2048


def molecule_features(designs: Sequence[Design]) -> np.ndarray:
    """float32 [n, 2048 + 11].

    Raises:
        SurrogateError: a SMILES does not parse.
    """
    if not designs:
        return np.empty((0, BITS + 11), dtype=np.float32)
    parts = [_features(str(design.value)) for design in designs]
    counts, descriptors = (np.stack(column) for column in zip(*parts, strict=True))
    return np.hstack([counts.astype(np.float32), descriptors])


@lru_cache(maxsize=16_384)
def _features(smiles: str) -> tuple[np.ndarray, np.ndarray]:
    """uint8 [2048] (2 kB a molecule, 35 MB when the cache is full) and float32 [11]."""
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors as descriptors

    mol = Chem.MolFromSmiles(smiles)
    if mol is None:
        raise SurrogateError(f"{smiles!r} is not a valid SMILES; make designs with `space.design(...)`")
    counts = np.minimum(_generator().GetCountFingerprintAsNumPy(mol), 255).astype(np.uint8)
    log_p, refractivity = descriptors.CalcCrippenDescriptors(mol)
    values = [
        descriptors.CalcExactMolWt(mol),
        log_p,
        refractivity,
        descriptors.CalcTPSA(mol),
        descriptors.CalcNumHBD(mol),
        descriptors.CalcNumHBA(mol),
        descriptors.CalcNumRotatableBonds(mol),
        descriptors.CalcNumAromaticRings(mol),
        descriptors.CalcFractionCSP3(mol),
        descriptors.CalcNumRings(mol),
        descriptors.CalcNumHeteroatoms(mol),
    ]
    return counts, np.asarray(values, dtype=np.float32)


@lru_cache(maxsize=1)
def _generator() -> Any:
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=BITS)
