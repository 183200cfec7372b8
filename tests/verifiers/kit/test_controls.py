"""Controls tell an oracle that has gone silent from one that judges."""

from __future__ import annotations

import pytest

from aliquot.domain import Design
from aliquot.verifiers.kit.controls import run_controls
from aliquot.verifiers.ladder import VerifierLadder
from aliquot.verifiers.sdk import Control
from aliquot.verifiers.stage import VerifierRef

ORACLES = """
from collections import Counter
from aliquot.verifiers.sdk import Control, Needs, PointwiseVerifier, Score, SetVerifier, SlowVerifier, VerifierConfig

BOTH = (Control.of("sequence", "KKKK", at_least=4), Control.of("sequence", "EEEE", at_most=0, accepted=False))

class Config(VerifierConfig):
    silent: bool = False
    raises: bool = False
    never: bool = False

def judged(config, text):
    if config.raises:
        raise OSError("licence server gone")
    value = 0.0 if config.silent else float(text.count("K"))
    return Score(value, accepted=value > 0)

class Good(PointwiseVerifier):
    name, version, controls, Config = "good", "1", BOTH, Config

    def verify(self, designs):
        return [judged(self.config, design.value) for design in designs]

class Slow(SlowVerifier):
    name, version, controls, Config = "slow", "1", BOTH, Config

    def submit(self, designs):
        return [design.value for design in designs]

    def poll(self, tickets):
        return {} if self.config.never else {ticket: judged(self.config, ticket) for ticket in tickets}

class Memory(SetVerifier):
    name, version, Config = "memory", "1", Config
    controls = (Control.of("sequence", "KKKK", at_least=1),)

    def __init__(self, config):
        super().__init__(config)
        self.seen = []

    def verify(self, designs):
        for design in designs:
            yield Score(float(design.value not in self.seen))
            self.seen.append(design.value)

    def state(self):
        return self.seen

    def restore(self, state):
        self.seen = list(state)

class Depends(Good):
    name, version = "depends", "1"

    @classmethod
    def controls_for(cls, config):
        return () if config.silent else BOTH
"""
KKKK = Design(kind="sequence", value="KKKK")


@pytest.fixture
def problems(tmp_path):
    (tmp_path / "oracles.py").write_text(ORACLES)

    def run(cls: str, **config):
        ref = VerifierRef(name="oracle", type="./oracles.py:" + cls, config=config)
        with VerifierLadder([ref], base=tmp_path) as ladder:
            return run_controls(ladder, patience=0.0, sleep=lambda seconds: None)

    return run


@pytest.mark.parametrize("cls", ["Good", "Slow", "Memory"])
def test_an_oracle_that_works_passes(problems, cls):
    assert problems(cls) == []


@pytest.mark.parametrize("cls", ["Good", "Slow"])
def test_an_oracle_that_returns_zero_for_everything_is_found(problems, cls):
    (problem,) = problems(cls, silent=True)
    assert problem.kind == "breach" and problem.verifier == "oracle" and problem.design == KKKK
    assert "scored 0; at least 4 is right" in problem.message


def test_an_oracle_that_raises_or_never_answers_is_found(problems):
    found = problems("Good", raises=True)
    assert [p.kind for p in found] == ["error", "error"] and "licence server gone" in found[0].message
    assert [p.kind for p in problems("Slow", never=True)] == ["unanswered", "unanswered"]


def test_controls_may_depend_on_the_configuration(problems):
    assert problems("Depends", silent=True) == []
    assert problems("Depends") == []


def test_no_memory_is_changed_and_nothing_is_counted(tmp_path):
    (tmp_path / "oracles.py").write_text(ORACLES)
    refs = [VerifierRef(name=cls, type=f"./oracles.py:{cls}") for cls in ("Good", "Memory")]
    with VerifierLadder(refs, base=tmp_path) as ladder:
        assert ladder.verify([KKKK])[0].verdicts["Memory"].score == 1
        held, counted = ladder.state(), ladder.reports()
        assert run_controls(ladder) == []  # of an empty memory, though KKKK is in the campaign's
        assert ladder.state() == held and ladder.reports() == counted
        ladder.cache._verdicts.clear()
        assert ladder.verify([KKKK])[0].verdicts["Memory"].score == 0


def test_a_bound_holds_at_its_edge():
    control = Control.of("sequence", "K", at_least=0.1 + 0.2, at_most=0.3)
    assert control.breach(0.3, True) == "" and "at most" in control.breach(0.31, True)
