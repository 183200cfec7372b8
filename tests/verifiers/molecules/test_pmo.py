"""The PMO oracles against the numbers of another implementation, and against means worked by hand."""

from __future__ import annotations

from math import exp, prod, sqrt

import pytest

from aliquot.verifiers.builtin.molecules.pmo import Pmo, PmoConfig
from aliquot.verifiers.builtin.molecules.pmo_tasks import TASKS
from aliquot.verifiers.hosting import describe

EXAMPLE = "CC(C)(C)[C@H]1CCc2c(sc(NC(=O)COc3ccc(Cl)cc3)c2C(N)=O)C1"
CELECOXIB = "CC1=CC=C(C=C1)C1=CC(=NN1C1=CC=C(C=C1)S(N)(=O)=O)C(F)(F)F"
TROGLITAZONE = "Cc1c(C)c2OC(C)(COc3ccc(CC4SC(=O)NC4=O)cc3)CCc2c(C)c1O"
THIOTHIXENE = "CN(C)S(=O)(=O)c1ccc2Sc3ccccc3C(=CCCN4CCN(C)CC4)c2c1"
ALBUTEROL = "CC(C)(C)NCC(O)c1ccc(O)c(CO)c1"
MESTRANOL = "COc1ccc2C3CCC4(C)C(CCC4(O)C#C)C3CCc2c1"
OSIMERTINIB = "COc1cc(N(C)CCN(C)C)c(NC(=O)C=C)cc1Nc2nccc(n2)c3cn(C)c4ccccc34"
SITAGLIPTIN = "Fc1cc(c(F)cc1F)CC(N)CC(=O)N3Cc2nnc(n2CC3)C(F)(F)F"
KINASE_INHIBITOR = "CCCOc1cc2ncnc(Nc3ccc4ncsc4c3)c2cc1S(=O)(=O)C(C)(C)C"


def score(task: str, smiles: str, judge) -> float:
    return judge(Pmo(PmoConfig(task=task)), smiles)[0].score


@pytest.mark.parametrize(
    ("task", "value"),
    [
        # of PyTDC's oracles, as the tests of the package poli record them
        ("albuterol_similarity", 0.2772277227722772),
        ("amlodipine_mpo", 0.461083967620704),
        ("celecoxib_rediscovery", 0.14728682170542637),
        ("deco_hop", 0.5338365434669443),
        ("fexofenadine_mpo", 0.4336446174984538),
        ("isomers_c7h8n2o2", 2.1987591132394053e-34),
        ("isomers_c9h10n2o2pf2cl", 1.713908431542013e-15),
        ("median1", 0.09722243533981723),
        ("median2", 0.12259690287307903),
        ("mestranol_similarity", 0.19460880999342536),
        ("osimertinib_mpo", 0.09011742702110873),
        ("perindopril_mpo", 0.36023741111440966),
        ("ranolazine_mpo", 0.29285467466584664),
        ("scaffold_hop", 0.38446411012782694),
        ("sitagliptin_mpo", 3.34970667598234e-12),
        ("thiothixene_rediscovery", 0.17391304347826086),
        ("troglitazone_rediscovery", 0.24427480916030533),
        ("valsartan_smarts", 0.0),
        ("zaleplon_mpo", 0.0019017991803329235),
    ],
)
def test_a_task_gives_what_the_therapeutics_data_commons_give(task, value, judge):
    assert score(task, EXAMPLE, judge) == pytest.approx(value, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("task", "smiles", "value"),
    [
        ("qed", OSIMERTINIB, 0.3105348061023151),  # from PyTDC's tutorial on oracles, like the next
        ("median2", OSIMERTINIB, 0.1407807656815755),
        ("celecoxib_rediscovery", CELECOXIB, 1),
        ("troglitazone_rediscovery", TROGLITAZONE, 1),
        ("thiothixene_rediscovery", THIOTHIXENE, 1),
        ("albuterol_similarity", ALBUTEROL, 1),
        ("mestranol_similarity", MESTRANOL, 1),
        ("isomers_c7h8n2o2", "Nc1cc(C(N)=O)ccc1O", 1),
        # one oxygen too many: 1 of 4 Gaussians of sigma 1, and 20 atoms instead of 19
        ("isomers_c7h8n2o2", "Nc1cc(C(N)=O)cc(O)c1O", exp(-(0.5 + 0.125) / 5)),
        ("isomers_c9h10n2o2pf2cl", "[H][H]", None),
        # perindopril has no aromatic ring, (0 − 2) / 0.5 = −4
        ("perindopril_mpo", "O=C(OCC)C(NC(C(=O)N1C(C(=O)O)CC2CCCCC12)C)CCC", sqrt(exp(-8))),
        # amlodipine has two rings
        ("amlodipine_mpo", r"Clc1ccccc1C2C(=C(/N/C(=C2/C(=O)OCC)COCCN)C)\C(=O)OC", sqrt(exp(-2))),
        # zaleplon is C17H15N5O, not C19H17N3O2: Gaussians at 2, 2, 2 and 1, and 38 atoms for 41
        (
            "zaleplon_mpo",
            "O=C(C)N(CC)C1=CC=CC(C2=CC=NC3=C(C=NN23)C#N)=C1",
            sqrt(exp(-(2 + 2 + 2 + 0.5 + 1.125) / 5)),
        ),
        # sitagliptin has all that is asked for but the unlikeness, (1 / 0.1)² / 2 = 50
        ("sitagliptin_mpo", SITAGLIPTIN, exp(-50 / 4)),
        # similar (1), but with a sulfone and a benzothiazole (0, 0); with the scaffold (1)
        ("deco_hop", KINASE_INHIBITOR, 0.5),
        # similar and decorated (1, 1), but with the scaffold (0)
        ("scaffold_hop", KINASE_INHIBITOR, 2 / 3),
    ],
)
def test_a_molecule_whose_score_can_be_worked_out_has_it(task, smiles, value, judge):
    found = score(task, smiles, judge)
    assert 0 <= found <= 1
    if value is not None:
        assert found == pytest.approx(value, rel=1e-9)


