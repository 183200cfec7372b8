"""Each built-in against a value it did not compute itself."""

from __future__ import annotations

import pytest

from aliquot.domain import ConfigError, Design
from aliquot.verifiers.builtin.molecules.diversity import Diversity, DiversityConfig
from aliquot.verifiers.builtin.molecules.novelty import Novelty, NoveltyConfig
from aliquot.verifiers.builtin.molecules.qed import Qed, QedConfig
from aliquot.verifiers.builtin.molecules.structural_alerts import StructuralAlerts, StructuralAlertsConfig
from aliquot.verifiers.builtin.molecules.synthetic_accessibility import (
    SyntheticAccessibility,
    SyntheticAccessibilityConfig,
)
from aliquot.verifiers.builtin.molecules.validity import Validity
from aliquot.verifiers.registry import validate_config
from aliquot.verifiers.sdk import Score, VerifierConfig

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
STRYCHNINE = "C1CN2CC3=CCOC4CC(=O)N5C6C4C3CC2C61C7=CC=CC=C75"
BENZYLIDENE_RHODANINE = "O=C1NC(=S)SC1=Cc1ccccc1"
"""The best known PAINS class, ene_rhod (Baell & Holloway 2010)."""


def molecules(*smiles: str) -> list[Design]:
    return [Design(kind="molecule", value=s) for s in smiles]


def judge(verifier, *smiles: str) -> list[Score]:
    return list(verifier.verify(molecules(*smiles)))


def test_validity_refuses_what_does_not_sanitise_and_passes_other_kinds():
    verifier = Validity(VerifierConfig())
    scores = judge(verifier, ASPIRIN, "CN(C)(C)(C)C", "c1cccc1", "C1CC", "")
    assert [s.score for s in scores] == [1, 0, 0, 0, 0]
    assert [s.accepted for s in scores] == [True, False, False, False, False]
    others = [Design(kind="conditions", value={"t": 3.0}), Design(kind="sequence", value="ACDE")]
    assert [s.accepted for s in verifier.verify(others)] == [True, True]


@pytest.mark.parametrize(
    ("smiles", "published"),
    [
        # values of the authors' own implementation, quoted in RDKit's documentation of `qed`
        ("N=C(CCSCc1csc(N=C(N)N)n1)NS(N)(=O)=O", 0.253),
        ("CNC(=NCCSCc1nc[nH]c1C)NC#N", 0.234),
        ("CCCCCNC(=N)NN=Cc1c[nH]c2ccc(CO)cc12", 0.234),
        (ASPIRIN, 0.550),
    ],
)
def test_qed_is_the_published_value(smiles, published):
    (score,) = judge(Qed(QedConfig()), smiles)
    assert score.score == pytest.approx(published, abs=0.001) and score.accepted


def test_qed_refuses_below_its_minimum_and_says_why():
    (score,) = judge(Qed(QedConfig(minimum=0.6)), ASPIRIN)
    assert not score.accepted and "0.550 is below 0.6" in score.reason


def test_synthetic_accessibility_ranks_aspirin_easy_and_strychnine_hard():
    verifier = SyntheticAccessibility(SyntheticAccessibilityConfig(maximum=4))
    easy, hard = judge(verifier, ASPIRIN, STRYCHNINE)
    assert easy.score == pytest.approx(1.58, abs=0.01) and easy.accepted
    assert 4 < hard.score <= 10 and not hard.accepted


def test_structural_alerts_finds_the_rhodanine_of_baell_and_holloway():
    verifier = StructuralAlerts(StructuralAlertsConfig(catalogs=("PAINS",)))
    clean, alerted = judge(verifier, ASPIRIN, BENZYLIDENE_RHODANINE)
    assert clean.score == 0 and clean.accepted
    assert alerted.score == 1 and not alerted.accepted
    assert "ene_rhod" in alerted.values["alerts"][0]


def test_structural_alerts_counts_over_the_catalogs_asked_for():
    nitrobenzene = "O=[N+]([O-])c1ccccc1"  # an alert of Brenk et al., not of PAINS
    assert judge(StructuralAlerts(StructuralAlertsConfig(catalogs=("PAINS",))), nitrobenzene)[0].score == 0
    (score,) = judge(StructuralAlerts(StructuralAlertsConfig(catalogs=("BRENK",), maximum=9)), nitrobenzene)
    assert score.score >= 1 and score.accepted
    assert any("nitro" in alert.lower() for alert in score.values["alerts"])


