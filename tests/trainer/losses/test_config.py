"""Losses in a config: named by their type, found where they are, and refused with a remedy."""

import json
from textwrap import dedent
from typing import ClassVar, Literal

import pytest
from pydantic import ValidationError

import aliquot.trainer.losses as losses
from aliquot.domain import ConfigError, Noun
from aliquot.trainer.discovery import Family
from aliquot.trainer.losses import LOSSES, Loss, LossConfig, Reinforce, conflicts
from aliquot.trainer.losses.aipo import AIPO
from aliquot.trainer.losses.cispo import CISPO
from aliquot.trainer.losses.dppo import DPPO
from aliquot.trainer.losses.gspo import GSPO
from aliquot.trainer.losses.ppo import PPO

NAMES = {"aipo", "cispo", "dapo", "dppo", "dr_grpo", "gspo", "ppo", "reinforce"}
SOURCE = """
from typing import Literal
from aliquot.trainer.losses import Loss

class Mine(Loss):
    type: Literal["{name}"] = "{name}"
    aggregation: str = "token"
    strength: float = 1.0

    @property
    def anchored_at(self):
        return None

    def __call__(self, inputs):
        return inputs.logp.sum() * self.strength, {{}}
"""


class Section(Noun):
    loss: LossConfig = Reinforce()


def refusal(data: object) -> str:
    with pytest.raises(ValidationError) as caught:
        Section.model_validate({"loss": data})
    return str(ConfigError.of("campaign.yaml", caught.value, Section))


def test_a_type_picks_a_loss_and_every_field_survives_a_round_trip():
    section = Section.model_validate({"loss": {"type": "ppo", "ratio": "behaviour", "dual_clip": 3}})
    assert section.loss == PPO(ratio="behaviour", dual_clip=3.0)
    written = section.model_dump_json()
    assert set(json.loads(written)["loss"]) == set(PPO.model_fields)
    assert Section.model_validate_json(written) == section
    assert section.model_dump()["loss"]["dual_clip"] == 3.0


def test_a_loss_that_is_made_already_is_taken_as_it_is():
    loss = GSPO()
    assert Section(loss=loss).loss is loss
    assert Section().loss == Reinforce()


def test_every_loss_can_be_named_by_its_type_alone():
    assert set(LOSSES.members()) >= NAMES
    for name in NAMES:
        assert Section.model_validate({"loss": {"type": name}}).loss.type == name


def test_an_unknown_type_is_told_what_is_known_and_what_is_near():
    told = refusal({"type": "cipso"})
    assert "loss.type: no such loss; did you mean 'cispo'?" in told
    assert all(name in told for name in NAMES)


def test_a_wrong_key_is_told_the_keys_of_that_loss():
    told = refusal({"type": "ppo", "clip_hi": 0.3})
    assert "loss.clip_hi: unknown key; did you mean 'clip_high'?" in told and "dual_clip" in told


def test_a_wrong_value_is_told_by_its_path():
    assert "loss.max_ratio: Input should be greater than or equal to 1" in refusal({"type": "cispo", "max_ratio": 0.5})


@pytest.mark.parametrize("data", ["ppo", {"clip_low": 0.1}, {"type": 3}, None])
def test_what_is_no_section_with_a_type_is_told_the_types(data):
    assert "a loss is a section with its `type`, which is one of aipo, cispo" in refusal(data)


def test_the_schema_describes_every_loss():
    branches = Section.model_json_schema()["properties"]["loss"]["oneOf"]
    found = {branch["properties"]["type"]["const"]: branch for branch in branches}
    assert set(found) >= NAMES
    assert found["gspo"]["properties"]["clip_low"]["default"] == 3e-4
    assert "description" in found["gspo"]["properties"]["ratio"]
    Section.model_json_schema(mode="serialization")


