"""Fingerprints by name, and their Tanimoto similarity.

Extended connectivity fingerprints are Morgan fingerprints (Rogers & Hahn, J. Chem. Inf. Model. 50, 742, 2010): the
digit is the diameter, so `ecfp4` has radius 2, and `fcfp` starts from pharmacophoric features of the atoms. Atom pairs:
Carhart, Smith & Venkataraghavan, J. Chem. Inf. Comput. Sci. 25, 64 (1985). Topological torsions: Nilakantan, Bauman,
Dixon & Venkataraghavan, ibid. 27, 82 (1987). These count how often each environment occurs and fold nothing; MACCS
keys, and RDKit's paths of 2048 bits, say only whether it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

FingerprintName = Literal["ecfp4", "ecfp6", "fcfp4", "fcfp6", "atom_pair", "topological_torsion", "maccs", "rdkit"]

PMO_PAIR_DISTANCE = 10
"""Bonds between the atoms of a pair, at most: as GuacaMol has it."""


def fingerprint(name: FingerprintName) -> Callable[[Any], Any]:
    """The function from an RDKit molecule to its fingerprint of this name."""
    from rdkit.Chem import rdFingerprintGenerator as generators
    from rdkit.Chem.rdMolDescriptors import GetMACCSKeysFingerprint

    if name == "maccs":
        return GetMACCSKeysFingerprint
    if name == "rdkit":
        return generators.GetRDKitFPGenerator(fpSize=2048).GetFingerprint
    if name == "atom_pair":
        return generators.GetAtomPairGenerator(maxDistance=PMO_PAIR_DISTANCE).GetSparseCountFingerprint
    if name == "topological_torsion":
        return generators.GetTopologicalTorsionGenerator().GetSparseCountFingerprint
    radius = int(name[-1]) // 2
    if name.startswith("ecfp"):
        return generators.GetMorganGenerator(radius=radius).GetSparseCountFingerprint
    features = generators.GetMorganFeatureAtomInvGen()
    return generators.GetMorganGenerator(radius=radius, atomInvariantsGenerator=features).GetSparseCountFingerprint


def similarities(one: Any, others: list[Any]) -> list[float]:
    """Tanimoto similarity of a fingerprint to each of the others, which are of the same kind."""
    from rdkit.DataStructs import BulkTanimotoSimilarity

    return list(BulkTanimotoSimilarity(one, others))
