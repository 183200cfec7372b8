"""What is to be found: two objectives after those of the PMO benchmark, each over two assays that RDKit can compute.

The first assay is a similarity, the second a property; the objective is the geometric mean of their desirabilities,
so neither is worth anything alone. A true score is the objective of assays without noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from rdkit import Chem, DataStructs
from rdkit.Chem import Descriptors, rdFingerprintGenerator, rdMolDescriptors

from aliquot.domain import Objective, Ramp, Target, Window

FIRST, LAST = "similarity", "property"
"""Names of the two assays, in the order in which they return."""

_PLAIN = rdFingerprintGenerator.GetMorganGenerator(radius=2)
_FEATURES = rdFingerprintGenerator.GetMorganGenerator(
    radius=2, atomInvariantsGenerator=rdFingerprintGenerator.GetMorganFeatureAtomInvGen()
)


@dataclass(frozen=True)
class Task:
    """One objective and the assays that it reads."""

    name: str
    assays: dict[str, Callable[[Chem.Mol], float]]
    objective: Objective

    def measured(self, smiles: str) -> dict[str, float]:
        """The value of each assay, without noise."""
        mol = Chem.MolFromSmiles(smiles)
        return {name: assay(mol) for name, assay in self.assays.items()}

    def score(self, values: dict[str, float]) -> float:
        """The objective of what is known; of one assay alone, that assay's desirability."""
        targets = tuple(target for target in self.objective.targets if target.assay in values)
        return float(Objective(targets=targets, combine=self.objective.combine).value(values))


def similarity(mol: Chem.Mol, target: str, generator) -> float:
    """Tanimoto similarity of counted Morgan fingerprints of radius 2."""
    there = generator.GetSparseCountFingerprint(Chem.MolFromSmiles(target))
    return DataStructs.TanimotoSimilarity(generator.GetSparseCountFingerprint(mol), there)


def _task(name: str, target: str, generator, ramp: Ramp, second: Callable[[Chem.Mol], float], window: Window) -> Task:
    targets = (Target(assay=FIRST, desirability=ramp), Target(assay=LAST, desirability=window))
    first = partial(similarity, target=target, generator=generator)
    return Task(name, {FIRST: first, LAST: second}, Objective(targets=targets))


def _log_p(mol: Chem.Mol) -> float:
    return float(Descriptors.MolLogP(mol))  # type: ignore[attr-defined]


def _aromatic_rings(mol: Chem.Mol) -> float:
    return float(rdMolDescriptors.CalcNumAromaticRings(mol))


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        _task(
            "albuterol", "CC(C)(C)NCC(O)c1ccc(O)c(CO)c1", _FEATURES, Ramp(low=0.0, high=0.75),
            _log_p, Window(low=2.5, high=4.0, tolerance=2.0),
        ),  # more lipophilic than albuterol itself (log P 1.3)
        _task(
            "perindopril", "O=C(OCC)C(NC(C(=O)N1C(C(=O)O)CC2CCCCC12)C)CCC", _PLAIN, Ramp(low=0.0, high=1.0),
            _aromatic_rings, Window(low=2.0, high=2.0, tolerance=1.5),
        ),  # perindopril has none
    )
}  # fmt: skip


def noisy(values: dict[str, float], deviation: float, random: np.random.Generator) -> dict[str, float]:
    """Each value times 1 + a normal error of this standard deviation."""
    return {name: value * (1.0 + deviation * random.standard_normal()) for name, value in values.items()}
