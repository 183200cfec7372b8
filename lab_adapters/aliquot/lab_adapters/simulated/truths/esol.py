"""Solubility in water by ESOL (Delaney, J. Chem. Inf. Comput. Sci. 44, 1000, 2004, eq. 5).

    log S = 0.16 − 0.63 cLogP − 0.0062 MW + 0.066 RB − 0.74 AP

S in mol/l; MW in g/mol; RB rotatable bonds; AP the share of heavy atoms that are aromatic. cLogP is Crippen's here,
where Delaney had Daylight's.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from aliquot.domain import Design
from aliquot.lab_adapters.simulated.truths.base import TruthConfig, molecule


class Esol(TruthConfig):
    """log S, decadic, of mol/l."""

    kinds: ClassVar[tuple[str, ...]] = ("molecule",)
    type: Literal["esol"] = "esol"

    def value(self, design: Design) -> float:
        from rdkit.Chem import Descriptors, rdMolDescriptors

        mol = molecule(str(design.value))
        log_p = rdMolDescriptors.CalcCrippenDescriptors(mol)[0]
        weight = Descriptors.MolWt(mol)  # type: ignore[attr-defined]
        rotatable = rdMolDescriptors.CalcNumRotatableBonds(mol)
        aromatic = sum(atom.GetIsAromatic() for atom in mol.GetAtoms()) / mol.GetNumHeavyAtoms()
        return 0.16 - 0.63 * log_p - 0.0062 * weight + 0.066 * rotatable - 0.74 * aromatic
