"""A lab is found by name or by file, and a wrong section says what would be right."""

from __future__ import annotations

import pytest

from aliquot.clock import VirtualClock
from aliquot.domain import ConfigError
from aliquot.lab_adapters import create_lab, lab_class, lab_types
from aliquot.lab_adapters.simulated import SimulatedLab

LAB_FILE = """
from aliquot.lab_adapters.sdk import Health, LabAdapter, LabConfig


class Bench(LabAdapter):
    name, version = "bench", "1"

    class Config(LabConfig):
        drawers: int = 3

    def describe(self): ...
    def quote(self, design, assays): ...
    def submit(self, submission): ...
    def status(self, key): ...
    def results(self, since): ...
    def cancel(self, key): ...
    def reconcile(self, keys): ...
    def health(self):
        return Health(ok=True, message=f"{self.config.drawers} drawers")


class Stranger: ...
"""


def test_the_simulated_lab_is_built_in():
    assert "simulated" in lab_types()
    assert lab_class("simulated") is SimulatedLab


def test_a_lab_is_found_in_a_file_beside_the_campaign(tmp_path):
    (tmp_path / "bench.py").write_text(LAB_FILE)
    lab = create_lab("bench.py:Bench", {"drawers": 5}, VirtualClock(), folder=tmp_path)
    assert lab.health().message == "5 drawers"


def test_an_unknown_name_lists_what_exists():
    with pytest.raises(ConfigError, match=r"campaign.yaml.*\n.*lab.type: no lab of this name; known: .*simulated"):
        lab_class("simulate", source="campaign.yaml")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nowhere.py:Bench", "there is no file"),
        ("bench.py:Bank", "has no class Bank; it has Bench, Stranger"),
        ("bench.py:Stranger", "must name a subclass of aliquot.lab_adapters.sdk.LabAdapter"),
        ("broken.py:Bench", "does not import: ZeroDivisionError"),
    ],
)
def test_a_file_that_gives_no_lab_says_why(tmp_path, reference, message):
    (tmp_path / "bench.py").write_text(LAB_FILE)
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(ConfigError, match=message):
        lab_class(reference, folder=tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "give `assays`, or a `preset`: druglike"),
        ({"preset": "drugs"}, "lab.preset: Input should be 'druglike'"),
        ({"preset": "druglike", "capasity": 3}, "lab.capasity: unknown key; did you mean 'capacity'"),
        ({"preset": "druglike", "capacity": 0}, "lab.capacity: Input should be greater than or equal to 1"),
        ({"preset": "druglike", "failure": 1.5}, "lab.failure: Input should be less than or equal to 1"),
    ],
)
def test_a_wrong_section_names_the_key_and_the_remedy(config, message):
    with pytest.raises(ConfigError, match=message):
        create_lab("simulated", config, VirtualClock())


def test_making_a_lab_makes_no_file(tmp_path):
    lab = create_lab("simulated", {"preset": "druglike", "path": str(tmp_path / "lab.sqlite")}, VirtualClock())
    lab.describe()
    lab.close()
    assert list(tmp_path.iterdir()) == []
