"""Each truth against numbers that were worked out another way."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from aliquot.domain import ConditionsSpace, InvalidDesign, MoleculeSpace, SequenceSpace
from aliquot.domain.spaces import Categorical, Continuous, Discrete
from aliquot.lab_adapters.simulated.presets import ERLOTINIB, PRESETS
from aliquot.lab_adapters.simulated.truths import ClarkBbb, Esol, Motif, Similarity, Surface

MOLECULES = MoleculeSpace()


# Crippen's atom contributions (J. Chem. Inf. Comput. Sci. 39, 868, 1999), added up by hand:
# benzene 6 (C18 0.1581 + H1 0.1230); ethanol C1 0.1441 + C3 −0.2035 + O2 −0.2893 + 5 H1 0.1230 + H2 −0.2677.
BENZENE_LOGP = 6 * (0.1581 + 0.1230)
ETHANOL_LOGP = 0.1441 - 0.2035 - 0.2893 + 5 * 0.1230 - 0.2677


@pytest.mark.parametrize(
    ("smiles", "log_p", "weight", "rotatable", "aromatic"),
    [
        ("c1ccccc1", BENZENE_LOGP, 6 * 12.011 + 6 * 1.008, 0, 1.0),
        ("CCO", ETHANOL_LOGP, 2 * 12.011 + 6 * 1.008 + 15.999, 0, 0.0),
    ],
)
def test_esol_is_delaneys_formula(smiles, log_p, weight, rotatable, aromatic):
    expected = 0.16 - 0.63 * log_p - 0.0062 * weight + 0.066 * rotatable - 0.74 * aromatic
    assert Esol().value(MOLECULES.design(smiles)) == pytest.approx(expected, abs=1e-4)


def test_esol_counts_rotatable_bonds_and_the_share_of_aromatic_atoms():
    # biphenyl: one rotatable bond, every atom aromatic; Crippen: 10 C18 0.1581 + 2 C20 0.2713 + 10 H1 0.1230
    log_p = 10 * 0.1581 + 2 * 0.2713 + 10 * 0.1230
    expected = 0.16 - 0.63 * log_p - 0.0062 * (12 * 12.011 + 10 * 1.008) + 0.066 - 0.74
    assert Esol().value(MOLECULES.design("c1ccc(-c2ccccc2)cc1")) == pytest.approx(expected, abs=1e-4)


def test_clark_is_clarks_formula():
    # benzene has no polar surface; ethanol's hydroxyl has 20.23 Å² (Ertl 2000, table 1)
    assert ClarkBbb().value(MOLECULES.design("c1ccccc1")) == pytest.approx(0.152 * BENZENE_LOGP + 0.139, abs=1e-4)
    expected = 0.152 * ETHANOL_LOGP - 0.0148 * 20.23 + 0.139
    assert ClarkBbb().value(MOLECULES.design("CCO")) == pytest.approx(expected, abs=1e-4)


def test_similarity_is_high_for_the_reference_and_low_for_what_shares_nothing():
    truth = Similarity(reference="c1ccccc1", low=3.0, high=9.0, power=0.5)
    assert truth.value(MOLECULES.design("c1ccccc1")) == 9.0
    assert truth.value(MOLECULES.design("CCCCC")) == 3.0


def test_similarity_is_the_count_tanimoto_to_its_power():
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    features = rdFingerprintGenerator.GetMorganFeatureAtomInvGen()
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, atomInvariantsGenerator=features)
    counts = [
        generator.GetSparseCountFingerprint(Chem.MolFromSmiles(smiles)).GetNonzeroElements()
        for smiles in ("CCOc1ccccc1", "CCNc1ccccc1O")
    ]
    keys = set(counts[0]) | set(counts[1])
    shared = sum(min(c.get(k, 0) for c in counts) for k in keys) / sum(max(c.get(k, 0) for c in counts) for k in keys)
    assert 0 < shared < 1
    truth = Similarity(reference="CCOc1ccccc1", low=1.0, high=5.0, power=2.0)
    assert truth.value(MOLECULES.design("CCNc1ccccc1O")) == pytest.approx(1 + 4 * shared**2, abs=1e-12)


def test_the_druglike_potency_of_erlotinib_is_nine_and_that_of_common_drugs_near_five():
    potency = next(a for a in PRESETS["druglike"]["assays"] if a["name"] == "potency")
    truth = Similarity.model_validate(potency["truth"])
    assert truth.value(MOLECULES.design(ERLOTINIB)) == 9.0
    aspirin, ibuprofen = "CC(=O)Oc1ccccc1C(=O)O", "CC(C)Cc1ccc(cc1)C(C)C(=O)O"
    sildenafil = "CCCc1nn(C)c2c1nc([nH]c2=O)-c1cc(ccc1OCC)S(=O)(=O)N1CCN(C)CC1"
    for smiles in (aspirin, ibuprofen, sildenafil):
        assert 3.8 < truth.value(MOLECULES.design(smiles)) < 6.2


def test_a_reference_that_does_not_parse_is_refused_with_its_smiles():
    with pytest.raises(ValidationError, match="'c1cc' is not a valid SMILES"):
        Similarity(reference="c1cc")


PARAMETERS = (
    Continuous(name="temperature", low=20.0, high=100.0, levels=9),
    Discrete(name="equivalents", values=(1.0, 1.5, 2.0, 3.0)),
    Categorical(name="solvent", choices=("water", "toluene", "DMF")),
)
CONDITIONS = ConditionsSpace(parameters=PARAMETERS)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_point_of_a_surface_is_on_the_grid_and_inside_it(seed):
    from itertools import product

    truth = Surface(parameters=PARAMETERS, seed=seed, low=5.0, high=95.0)
    names = [p.name for p in PARAMETERS]
    values = {
        combination: truth.value(CONDITIONS.design(dict(zip(names, combination, strict=True))))
        for combination in product(*(p.grid() for p in PARAMETERS))
    }
    best = max(values, key=values.__getitem__)
    assert dict(zip(names, best, strict=True)) == truth.optimum
    assert values[best] == 95.0 and min(values.values()) >= 5.0
    assert 20 < truth.optimum["temperature"] < 100 and 1 < truth.optimum["equivalents"] < 3


def test_a_surface_is_the_documented_formula():
    numeric = (Continuous(name="a", low=0.0, high=10.0, levels=11), Continuous(name="b", low=-1.0, high=1.0, levels=21))
    truth = Surface(parameters=numeric, seed=3, low=0.0, high=1.0, width=0.5, interaction=0.4)
    a, b = float(truth.optimum["a"]), float(truth.optimum["b"])
    step_a, step_b = (1.0 if a < 9 else -1.0), (0.2 if b < 0.7 else -0.2)
    design = ConditionsSpace(parameters=numeric).design({"a": a + step_a, "b": b + step_b})
    da, db = step_a / 10 / 0.5, step_b / 2 / 0.5
    assert truth.value(design) == pytest.approx(math.exp(-(da * da + 2 * 0.4 * da * db + db * db) / 2), abs=1e-9)


def test_surfaces_of_different_seeds_differ_and_of_the_same_seed_agree():
    surfaces = [Surface(parameters=PARAMETERS, seed=seed) for seed in (0, 0, 1, 2, 3)]
    assert surfaces[0].optimum == surfaces[1].optimum
    assert any(s.optimum != surfaces[0].optimum for s in surfaces[2:])


def test_a_surface_refuses_conditions_of_another_space():
    other = ConditionsSpace(parameters=(Continuous(name="time", low=0.0, high=1.0),)).design({"time": 0.5})
    with pytest.raises(InvalidDesign, match="temperature, equivalents, solvent"):
        Surface(parameters=PARAMETERS).value(other)


PEPTIDES = SequenceSpace(alphabet="protein", max_length=20)


@pytest.mark.parametrize(
    ("sequence", "matched", "charge"),
    [
        ("AKLFRWC", 1.0, 2),  # both motifs, whole
        ("AKLFARC", 0.75, 2),  # K.F whole, of RW only the R
        ("AKLFA", 0.5, 1),  # K.F whole, nothing of RW
        ("GG", 0.0, 0),
    ],
)
def test_a_motif_score_is_the_mean_best_match_times_the_charge_term(sequence, matched, charge):
    truth = Motif(motifs=("K.F", "RW"), low=1.0, high=3.0, charge=2.0, tolerance=1.0)
    expected = 1 + 2 * matched * math.exp(-((charge - 2) ** 2) / 2)
    assert truth.value(PEPTIDES.design(sequence)) == pytest.approx(expected, abs=1e-12)


def test_a_motif_longer_than_the_sequence_matches_nothing():
    assert Motif(motifs=("AAAA",)).value(PEPTIDES.design("AAA")) == 0.0


def test_without_a_wanted_charge_only_the_motifs_count():
    assert Motif(motifs=("KK",)).value(PEPTIDES.design("GKAG")) == 0.5


def test_a_motif_of_nothing_but_wild_cards_is_refused():
    with pytest.raises(ValidationError, match="asks for nothing"):
        Motif(motifs=("..",))
