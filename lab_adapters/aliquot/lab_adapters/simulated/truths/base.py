"""What a truth promises: a pure function of the design and its own configuration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, ClassVar

from aliquot.domain import Design, InvalidDesign
from aliquot.lab_adapters.sdk import LabConfig


class TruthConfig(LabConfig, ABC):
    """Base of the truths: each is its own configuration."""

    kinds: ClassVar[tuple[str, ...]]
    """Design kinds it has a value for."""

    @abstractmethod
    def value(self, design: Design) -> float:
        """The noise-free value, in the assay's unit.

        Raises:
            InvalidDesign: the design has no such value, and why.
        """


@lru_cache(maxsize=4096)
def molecule(smiles: str) -> Any:
    """RDKit's molecule of a SMILES.

    Raises:
        InvalidDesign: it does not parse.
    """
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles)
    if mol is None or mol.GetNumAtoms() == 0:
        raise InvalidDesign(f"{smiles!r} is not a valid SMILES")
    return mol
