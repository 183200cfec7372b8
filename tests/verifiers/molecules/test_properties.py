"""Properties, rules, atoms and patterns, against values worked by hand or published."""

from __future__ import annotations

from math import log2

import pytest

from aliquot.verifiers.builtin.molecules.allowed_atoms import AllowedAtoms, AllowedAtomsConfig
from aliquot.verifiers.builtin.molecules.descriptor import RDKIT_NAMES, Descriptor, DescriptorConfig
from aliquot.verifiers.builtin.molecules.druglikeness_rules import DruglikenessRules, DruglikenessRulesConfig
from aliquot.verifiers.builtin.molecules.natural_product_likeness import (
    NaturalProductLikeness,
    NaturalProductLikenessConfig,
)
from aliquot.verifiers.builtin.molecules.substructure import Substructure, SubstructureConfig
from aliquot.verifiers.registry import validate_config
from aliquot.verifiers.sdk import Score

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
CELECOXIB = "CC1=CC=C(C=C1)C1=CC(=NN1C1=CC=C(C=C1)S(N)(=O)=O)C(F)(F)F"
ATORVASTATIN = "CC(C)c1c(C(=O)Nc2ccccc2)c(-c2ccccc2)c(-c2ccc(F)cc2)n1CCC(O)CC(O)CC(=O)O"
MORPHINE = "CN1CCC23C4C1CC5=C2C(=C(C=C5)O)OC3C(C=C4)O"
NITROBENZENE = "O=[N+]([O-])c1ccccc1"


@pytest.mark.parametrize(
    ("property", "smiles", "value"),
    [
        # by atom, Wildman & Crippen's table: C1 .1441 + C3 −.2035 + O2 −.2893 + 5 H1 .1230 + H2 −.2677
        ("logp", "CCO", -0.0014),
        # Ertl's table: −OH 20.23 + =O 17.07 + ester −O− 9.23 + =O 17.07
        ("tpsa", ASPIRIN, 63.60),
        # IUPAC's standard atomic weights: 9 × 12.011 + 8 × 1.008 + 4 × 15.999
        ("molecular_weight", ASPIRIN, 180.159),
        # 9 × 12 + 8 × 1.00782503 + 4 × 15.99491462
        ("exact_mass", ASPIRIN, 180.042259),
        ("molar_refractivity", "C", 2.503 + 4 * 1.057),  # C1 and 4 H1 of Wildman & Crippen
        ("heavy_atoms", ASPIRIN, 13),
        ("atoms", ASPIRIN, 21),
        ("heteroatoms", CELECOXIB, 9),
        ("hydrogen_bond_donors", CELECOXIB, 1),
        ("hydrogen_bond_acceptors", CELECOXIB, 3),  # the pyridine-like nitrogen and two oxygens on sulfur
        ("nh_and_oh", CELECOXIB, 2),
        ("n_and_o", CELECOXIB, 5),
        ("rotatable_bonds", "CCCCCC", 3),
        ("rings", "c1ccc2ccccc2c1", 2),
        ("aromatic_rings", MORPHINE, 1),
        ("aliphatic_rings", MORPHINE, 4),
        ("fraction_sp3", "CCc1ccccc1", 0.25),
        ("formal_charge", "[NH3+]CC(=O)[O-]", 0),
        ("formal_charge", "CC(=O)[O-]", -1),
        ("stereocentres", "CC(N)C(=O)O", 1),
        # Bertz: n = 3 pairs of bonds that meet, all alike, 2 n log2 n − n log2 n; two atoms, unlike, 2 log2 2
        ("complexity", "C1CC1", 3 * log2(3)),
        ("complexity", "CO", 2),
    ],
)
def test_a_property_has_its_published_or_counted_value(property, smiles, value, judge):
    (score,) = judge(Descriptor(DescriptorConfig(property=property)), smiles)
    assert score.accepted and isinstance(score.score, float)
    assert score.score == pytest.approx(value, abs=5e-4 if property != "tpsa" else 0.01)


def test_limits_refuse_on_either_side_and_are_themselves_allowed(judge):
    verifier = Descriptor(DescriptorConfig(property="heavy_atoms", minimum=2, maximum=3))
    found = judge(verifier, "C", "CC", "CCC", "CCCC")
    assert [score.accepted for score in found] == [False, True, True, False]
    assert [score.reason for score in found] == ["heavy_atoms 1 is below 2", "", "", "heavy_atoms 4 is above 3"]


def test_rules_count_what_is_broken_and_name_it(judge):
    # atorvastatin: 558.6 g/mol and log P above 5, 4 donors, 7 oxygens and nitrogens; 12 rotatable bonds, 112 Å²
    both = DruglikenessRules(DruglikenessRulesConfig())
    (clean, broken) = judge(both, ASPIRIN, ATORVASTATIN)
    assert (clean.score, clean.accepted) == (0, True)
    assert broken.values["broken"] == ["lipinski:molecular_weight", "lipinski:logp", "veber:rotatable_bonds"]
    assert broken.score == 3 and not broken.accepted
    lenient = DruglikenessRules(DruglikenessRulesConfig(rules=("lipinski", "lipinski"), maximum=2))
    (allowed,) = judge(lenient, ATORVASTATIN)
    assert (allowed.score, allowed.accepted) == (2, True)