def test_a_subclass_that_is_imported_is_known():
    class Imported(Loss):
        type: Literal["imported_somewhere"] = "imported_somewhere"
        aggregation: Literal["token"] = "token"
        linear: ClassVar[bool] = True

        @property
        def anchored_at(self) -> None:
            return None

        def __call__(self, inputs):
            return inputs.logp.sum(), {}

    loss = Section.model_validate({"loss": {"type": "imported_somewhere"}}).loss
    assert isinstance(loss, Imported)
    assert not loss.revisable  # linear, but its normaliser depends on the batch


def test_a_file_in_the_folder_is_all_that_a_loss_takes(tmp_path, monkeypatch):
    (tmp_path / "my_file.py").write_text(SOURCE.format(name="from_a_file"))
    monkeypatch.setattr(losses, "__path__", [*losses.__path__, str(tmp_path)])
    loss = Section.model_validate({"loss": {"type": "from_a_file", "strength": 2}}).loss
    assert loss.model_dump() == {"type": "from_a_file", "aggregation": "token", "strength": 2.0}


def test_an_installed_package_announces_a_loss(tmp_path, monkeypatch):
    installed(tmp_path, monkeypatch, "a_package_with_a_loss", "from_a_package", SOURCE.format(name="from_a_package"))
    assert "from_a_package" in refusal({"type": "no_such"})
    assert Section.model_validate({"loss": {"type": "from_a_package"}}).loss.type == "from_a_package"


def test_an_entry_point_that_lies_is_told_so_and_hurts_nobody_else(tmp_path, monkeypatch):
    installed(tmp_path, monkeypatch, "a_package_that_lies", "lies", "Mine = 3")
    assert "the entry point lies of aliquot.losses must name a subclass of" in refusal({"type": "lies"})
    assert Section.model_validate({"loss": {"type": "ppo"}}).loss == PPO()


def test_an_entry_point_that_does_not_import_is_told_so(tmp_path, monkeypatch):
    installed(tmp_path, monkeypatch, "a_broken_package", "broken", "import no_such_module_at_all")
    assert "a_broken_package:Mine does not import: No module named" in refusal({"type": "broken"})


def test_two_members_of_one_type_are_refused():
    class Thing(Noun):
        type: str

    class One(Thing):
        type: Literal["same"] = "same"

    class Other(One):
        """Forgot to change the type."""

    family = Family("thing", Thing, "aliquot.trainer.losses", "aliquot.things")
    with pytest.raises(TypeError, match=r"two thing classes have the type 'same': .*One and .*Other; rename one"):
        family.member("same")


def installed(folder, monkeypatch, package: str, name: str, source: str) -> None:
    (folder / f"{package}.py").write_text(dedent(source))
    information = folder / f"{package}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[aliquot.losses]\n{name} = {package}:Mine\n")
    monkeypatch.syspath_prepend(str(folder))


class Named(Noun):
    type: str


WEIGHTS = ("tis", "icepop", "kpop", "untruncated")


@pytest.mark.parametrize("correction", WEIGHTS)
@pytest.mark.parametrize("loss", [PPO(ratio="behaviour"), CISPO(ratio="behaviour"), GSPO(ratio="behaviour")])
def test_a_weight_on_a_ratio_at_the_behaviour_policy_is_refused_with_both_remedies(loss, correction):
    (told,) = conflicts(loss, Named(type=correction))
    assert loss.type in told and correction in told
    assert "`correction: {type: none}`" in told and "`ratio: old`" in told


@pytest.mark.parametrize("loss", [AIPO(), DPPO()])
def test_a_loss_that_is_always_at_the_behaviour_policy_has_one_remedy(loss):
    (told,) = conflicts(loss, Named(type="tis"))
    assert "`correction: {type: none}`" in told and "ratio: old" not in told


@pytest.mark.parametrize("correction", [*WEIGHTS, "none"])
def test_a_loss_without_that_ratio_takes_any_correction(correction):
    assert [conflicts(loss, Named(type=correction)) for loss in (Reinforce(), PPO(), CISPO(), GSPO())] == [[]] * 4


def test_masks_alone_may_stand_on_any_ratio():
    assert [conflicts(loss, Named(type="none")) for loss in (AIPO(), DPPO(), PPO(ratio="behaviour"))] == [[]] * 3
