"""What holds for every built-in that judges molecules, on molecules that nobody expects."""

from __future__ import annotations

import math

import pytest

from aliquot.domain import Design
from aliquot.isolation.loading import load_target
from aliquot.verifiers.hosting import report
from aliquot.verifiers.registry import BUILTINS
from aliquot.verifiers.sdk import SetVerifier

MOLECULES = {name: target for name, target in BUILTINS.items() if ".builtin.molecules." in target}

ODD = (
    "C", "[H][H]", "[H+]", "O", "*", "*C", "[Fe]", "[CH3]", "[2H]C([2H])[2H]", "[Na+].[Cl-]", "CCO.CCN", "[NH4+]",
    "[O-][n+]1ccccc1", "C1=CC=C[CH]C=C1", "FS(F)(F)(F)(F)F", "[Pt](Cl)(Cl)(N)N", "c1ccc2c(c1)c1ccccc1c1ccccc21",
    "C1CC1C1CC1", "C" * 90, "C1" + "C" * 28 + "1", "OCC1OC(O)C(O)C(O)C1O", "C/C=C\\C", "C#[O+]", "[B-](F)(F)(F)F",
)  # fmt: skip
"""Gases, ions, metals, radicals, isotopes, dummies, salts, a long chain, a large ring, a sugar."""


@pytest.fixture(scope="module", params=MOLECULES)
def built(request, activity_models):
    """A verifier's name, its class, and a function that makes one with its example configuration."""
    cls = load_target(MOLECULES[request.param])
    config = {**cls.example, **({"files": activity_models} if request.param == "bioactivity" else {})}
    made = cls(cls.Config.model_validate(config))
    fresh = (lambda: cls(cls.Config.model_validate(config))) if issubclass(cls, SetVerifier) else (lambda: made)
    return request.param, cls, fresh


def designs(*smiles: str) -> list[Design]:
    return [Design(kind="molecule", value=each) for each in smiles]


def test_it_judges_odd_molecules_within_its_bounds(built):
    name, cls, fresh = built
    low, high = cls.bounds
    scores = list(fresh().verify(designs(*ODD)))
    assert len(scores) == len(ODD)
    for smiles, score in zip(ODD, scores, strict=True):
        answer = report(score)
        assert "error" not in answer, (name, smiles, answer)
        assert math.isfinite(answer["score"])
        assert (low is None or answer["score"] >= low) and (high is None or answer["score"] <= high), (name, smiles)
        assert answer["accepted"] or answer["reason"], (name, smiles)


def test_a_batch_gives_what_one_by_one_gives_in_any_order(built):
    _, cls, fresh = built
    if issubclass(cls, SetVerifier):
        return  # its memory makes the order count
    asked = designs("CC(=O)Oc1ccccc1C(=O)O", "C", "c1ccncc1", "CCO")
    together = list(fresh().verify(asked))
    assert [next(iter(fresh().verify([design]))) for design in asked] == together
    assert list(fresh().verify(asked[::-1])) == together[::-1]


@pytest.mark.parametrize("smiles", ["c1cccc1", "C1CC", "", "CN(C)(C)(C)C", "not a molecule"])
def test_what_is_no_molecule_is_refused_or_an_error_that_names_it(built, smiles):
    _, _, fresh = built
    try:
        (score,) = fresh().verify(designs(smiles))
    except ValueError as error:
        assert smiles in str(error) and "SMILES" in str(error)
    else:
        assert not score.accepted and repr(smiles) in score.reason


def test_its_fixtures_hold(built):
    name, cls, fresh = built
    assert {fixture.case for fixture in cls.fixtures} == {"full", "zero", "malformed", "seeded"}
    for fixture in cls.fixtures:
        if fixture.case == "malformed":
            continue
        changed = {**cls.example, **fixture.config}
        verifier = cls(cls.Config.model_validate(changed)) if fixture.config else fresh()
        *_, score = verifier.verify([*fixture.after, fixture.design])
        assert fixture.breach(score.score, score.accepted) == "", (name, fixture)


def test_its_controls_hold(built):
    _, cls, fresh = built
    verifier = fresh()
    for control in cls.controls_for(verifier.config):
        (score,) = verifier.verify([control.design])
        assert control.breach(score.score, score.accepted) == ""


def test_it_says_its_source_and_its_unit(built):
    name, cls, _ = built
    import sys

    module = sys.modules[cls.__module__].__doc__ or ""
    assert cls.__doc__ and len(module) > 150, name
    assert any(word in cls.__doc__ for word in ("unit", "Number", "Å²", "1 for")), name