@pytest.mark.parametrize(
    ("rule", "smiles", "broken"),
    [
        ("ghose", "CCO", ["molecular_weight", "molar_refractivity", "atoms"]),  # 46 g/mol, 9 atoms
        ("ghose", CELECOXIB, []),
        ("egan", "OCC(O)C(O)C(O)C(O)C(O)C(O)CO", ["tpsa"]),  # 8 × 20.23 Å²
        ("rule_of_three", "Cc1ccccc1", []),
        ("rule_of_three", CELECOXIB, ["molecular_weight", "logp", "tpsa"]),
    ],
)
def test_a_rule_breaks_where_the_paper_puts_its_limit(rule, smiles, broken, judge):
    (score,) = judge(DruglikenessRules(DruglikenessRulesConfig(rules=(rule,))), smiles)
    assert score.values["broken"] == [f"{rule}:{name}" for name in broken]


def test_natural_products_score_above_synthetic_drugs_by_the_sum_of_their_environments(judge):
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors
    from rdkit.Contrib.NP_Score import npscorer

    verifier = NaturalProductLikeness(NaturalProductLikenessConfig(minimum=0))
    natural, synthetic = judge(verifier, MORPHINE, CELECOXIB)
    assert natural.score > 1 and natural.accepted
    assert synthetic.score < -0.5 and not synthetic.accepted
    model = npscorer.readNPModel()
    for smiles, found in ((MORPHINE, natural), (CELECOXIB, synthetic)):
        molecule = Chem.MolFromSmiles(smiles)
        environments: dict = {}
        rdMolDescriptors.GetMorganFingerprint(molecule, 2, bitInfo=environments)
        known = [model[i] for i in environments if i in model]
        assert found.score == pytest.approx(sum(known) / molecule.GetNumAtoms())
        assert found.values["confidence"] == pytest.approx(len(known) / len(environments))


@pytest.mark.parametrize(
    ("config", "smiles", "objections"),
    [
        ({}, ASPIRIN, []),
        ({}, NITROBENZENE, []),
        ({"charged_atoms": 0}, NITROBENZENE, ["2 atoms are charged; 0 may be"]),
        ({}, "C[Si](C)(C)C", ["Si (atom 2) is none of the allowed elements"]),
        ({"elements": ["C"]}, "[2H]C", ["H (atom 1) is the isotope 2"]),
        ({}, "[CH3]", ["C (atom 1) is a radical"]),
        ({"radicals": True, "isotopes": True}, "[13CH3]", []),
        ({}, "CC(=O)[O-]", ["the charge is -1; 0 is the most"]),
        ({"net_charge": 1}, "CC(=O)[O-]", []),
        ({}, "CCO.CCN", ["it consists of 2 parts; 1 may be"]),
        ({"valences": {"S": [2, 6]}}, "CS(C)(=O)=O", []),
        ({"valences": {"S": [2, 6]}}, "CS(C)=O", ["S (atom 2) has the valence 4, not 2 or 6"]),
        ({"valences": {"N": [3]}}, NITROBENZENE, []),
    ],
)
def test_each_atom_that_is_not_wanted_is_named(config, smiles, objections, judge):
    (score,) = judge(AllowedAtoms(AllowedAtomsConfig(**config)), smiles)
    assert score.values["objections"] == objections
    assert score.score == len(objections) and score.accepted == (not objections)


@pytest.mark.parametrize(
    ("config", "smiles", "score"),
    [
        ({"must": ["c1ccccc1", "[OX2H]"]}, "Oc1ccccc1", Score(1.0)),
        ({"must": ["c1ccccc1", "[OX2H]"]}, "Cc1ccccc1", Score(0.5, False, "it lacks [OX2H]")),
        ({"must": ["c1ccccc1", "[OX2H]"], "need": "any"}, "CCO", Score(1.0)),
        ({"must": ["c1ccccc1", "[OX2H]"], "need": "any"}, "CC", Score(0.0, False, "it lacks c1ccccc1 or [OX2H]")),
        ({"must": ["C"], "must_not": ["N", "O", "S"]}, "NCCO", Score(0.5, False, "it has N; it has O")),
        ({"must_not": ["[N+](=O)[O-]"]}, NITROBENZENE, Score(0.0, False, "it has [N+](=O)[O-]")),
        ({"must_not": ["[N+](=O)[O-]"], "need": "any"}, "CC", Score(1.0)),
    ],
)
def test_patterns_that_must_and_must_not_be_there(config, smiles, score, judge):
    assert judge(Substructure(SubstructureConfig(**config)), smiles) == [score]


@pytest.mark.parametrize(
    ("type", "config", "says"),
    [
        ("descriptor", {"property": "logd"}, "config.property"),
        ("descriptor", {"property": "logp", "minimum": 3, "maximum": 1}, "the maximum is below the minimum, 3"),
        ("druglikeness_rules", {"rules": []}, "config.rules"),
        ("allowed_atoms", {"elements": ["C", "Xx"]}, "no symbols of elements: 'Xx'"),
        ("allowed_atoms", {"valences": {"Q": [2]}}, "config.valences"),
        ("substructure", {}, "give at least one SMARTS"),
        ("substructure", {"must": ["C", "c1cc"]}, "[1] 'c1cc'"),
    ],
)
def test_a_wrong_configuration_says_where_and_how_to_mend_it(type, config, says):
    with pytest.raises(ValueError) as error:
        validate_config(type, config)
    assert says in str(error.value)


def test_every_property_but_three_is_one_of_rdkit():
    from typing import get_args

    from aliquot.verifiers.builtin.molecules.descriptor import PropertyName

    assert set(get_args(PropertyName)) - set(RDKIT_NAMES) == {"formal_charge", "atoms", "stereocentres"}
