"""Bad input is said with its path, its value, and what would be right."""

import pytest
from pydantic import ValidationError

from aliquot.domain import ConfigError, Noun, Objective
from aliquot.domain.spaces import ConditionsSpace, DesignSpace, MoleculeSpace, SequenceSpace


class Holder(Noun):
    space: DesignSpace
    objective: Objective | None = None


def problems(data, model=Holder):
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    return ConfigError.of("file.yaml", caught.value, model).problems


def test_an_unknown_key_is_answered_with_the_nearest_known_one():
    [(path, value, remedy)] = problems({"space": {"type": "molecule", "sterео": "strip", "max_token": 5}})[-1:]
    assert path == "space.max_token" and value == 5 and "'max_tokens'" in remedy


def test_a_list_item_is_named_by_its_index():
    targets = [{"assay": "a", "desirability": {"type": "ramp", "low": 3, "high": 1}}]
    [(path, _, remedy)] = problems({"space": {"type": "molecule"}, "objective": {"targets": targets}})
    assert path == "objective.targets[0].desirability" and "low must be less than high" in remedy


def test_a_missing_key_is_named():
    [(path, _, remedy)] = problems({"space": {"type": "sequence"}})
    assert path == "space.max_length" and "required" in remedy


def test_an_unparsable_seed_names_its_place():
    [(path, _, remedy)] = problems({"space": {"type": "molecule", "seeds": ["CCO", "C1CC"]}})
    assert path == "space" and remedy.startswith("seeds[1]:")


@pytest.mark.parametrize(
    "make",
    [
        lambda: SequenceSpace(min_length=5, max_length=4),
        lambda: ConditionsSpace(
            parameters=({"type": "discrete", "name": "t", "values": [1, 2]},),
            constraints=({"weights": {"t": 1}, "low": 9},),
        ),
        lambda: ConditionsSpace(
            parameters=({"type": "categorical", "name": "s", "choices": ["a"]},), forbidden=({"s": "a"},)
        ),
    ],
)
def test_an_empty_design_space_is_refused(make):
    with pytest.raises(ValidationError, match="empty"):
        make()


def test_spaces_export_a_json_schema():
    for space in (MoleculeSpace, ConditionsSpace, SequenceSpace, Objective):
        assert space.model_json_schema()["properties"]
