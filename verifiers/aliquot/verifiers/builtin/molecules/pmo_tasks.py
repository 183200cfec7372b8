"""The 20 oracles of the PMO benchmark that need nothing but RDKit, as a table of what each is made of.

Source: Gao, Fu, Sun & Coley, NeurIPS Datasets and Benchmarks (2022), who took them from GuacaMol (Brown et al., J.
Chem. Inf. Model. 59, 1096, 2019) in the form that the Therapeutics Data Commons gave them. No unit, 0 to 1, maximised.

A part gives a function of an RDKit molecule when it is called, so that this module imports no RDKit.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from aliquot.verifiers.builtin.molecules.fingerprints import FingerprintName, fingerprint
from aliquot.verifiers.builtin.molecules.modifiers import clipped, gaussian, max_gaussian, min_gaussian

Scored = Callable[[Any], float]
"""From an RDKit molecule to a number."""
Part = Callable[[], Scored]


def unchanged(x: float) -> float:
    return x


def geometric(values: Sequence[float]) -> float:
    """Geometric mean of numbers that are not negative."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if min(values) > 0 else 0.0


def arithmetic(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


@dataclass(frozen=True)
class Joined:
    """Parts joined to one number; a part itself."""

    parts: tuple[Part, ...]
    mean: Callable[[Sequence[float]], float] = geometric

    def __call__(self) -> Scored:
        scored = [part() for part in self.parts]
        return lambda molecule: self.mean([part(molecule) for part in scored])


def joined(*parts: Part) -> Joined:
    return Joined(parts)


def similar(name: FingerprintName, target: str, modifier: Callable[[float], float] = unchanged) -> Part:
    """Tanimoto similarity to a target molecule."""

    def part() -> Scored:
        from rdkit.DataStructs import TanimotoSimilarity

        of = fingerprint(name)
        there = of(_molecule(target))
        return lambda molecule: float(modifier(TanimotoSimilarity(there, of(molecule))))

    return part


def pharmacophore(target: str, modifier: Callable[[float], float]) -> Part:
    """Tanimoto similarity of two-dimensional pharmacophores (Gobbi & Poppinger, Biotechnol. Bioeng. 61, 47, 1998)."""

    def part() -> Scored:
        from rdkit.Chem.Pharm2D import Generate, Gobbi_Pharm2D
        from rdkit.DataStructs import TanimotoSimilarity

        of = partial(Generate.Gen2DFingerprint, sigFactory=Gobbi_Pharm2D.factory)
        there = of(_molecule(target))
        return lambda molecule: float(modifier(TanimotoSimilarity(there, of(molecule))))

    return part


def descriptor(name: str, modifier: Callable[[float], float]) -> Part:
    """A descriptor of RDKit's `Descriptors`."""

    def part() -> Scored:
        of = _descriptor(name)
        return lambda molecule: float(modifier(of(molecule)))

    return part


def near(name: str, target: str, sigma: float) -> Part:
    """A descriptor near that of a target molecule."""

    def part() -> Scored:
        of = _descriptor(name)
        mu = of(_molecule(target))
        return lambda molecule: float(gaussian(of(molecule), mu, sigma))

    return part


def has(smarts: str, present: bool = True) -> Part:
    """1 if the pattern is there (or, where `present` is False, is not there), else 0."""

    def part() -> Scored:
        from rdkit import Chem

        pattern = Chem.MolFromSmarts(smarts)
        return lambda molecule: float(molecule.HasSubstructMatch(pattern) == present)

    return part


def atoms(symbol: str, modifier: Callable[[float], float]) -> Part:
    """How many atoms of an element other than hydrogen there are."""
    return lambda: lambda molecule: float(modifier(sum(atom.GetSymbol() == symbol for atom in molecule.GetAtoms())))


def isomer(formula: str) -> Part:
    """How near the formula is: Gaussians of each element's count (sigma 1) and of the number of atoms (sigma 2)."""
    wanted = {symbol: int(count or 1) for symbol, count in re.findall(r"([A-Z][a-z]?)(\d*)", formula)}
    total = sum(wanted.values())

    def score(molecule: Any) -> float:
        counts = Counter(atom.GetSymbol() for atom in molecule.GetAtoms())
        # what stands in brackets as an atom, [H], is counted already; the others hang on heavy atoms
        counts["H"] += sum(atom.GetTotalNumHs() for atom in molecule.GetAtoms())
        near = [float(gaussian(counts[symbol], count, 1.0)) for symbol, count in wanted.items()]
        return geometric([*near, float(gaussian(counts.total(), total, 2.0))])

    return lambda: score


OSIMERTINIB = "COc1cc(N(C)CCN(C)C)c(NC(=O)C=C)cc1Nc2nccc(n2)c3cn(C)c4ccccc34"
FEXOFENADINE = "CC(C)(C(=O)O)c1ccc(cc1)C(O)CCCN2CCC(CC2)C(O)(c3ccccc3)c4ccccc4"
RANOLAZINE = "COc1ccccc1OCC(O)CN2CCN(CC(=O)Nc3c(C)cccc3C)CC2"
SITAGLIPTIN = "Fc1cc(c(F)cc1F)CC(N)CC(=O)N3Cc2nnc(n2CC3)C(F)(F)F"
HOPPED = "CCCOc1cc2ncnc(Nc3ccc4ncsc4c3)c2cc1S(=O)(=O)C(C)(C)C"
QUINAZOLINE = "[#7]-c1n[c;h1]nc2[c;h1]c(-[#8])[c;h0][c;h1]c12"


def _qed() -> Scored:
    from rdkit.Chem.QED import qed

    return qed


TASKS: dict[str, Part] = {
    "qed": _qed,
    "celecoxib_rediscovery": similar("ecfp4", "CC1=CC=C(C=C1)C1=CC(=NN1C1=CC=C(C=C1)S(N)(=O)=O)C(F)(F)F"),
    "troglitazone_rediscovery": similar("ecfp4", "Cc1c(C)c2OC(C)(COc3ccc(CC4SC(=O)NC4=O)cc3)CCc2c(C)c1O"),
    "thiothixene_rediscovery": similar("ecfp4", "CN(C)S(=O)(=O)c1ccc2Sc3ccccc3C(=CCCN4CCN(C)CC4)c2c1"),
    "albuterol_similarity": similar("fcfp4", "CC(C)(C)NCC(O)c1ccc(O)c(CO)c1", partial(clipped, upper=0.75)),
    "mestranol_similarity": similar(
        "atom_pair",
        "COc1ccc2[C@H]3CC[C@@]4(C)[C@@H](CC[C@@]4(O)C#C)[C@@H]3CCc2c1",
        partial(clipped, upper=0.75),
    ),
    "isomers_c7h8n2o2": isomer("C7H8N2O2"),
    "isomers_c9h10n2o2pf2cl": isomer("C9H10N2O2PF2Cl"),
    "median1": joined(similar("ecfp4", "CC1(C)C2CCC1(C)C(=O)C2"), similar("ecfp4", "CC(C)C1CCC(C)CC1O")),
    "median2": joined(
        similar("ecfp6", "O=C1N(CC(N2C1CC3=C(C2C4=CC5=C(OCO5)C=C4)NC6=C3C=CC=C6)=O)C"),
        similar("ecfp6", "CCCC1=NN(C2=C1N=C(NC2=O)C3=C(C=CC(=C3)S(=O)(=O)N4CCN(CC4)C)OCC)C"),
    ),
    "osimertinib_mpo": joined(
        descriptor("TPSA", partial(max_gaussian, mu=100, sigma=10)),
        descriptor("MolLogP", partial(min_gaussian, mu=1, sigma=1)),
        similar("fcfp4", OSIMERTINIB, partial(clipped, upper=0.8)),
        similar("ecfp6", OSIMERTINIB, partial(min_gaussian, mu=0.85, sigma=0.1)),
    ),
    "fexofenadine_mpo": joined(
        descriptor("TPSA", partial(max_gaussian, mu=90, sigma=10)),
        descriptor("MolLogP", partial(min_gaussian, mu=4, sigma=1)),
        similar("atom_pair", FEXOFENADINE, partial(clipped, upper=0.8)),
    ),
    "ranolazine_mpo": joined(
        descriptor("TPSA", partial(max_gaussian, mu=95, sigma=20)),
        descriptor("MolLogP", partial(max_gaussian, mu=7, sigma=1)),
        similar("atom_pair", RANOLAZINE, partial(clipped, upper=0.7)),
        atoms("F", partial(gaussian, mu=1, sigma=1)),
    ),
    "perindopril_mpo": joined(
        similar("ecfp4", "O=C(OCC)C(NC(C(=O)N1C(C(=O)O)CC2CCCCC12)C)CCC"),
        descriptor("NumAromaticRings", partial(gaussian, mu=2, sigma=0.5)),
    ),
    "amlodipine_mpo": joined(
        similar("ecfp4", r"Clc1ccccc1C2C(=C(/N/C(=C2/C(=O)OCC)COCCN)C)\C(=O)OC"),
        descriptor("RingCount", partial(gaussian, mu=3, sigma=0.5)),
    ),
    "zaleplon_mpo": joined(
        similar("ecfp4", "O=C(C)N(CC)C1=CC=CC(C2=CC=NC3=C(C=NN23)C#N)=C1"),
        isomer("C19H17N3O2"),
    ),
    "sitagliptin_mpo": joined(
        similar("ecfp4", SITAGLIPTIN, partial(gaussian, mu=0, sigma=0.1)),  # to be unlike it in all but its properties
        near("MolLogP", SITAGLIPTIN, 0.2),
        near("TPSA", SITAGLIPTIN, 5),
        isomer("C16H15F6N5O"),
    ),
    "valsartan_smarts": joined(
        has("CN(C=O)Cc1ccc(c2ccccc2)cc1"),
        near("TPSA", SITAGLIPTIN, 5),
        near("MolLogP", SITAGLIPTIN, 0.2),
        near("BertzCT", SITAGLIPTIN, 30),
    ),
    "deco_hop": Joined(
        (
            pharmacophore(HOPPED, partial(clipped, upper=0.85)),
            has("CS([#6])(=O)=O", present=False),
            has("[#7]-c1ccc2ncsc2c1", present=False),
            has(QUINAZOLINE),
        ),
        arithmetic,
    ),
    "scaffold_hop": Joined(
        (
            pharmacophore(HOPPED, partial(clipped, upper=0.75)),
            has("[#6]-[#6]-[#6]-[#8]-[#6]~[#6]~[#6]~[#6]~[#6]-[#7]-c1ccc2ncsc2c1"),
            has(QUINAZOLINE, present=False),
        ),
        arithmetic,
    ),
}


def _molecule(smiles: str) -> Any:
    from rdkit import Chem

    return Chem.MolFromSmiles(smiles)


def _descriptor(name: str) -> Scored:
    from rdkit.Chem import Descriptors

    return getattr(Descriptors, name)