def test_novelty_is_one_minus_the_largest_overlap_of_atom_environments():
    """Worked with Python sets of environment identifiers, apart from RDKit's bit vectors and similarity code."""
    from rdkit import Chem
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    def environments(smiles):
        sparse = GetMorganGenerator(radius=2).GetSparseCountFingerprint(Chem.MolFromSmiles(smiles))
        return {identifier % 2048 for identifier in sparse.GetNonzeroElements()}

    references, candidate = [ASPIRIN, "CCO"], "O=C(O)c1ccccc1O"
    mine = environments(candidate)
    nearest = max(len(mine & e) / len(mine | e) for e in map(environments, references))
    (score,) = judge(Novelty(NoveltyConfig(references=tuple(references))), candidate)
    assert score.score == pytest.approx(1 - nearest) and 0 < score.score < 1


def test_novelty_remembers_what_it_accepted_and_nothing_else():
    verifier = Novelty(NoveltyConfig(minimum=0.5))
    first, again, near, other = judge(verifier, ASPIRIN, ASPIRIN, "CC(=O)Oc1ccccc1C(=O)OC", "C1CCNCC1")
    assert (first.score, first.accepted) == (1, True)
    assert (again.score, again.accepted) == (0, False)
    assert near.score < 0.5 and not near.accepted and other.accepted
    assert verifier.state() == [ASPIRIN, "C1CCNCC1"]


def test_novelty_forgets_the_oldest_beyond_its_memory():
    verifier = Novelty(NoveltyConfig(remember=1))
    assert [s.score for s in judge(verifier, ASPIRIN, "C1CCNCC1", ASPIRIN)][2] > 0
    assert [s.score for s in judge(verifier, ASPIRIN)] == [0]


def test_diversity_fills_a_scaffold_and_then_refuses_it():
    verifier = Diversity(DiversityConfig(bucket_size=2))
    toluene, phenol, aniline, pyridine, chains = (
        "Cc1ccccc1",
        "Oc1ccccc1",
        "Nc1ccccc1",
        "Cc1ccncc1",
        ("CCO", "CCN", "CC"),
    )
    scores = judge(verifier, toluene, toluene, phenol, aniline, toluene, pyridine)
    assert [s.score for s in scores] == [1, 0.5, 0.5, 0, 0, 1]
    assert [s.accepted for s in scores] == [True, True, True, False, False, True]
    assert "c1ccccc1" in scores[3].reason
    assert [s.accepted for s in judge(verifier, *chains)] == [True, True, False]


@pytest.mark.parametrize(
    "make", [lambda: Novelty(NoveltyConfig(minimum=0.3)), lambda: Diversity(DiversityConfig(bucket_size=1))]
)
def test_a_memory_that_was_saved_and_restored_judges_the_same(make):
    seen, later = ("Cc1ccccc1", "C1CCNCC1"), ("Cc1ccccc1", "Oc1ccccc1", "C1CCOCC1")
    one, two = make(), make()
    judge(one, *seen)
    two.restore(one.state())
    assert judge(one, *later) == judge(two, *later)


@pytest.mark.parametrize(
    ("type", "config", "says"),
    [
        ("qde", {}, "did you mean 'qed'"),
        ("qed", {"minimun": 0.5}, "did you mean 'minimum'"),
        ("qed", {"minimum": 3}, "config.minimum"),
        ("structural_alerts", {"catalogs": ["PAIN"]}, "config.catalogs.0"),
        ("novelty", {"references": ["CCO", "C1CC"]}, "[1] 'C1CC'"),
        ("./nowhere.py:Mine", {}, "there is no file"),
    ],
)
def test_a_wrong_configuration_says_where_and_how_to_mend_it(type, config, says):
    with pytest.raises(ConfigError) as error:
        validate_config(type, config)
    assert says in str(error.value)


def test_a_right_configuration_comes_back_with_its_defaults():
    assert validate_config("structural_alerts", {"maximum": 2}) == {"catalogs": ["PAINS", "BRENK"], "maximum": 2}
