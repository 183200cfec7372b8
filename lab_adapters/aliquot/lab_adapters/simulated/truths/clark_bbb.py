"""Blood-brain partition by Clark's rule (J. Pharm. Sci. 88, 815, 1999).

    log BB = 0.152 ClogP − 0.0148 PSA + 0.139

PSA in Å². ClogP is Crippen's and PSA is topological (Ertl, 2000) here.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from aliquot.domain import Design
from aliquot.lab_adapters.simulated.truths.base import TruthConfig, molecule


class ClarkBbb(TruthConfig):
    """log BB, decadic, brain over blood."""

    kinds: ClassVar[tuple[str, ...]] = ("molecule",)
    type: Literal["clark_bbb"] = "clark_bbb"

    def value(self, design: Design) -> float:
        from rdkit.Chem import rdMolDescriptors

        mol = molecule(str(design.value))
        log_p = rdMolDescriptors.CalcCrippenDescriptors(mol)[0]
        return 0.152 * log_p - 0.0148 * rdMolDescriptors.CalcTPSA(mol) + 0.139
