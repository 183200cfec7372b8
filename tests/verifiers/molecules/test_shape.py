"""Shapes, against RDKit's other measure of overlap."""

from __future__ import annotations

import pytest

from aliquot.verifiers.builtin.molecules.shape import Shape, ShapeConfig

IBUPROFEN = "CC(C)Cc1ccc(cc1)C(C)C(=O)O"


@pytest.fixture(scope="module")
def verifier() -> Shape:
    return Shape(ShapeConfig(reference=IBUPROFEN, conformers=2, minimum=0.5))


def test_a_molecule_has_its_own_shape_and_a_ball_has_not(verifier, judge):
    same, small, other = judge(verifier, IBUPROFEN, "C", "CC(=O)Oc1ccccc1C(=O)O")
    assert same.score == pytest.approx(1, abs=0.01) and same.accepted
    assert small.score < 0.15 and not small.accepted and "is below 0.5" in small.reason
    assert small.score < other.score < same.score


def test_the_overlap_is_that_of_gaussians_on_the_heavy_atoms(judge):
    """Grant, Gallardo & Pickup: the sum over pairs of atoms, with p = 2.7 and alpha = pi (3p / 4pi)^(2/3) / r²."""
    import numpy as np
    from rdkit.Chem import MolFromSmiles, rdShapeAlign

    verifier = Shape(ShapeConfig(reference=IBUPROFEN, conformers=1))
    ball = "C1CC2CC3CC1CC(C2)C3"
    (found,) = judge(verifier, ball)
    reference, _ = verifier._embedded(MolFromSmiles(IBUPROFEN), 1)
    molecule, _ = verifier._embedded(MolFromSmiles(ball), 1)
    rdShapeAlign.AlignMol(reference, molecule)

    def atoms(mol):
        heavy = [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetAtomicNum() > 1]
        radii = np.array([{6: 1.70, 8: 1.52}[mol.GetAtomWithIdx(i).GetAtomicNum()] for i in heavy])  # Bondi's
        return mol.GetConformer().GetPositions()[heavy], np.pi * (3 * 2.7 / (4 * np.pi)) ** (2 / 3) / radii**2

    def volume(one, other):
        (x, a), (y, b) = atoms(one), atoms(other)
        together, product = a[:, None] + b, a[:, None] * b
        squared = ((x[:, None] - y) ** 2).sum(-1)
        return (2.7**2 * np.exp(-product / together * squared) * (np.pi / together) ** 1.5).sum()

    shared = volume(reference, molecule)
    expected = shared / (volume(reference, reference) + volume(molecule, molecule) - shared)
    assert found.score == pytest.approx(expected, abs=1e-3)


def test_the_score_of_a_design_is_always_the_same(verifier, judge):
    again = Shape(ShapeConfig(reference=IBUPROFEN, conformers=2))
    assert judge(again, "OC(=O)CCc1ccccc1")[0].score == judge(verifier, "CC", "OC(=O)CCc1ccccc1")[1].score


def test_what_has_no_three_dimensional_structure_is_refused_and_no_error(verifier, judge):
    for score in judge(verifier, "C1#CC1", "[H][H]", "[Pt]"):
        assert (score.score, score.accepted) == (0, False)
        assert score.reason == "it has no three-dimensional structure to compare"