def test_a_mean_of_several_parts_is_that_of_properties_computed_apart(judge):
    from rdkit import Chem
    from rdkit.Chem import GraphDescriptors, rdMolDescriptors

    def properties(smiles):
        molecule = Chem.MolFromSmiles(smiles)
        log_p, _ = rdMolDescriptors.CalcCrippenDescriptors(molecule)
        return log_p, rdMolDescriptors.CalcTPSA(molecule), GraphDescriptors.BertzCT(molecule)

    def gaussian(x, mu, sigma):
        return exp(-0.5 * ((x - mu) / sigma) ** 2)

    log_p, surface, _ = properties(OSIMERTINIB)
    parts = [gaussian(surface, 100, 10), gaussian(log_p, 1, 1), 1.0, gaussian(1, 0.85, 0.1)]
    assert surface < 100 and log_p > 1  # on the flank of both
    assert score("osimertinib_mpo", OSIMERTINIB, judge) == pytest.approx(prod(parts) ** (1 / 4))

    fexofenadine = "CC(C)(C(=O)O)c1ccc(cc1)C(O)CCCN2CCC(CC2)C(O)(c3ccccc3)c4ccccc4"
    log_p, surface, _ = properties(fexofenadine)
    parts = [gaussian(surface, 90, 10), gaussian(log_p, 4, 1), 1.0]
    assert surface < 90 and log_p > 4
    assert score("fexofenadine_mpo", fexofenadine, judge) == pytest.approx(prod(parts) ** (1 / 3))

    ranolazine = "COc1ccccc1OCC(O)CN2CCN(CC(=O)Nc3c(C)cccc3C)CC2"
    log_p, surface, _ = properties(ranolazine)
    parts = [gaussian(surface, 95, 20), gaussian(log_p, 7, 1), 1.0, gaussian(0, 1, 1)]
    assert score("ranolazine_mpo", ranolazine, judge) == pytest.approx(prod(parts) ** (1 / 4))

    needle = "CN(C=O)Cc1ccc(-c2ccccc2C(=O)NCC(F)(F)F)cc1"
    found, wanted = properties(needle), properties("NC(CC(=O)N1CCn2c(nnc2C(F)(F)F)C1)Cc1cc(F)c(F)cc1F")
    parts = [1.0, *(gaussian(x, mu, sigma) for x, mu, sigma in zip(found, wanted, (0.2, 5, 30), strict=True))]
    assert score("valsartan_smarts", needle, judge) == pytest.approx(prod(parts) ** (1 / 4), rel=1e-9) and prod(parts)


def test_there_are_twenty_tasks_and_their_names_are_read_in_any_case():
    assert len(TASKS) == 20
    assert PmoConfig(task="Osimertinib_MPO").task == "osimertinib_mpo"


@pytest.mark.parametrize(
    ("task", "says"), [("drd2", "type: bioactivity"), ("GSK3B", "model: gsk3b"), ("median3", "known: albuterol_")]
)
def test_a_task_that_is_not_there_says_what_to_write_instead(task, says):
    (problem,) = describe("aliquot.verifiers.builtin.molecules.pmo:Pmo", {"task": task})["problems"]
    assert says in str(problem)


def test_a_minimum_refuses_and_names_the_task(judge):
    (found,) = judge(Pmo(PmoConfig(task="albuterol_similarity", minimum=0.5)), EXAMPLE)
    assert not found.accepted and found.reason == "albuterol_similarity 0.277 is below 0.5"
