"""Designs become the documented numbers."""

from __future__ import annotations

import numpy as np
import pytest

from aliquot.domain import ConditionsSpace, Design, MoleculeSpace, SequenceSpace
from aliquot.domain.spaces import Categorical, Continuous, Discrete
from aliquot.surrogates import SurrogateError
from aliquot.surrogates.features import featuriser_of


def test_a_molecule_is_its_environments_counted_and_its_descriptors():
    space = MoleculeSpace()
    (row,) = featuriser_of(space)([space.design("CCO")])
    # ethanol: three atoms at radius 0, three environments of radius 1, and no new ones of radius 2
    assert row.shape == (2048 + 11,) and row[:2048].sum() == 6
    weight, log_p, _, tpsa, donors, acceptors, rotatable, aromatic, sp3, rings, hetero = row[2048:]
    assert weight == pytest.approx(46.0419, abs=1e-3) and log_p == pytest.approx(-0.0014, abs=1e-4)
    assert tpsa == pytest.approx(20.23, abs=1e-4)
    assert [donors, acceptors, rotatable, aromatic, sp3, rings, hetero] == [1, 1, 0, 0, 1, 0, 1]


def test_conditions_are_scaled_and_one_hot():
    space = ConditionsSpace(
        parameters=(
            Continuous(name="temperature", low=20.0, high=120.0),
            Categorical(name="solvent", choices=("water", "toluene", "DMF")),
            Discrete(name="equivalents", values=(1.0, 2.0, 5.0)),
        )
    )
    (row,) = featuriser_of(space)([space.design({"temperature": 45.0, "solvent": "toluene", "equivalents": 2.0})])
    assert row == pytest.approx([0.25, 0.0, 1.0, 0.0, 0.25])


def test_a_sequence_is_its_symbols_by_position_and_its_words():
    space = SequenceSpace(alphabet="HP", max_length=4)
    (row,) = featuriser_of(space)([space.design("HPP")])
    positions, ones, twos, threes = row[:8], row[8:10], row[10:14], row[14:]
    assert positions.tolist() == [1, 0, 0, 1, 0, 1, 0, 0]
    assert ones.tolist() == [1, 2]
    assert twos.tolist() == [0, 1, 0, 1]  # HH HP PH PP
    assert np.flatnonzero(threes).tolist() == [3] and len(threes) == 8  # HPP is the fourth of eight


def test_long_alphabets_stop_at_shorter_words():
    space = SequenceSpace(alphabet="protein", max_length=300)
    assert featuriser_of(space)([space.design("A")]).shape == (1, 256 * 20 + 20 + 400)


def test_no_designs_are_no_rows():
    spaces = (MoleculeSpace(), SequenceSpace(alphabet="dna", max_length=5))
    for space in (*spaces, ConditionsSpace(parameters=(Continuous(name="x", low=0.0, high=1.0),))):
        rows = featuriser_of(space)([])
        assert rows.shape[0] == 0 and rows.shape[1] > 0 and rows.dtype == np.float32


def test_a_molecule_that_no_space_made_is_refused():
    with pytest.raises(SurrogateError, match="not a valid SMILES"):
        featuriser_of(MoleculeSpace())([Design(kind="molecule", value="c1cc")])
