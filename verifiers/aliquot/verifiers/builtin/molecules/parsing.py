"""Parsing shared by the molecule verifiers: stages that stand in one worker parse each design once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from aliquot.domain import Design


def parse(design: Design) -> Any:
    """The RDKit molecule of a design. Not to be changed: others get the same object.

    Raises:
        ValueError: it does not parse or fails sanitisation. Put `validity` first in the ladder.
    """
    molecule = parse_smiles(str(design.value))
    if molecule is None:
        raise ValueError(f"{design.value!r} is not a valid SMILES; put the `validity` verifier before this one")
    return molecule


@lru_cache(maxsize=4096)
def parse_smiles(smiles: str) -> Any:
    """The sanitised RDKit molecule, or None when there is none. RDKit's own log is silent."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
    return molecule if molecule is not None and molecule.GetNumAtoms() else None


def valid_smiles(smiles: tuple[str, ...]) -> tuple[str, ...]:
    """For pydantic fields. Raises `ValueError` naming each entry that does not parse."""
    if wrong := [f"[{i}] {s!r}" for i, s in enumerate(smiles) if parse_smiles(s) is None]:
        raise ValueError(f"not valid SMILES: {', '.join(wrong)}")
    return smiles
