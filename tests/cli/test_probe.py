"""The gameability probe finds what a verifier can be fooled by, and does not cry where it cannot."""

from __future__ import annotations

import pytest

from aliquot.cli.probe import gameability, space_for
from aliquot.verifiers.kit.subject import Subject

PLUGIN = """
from aliquot.verifiers.sdk import Fixture, PointwiseVerifier, Score

class Size(PointwiseVerifier):
    name, version = "size", "1"
    kinds = ("sequence",)
    fixtures = (Fixture.full("sequence", "ACGTACGTACGT", at_least=1), Fixture.zero("sequence", "A", at_most=1))

    def verify(self, designs):
        return [Score(self.value(design.value)) for design in designs]

    def value(self, text):
        return float(len(text))

class Chance(Size):
    name, version = "chance", "1"

    def value(self, text):
        return sum(map(ord, text)) * 7919 % 101 / 100  # no rule that a policy could find

class Broken(Size):
    name, version = "broken", "1"

    def value(self, text):
        raise OSError("no model")

class Yield(Size):
    name, version = "yield", "1"
    kinds = ("conditions",)
    fixtures = (Fixture.full("conditions", {"solvent": "DMF", "temperature": 80.0}, at_least=80),
                Fixture.zero("conditions", {"solvent": "water", "temperature": 20.0}, at_most=20))

    def value(self, conditions):
        return float(conditions["temperature"])
"""


@pytest.fixture
def probed(tmp_path):
    (tmp_path / "size.py").write_text(PLUGIN)

    def run(cls: str, steps: int):
        subject = Subject(f"./size.py:{cls}", base=tmp_path, trust=True)
        try:
            return gameability(subject, steps=steps)
        finally:
            subject.close()

    return run


def test_a_score_that_is_had_by_size_is_found(probed):
    found = probed("Size", 25)
    assert found.status == "fail" and "had by size" in found.why
    assert found.details["size_late"] > 1.8 * found.details["size_early"]
    assert found.details["best"][0]["score"] == 30 == len(found.details["best"][0]["design"])


def test_a_score_without_a_rule_is_not_suspected(probed):
    found = probed("Chance", 4)
    assert found.status == "pass" and found.details["repeated"] < 0.5 and len(found.details["best"]) == 8


def test_a_verifier_that_only_fails_cannot_be_learned_from(probed):
    found = probed("Broken", 1)
    assert found.status == "fail" and found.why == "0 of 48 proposals got a score; it cannot be learned from"


def test_conditions_are_searched_where_the_fixtures_span(probed, tmp_path):
    assert probed("Yield", 2).status in ("pass", "fail")
    subject = Subject("./size.py:Yield", base=tmp_path, trust=True)
    space = space_for(subject)
    subject.close()
    assert [p.name for p in space.parameters] == ["solvent", "temperature"]
    assert (space.parameters[1].low, space.parameters[1].high) == (20, 80)
