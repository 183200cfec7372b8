"""Components written to REINVENT4's documented interface. REINVENT4 itself is not on PyPI, so it is not here."""

from __future__ import annotations

import math

import pytest

from aliquot.domain import ConfigError, Design
from aliquot.verifiers.adapters.reinvent_component import ReinventComponent, import_component
from aliquot.verifiers.adapters.transforms import (
    DoubleSigmoid,
    ExponentialDecay,
    LeftStep,
    ReverseSigmoid,
    RightStep,
    Sigmoid,
    Step,
    ValueMapping,
)
from aliquot.verifiers.registry import validate_config
from aliquot.verifiers.sdk import NoScore

ASPIRIN, ETHANOL, THIOETHER = "CC(=O)Oc1ccccc1C(=O)O", "CCO", "CSC"

POLARITY = """
from __future__ import annotations
from typing import List, Optional
import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from rdkit import Chem
from rdkit.Chem import Descriptors
from .component_results import ComponentResults
from reinvent_plugins.mol_cache import molcache
from .add_tag import add_tag

@add_tag("__parameters")
@dataclass
class Parameters:
    with_sulphur: Optional[List[bool]] = Field(default_factory=lambda: [False])

@add_tag("__component")
class PolarArea:
    def __init__(self, params: Parameters):
        self.with_sulphur = params.with_sulphur
        self.number_of_endpoints = len(params.with_sulphur)

    @molcache
    def __call__(self, mols: List[Chem.Mol]) -> np.array:
        rows = [[Descriptors.TPSA(m, includeSandP=s) for m in mols] for s in self.with_sulphur]
        return ComponentResults([np.array(row) for row in rows], metadata={"atoms": [m.GetNumAtoms() for m in mols]})
"""
SEVERAL = """
from typing import List
import numpy as np
from pydantic.dataclasses import dataclass
from ..component_results import ComponentResults
from ..add_tag import add_tag
from ...normalize import normalize_smiles
from .words import LETTER

@add_tag("__parameters")
@dataclass
class Parameters:
    scale: List[float]

@add_tag("__component")
class Counts:
    def __init__(self, params):
        self.scale = params.scale[0]
        self.smiles_type = "rdkit_smiles"

    @normalize_smiles
    def __call__(self, smilies):
        return ComponentResults([np.array([np.nan if "S" in s else self.scale * s.count(LETTER) for s in smilies])])

@add_tag("__component", "filter")
class NoBromine:
    def __init__(self, params): pass
    def __call__(self, smilies):
        return ComponentResults(scores=[np.array([0.0 if "Br" in s else 1.0 for s in smilies])])

@add_tag("__component")
class Short:
    def __init__(self, params): pass
    def __call__(self, smilies):
        return ComponentResults([np.array([1.0] * (len(smilies) - 1))])

@add_tag("__component")
class Words:
    def __init__(self, params): pass
    def __call__(self, smilies):
        return ComponentResults([np.array(["good" if "O" in s else "odd" for s in smilies])])

@add_tag("__component")
class Raises:
    def __init__(self, params): pass
    def __call__(self, smilies):
        if "Br" in smilies: raise ValueError("no parameters for bromine")
        return ComponentResults([np.ones(len(smilies))])
"""


@pytest.fixture
def component(tmp_path):
    """Answers of a component of the second file, which stands in a folder below, in this process."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "comp_several.py").write_text(SEVERAL)
    (folder / "words.py").write_text("LETTER = 'C'\n")

    def judge(name, *smiles, **config):
        checked = {"file": folder / "comp_several.py", "component": name, "params": {"scale": 2.0}, **config}
        verifier = ReinventComponent(ReinventComponent.Config.model_validate(checked))
        return list(verifier.verify([Design(kind="molecule", value=text) for text in smiles]))

    return judge


def test_a_component_with_two_endpoints_scores_molecules_in_the_sandbox(verdicts, tmp_path):
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors

    (tmp_path / "comp_polarity.py").write_text(POLARITY)
    endpoints = [
        {"name": "plain", "params": {"with_sulphur": False}},
        {"name": "all", "params": {"with_sulphur": True},
         "transform": {"type": "reverse_sigmoid", "low": 0, "high": 140, "k": 0.5}},
    ]  # fmt: skip
    config = {"file": "comp_polarity.py", "endpoints": endpoints, "score": "all"}
    found = verdicts("reinvent_component", [ASPIRIN, "c1cccc1", THIOETHER], base=tmp_path, **config)
    area = rdMolDescriptors.CalcTPSA(Chem.MolFromSmiles(THIOETHER), includeSandP=True)
    assert found[2].values["plain"] == 0.0 and found[2].values["all"] == pytest.approx(area)
    assert found[2].score == pytest.approx(1 / (1 + 10 ** (5 * (area - 70) / 140)), rel=1e-6)
    assert found[0].values["atoms"] == 13 and found[0].values["plain"] == pytest.approx(63.6)
    assert found[1].score is None and "no SMILES that RDKit can read" in found[1].error.message
    assert {"bubblewrap", "no_network"} <= {*found[0].controls}


def test_nan_leaves_the_molecule_without_a_score_and_the_others_have_theirs(component):
    one, failed, other, nothing = component("Counts", ETHANOL, THIOETHER, "[13CH4]", "")
    assert isinstance(nothing, NoScore)
    assert (one.score, other.score) == (4.0, 2.0), "isotopes are taken off by the normaliser"
    assert isinstance(failed, NoScore) and "could not be computed" in failed.reason


def test_a_filter_refuses_what_it_scores_zero(component):
    kept, refused = component("no_bromine", ETHANOL, "CBr")
    assert (kept.score, kept.accepted, refused.score, refused.accepted) == (1.0, True, 0.0, False)


def test_categories_need_a_mapping(component):
    (bare,) = component("Words", ETHANOL)
    assert isinstance(bare, NoScore) and "not a number" in bare.reason
    mapping = {"type": "value_mapping", "mapping": {"good": 1.0}}
    good, odd = component("Words", ETHANOL, "CC", endpoints=[{"name": "word", "transform": mapping}])
    assert good.score == 1.0 and good.values["word"] == "good" and isinstance(odd, NoScore)


def test_a_wrong_count_and_an_exception_are_errors(component):
    with pytest.raises(ValueError, match="gave 1 scores for 2 SMILES"):
        component("Short", ETHANOL, "CC")
    with pytest.raises(ValueError, match="gave 1 arrays of scores; 2 endpoints are named"):
        component("Counts", ETHANOL, endpoints=[{"name": "a"}, {"name": "b"}])
    with pytest.raises(ValueError, match="no parameters for bromine"):
        component("Raises", "Br")


def test_an_exception_is_the_molecules_that_does_it_and_helpers_are_shown_to_the_sandbox(component, verdicts, tmp_path):
    config = {"file": "mine/comp_several.py", "helpers": ["mine/words.py"], "component": "Raises"}
    found = verdicts("reinvent_component", ["C", "Br", "O"], base=tmp_path, params={"scale": 1.0}, **config)
    assert [v.score for v in found] == [1.0, None, 1.0] and "no parameters for bromine" in found[1].error.message


@pytest.mark.parametrize(
    ("name", "says"),
    [("", "several components; name one of Counts, NoBromine"), ("Sizes", "no component 'Sizes'; there is Counts")],
)
def test_which_component_is_meant_must_be_plain(component, name, says):
    with pytest.raises(ValueError, match=says):
        component(name, ETHANOL)


def test_a_file_without_a_component_and_one_that_needs_reinvent_say_so(tmp_path, component):
    (tmp_path / "comp_none.py").write_text("class A: pass\n")
    with pytest.raises(ValueError, match="tag its class"):
        component("", ETHANOL, file=tmp_path / "comp_none.py")
    (tmp_path / "comp_more.py").write_text("from reinvent.chemistry import conversions\n")
    with pytest.raises(ModuleNotFoundError, match="reinvent"):
        import_component(tmp_path / "comp_more.py")


def test_endpoints_are_named_once():
    with pytest.raises(ConfigError, match="two have the same name"):
        validate_config("reinvent_component", {"file": "c.py", "endpoints": [{"name": "a"}, {"name": "a"}]})
    with pytest.raises(ConfigError, match="'b' is no endpoint; there is a|'b' is no endpoint; there are a"):
        validate_config("reinvent_component", {"file": "c.py", "endpoints": [{"name": "a"}], "score": "b"})


def test_transforms_have_the_values_that_their_formulas_give_by_hand():
    sigmoid = {"low": 2.0, "high": 6.0, "k": 0.5}
    assert Sigmoid(type="sigmoid", **sigmoid)(4.0) == 0.5
    assert Sigmoid(type="sigmoid", **sigmoid)(6.0) == pytest.approx(1 / (1 + 10**-2.5))
    assert ReverseSigmoid(type="reverse_sigmoid", **sigmoid)(2.0) == pytest.approx(1 / (1 + 10**-2.5))
    assert Sigmoid(type="sigmoid", **sigmoid)(1e9) == 1.0 and Sigmoid(type="sigmoid", **sigmoid)(-1e9) == 0.0
    assert Sigmoid(type="sigmoid", low=3, high=3, k=1)(3.1) == 1.0
    double = DoubleSigmoid(type="double_sigmoid", low=1.0, high=3.0)
    assert double(1.0) == 0.5 == double(3.0)
    assert double(2.0) == pytest.approx(1 - 1 / (1 + 10**1.5)), "the middle belongs to the right side"
    assert double(0.0) == pytest.approx(1 / (1 + 10**1.5))
    assert DoubleSigmoid(type="double_sigmoid", low=1, high=3, coef_div=0)(2.0) == 1.0
    assert [Step(type="step", low=1, high=2)(x) for x in (0.9, 1, 2, 2.1)] == [0, 1, 1, 0]
    assert [RightStep(type="right_step", high=1)(x) for x in (0.9, 1)] == [0, 1]
    assert [LeftStep(type="left_step", low=1)(x) for x in (1, 1.1)] == [1, 0]
    decay = ExponentialDecay(type="exponential_decay", k=0.5)
    assert decay(-1) == 1.0 and decay(2) == pytest.approx(math.exp(-1))
    assert math.isnan(ValueMapping(type="value_mapping", mapping={"a": 1})("b"))
