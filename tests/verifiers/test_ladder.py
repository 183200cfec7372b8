"""What a ladder promises a campaign."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from aliquot.domain import ConfigError, Design, Outcome
from aliquot.verifiers.ladder import Judgement, VerifierLadder
from aliquot.verifiers.registry import resolve, validate_config
from aliquot.verifiers.stage import VerifierRef

ASPIRIN, ETHANOL, RHODANINE = "CC(=O)Oc1ccccc1C(=O)O", "CCO", "O=C1NC(=S)SC1=Cc1ccccc1"

HOSTILE = """
    import os, sys, time
    from aliquot.verifiers.sdk import Needs, PointwiseVerifier, Score, VerifierConfig

    class Config(VerifierConfig):
        penalty: float = 0.0

    class Hostile(PointwiseVerifier):
        name, version = "hostile", "3"
        cost = 0.25
        needs = Needs(seconds=1, memory_mb=1024)
        Config = Config

        def verify(self, designs):
            for design in designs:
                match design.value:
                    case "hang": time.sleep(60)
                    case "abort": os.abort()
                    case "raise": raise ValueError("cannot do " + design.value)
                    case "nan": yield Score(float("nan"))
                    case "infinite": yield Score(float("inf"))
                    case "string": yield Score("0.5")
                    case "bool": yield Score(True)
                    case "float": yield 0.5
                    case "values": yield Score(1.0, values={"x": float("nan")})
                    case "drop": pass
                    case "print": print("flood" * 1_000_000); yield Score(2.0)
                    case _: yield Score(len(design.value) - self.config.penalty)
"""


def sequences(*values: str) -> list[Design]:
    return [Design(kind="sequence", value=value) for value in values]


def molecules(*values: str) -> list[Design]:
    return [Design(kind="molecule", value=value) for value in values]


def written(folder, name: str, source: str) -> str:
    (folder / name).write_text(textwrap.dedent(source))
    return str(folder / name)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    path = written(tmp_path_factory.mktemp("plugins"), "hostile.py", HOSTILE)
    with VerifierLadder([VerifierRef(name="hostile", type=f"{path}:Hostile", config={"penalty": 1})]) as ladder:
        yield ladder


@pytest.fixture(scope="module")
def druglike():
    refs = [
        VerifierRef(type="validity"),
        VerifierRef(type="qed", config={"minimum": 0.4}),
        VerifierRef(type="structural_alerts", config={"catalogs": ["PAINS"]}),
        VerifierRef(type="synthetic_accessibility", required=False, config={"maximum": 1.1}),
        VerifierRef(type="diversity", config={"bucket_size": 1}),
    ]
    with VerifierLadder(refs, kind="molecule") as ladder:
        yield ladder


@pytest.mark.parametrize(
    ("poison", "outcome", "says"),
    [
        ("hang", Outcome.TIMED_OUT, "no answer within 1 s"),
        ("abort", Outcome.INFRASTRUCTURE_ERROR, "SIGABRT"),
        ("raise", Outcome.INFRASTRUCTURE_ERROR, "ValueError: cannot do raise"),
        ("nan", Outcome.INFRASTRUCTURE_ERROR, "must be finite"),
        ("infinite", Outcome.INFRASTRUCTURE_ERROR, "must be finite"),
        ("string", Outcome.INFRASTRUCTURE_ERROR, "'0.5' (str); a score is a number"),
        ("bool", Outcome.INFRASTRUCTURE_ERROR, "True (bool); a score is a number"),
        ("float", Outcome.INFRASTRUCTURE_ERROR, "0.5 (float) instead of a Score"),
        ("values", Outcome.INFRASTRUCTURE_ERROR, "not JSON"),
        ("drop", Outcome.INFRASTRUCTURE_ERROR, "gave 0 for 1 items"),
    ],
)
def test_one_bad_item_gets_a_typed_error_that_names_it_and_the_others_their_scores(hostile, poison, outcome, says):
    judgements = hostile.verify(sequences(poison, f"ACD{poison}"))
    bad, good = (j.verdicts["hostile"] for j in judgements)
    assert good.score == len(poison) + 2
    assert bad.score is None and bad.error is not None and bad.error.outcome is outcome
    assert poison in bad.error.message and says in bad.error.message
    assert [j.accepted for j in judgements] == [None, True]


def test_what_a_plugin_prints_does_no_harm(hostile):
    assert [j.verdicts["hostile"].score for j in hostile.verify(sequences("print", "ACD"))] == [2, 2]


def test_a_worker_is_limited_to_what_its_verifier_declares(hostile):
    hostile.verify(sequences("LIMITED"))
    limits = Path(f"/proc/{hostile.stages[0]._service.pid}/limits").read_text()
    assert "rlimit_as" in hostile.stages[0]._service.controls and str(1024 * 2**20) in limits


def test_a_verdict_says_who_gave_it_with_what_code_at_what_cost_under_which_controls(hostile):
    (verdict,) = (j.verdicts["hostile"] for j in hostile.verify(sequences("FRESHDESIGN")))
    assert (verdict.verifier, verdict.version, verdict.cost) == ("hostile", "3", 0.25)
    assert len(verdict.digest) == 64 and verdict.seconds > 0
    assert {"bubblewrap", "env_scrubbed", "rlimit_cpu"} <= {*verdict.controls}


def test_an_error_is_not_cached_but_a_verdict_is(hostile):
    hostile.verify(sequences("raise", "CACHED"))
    before = hostile.cache.hits
    again = hostile.verify(sequences("CACHED", "CACHED", "raise"))
    assert hostile.cache.hits == before + 2
    assert again[0].verdicts["hostile"].score == again[1].verdicts["hostile"].score == 5
    assert again[0].verdicts["hostile"].cost == 0
    assert again[2].verdicts["hostile"].error is not None


def test_a_refused_design_visits_no_later_stage(druglike):
    invalid, plain, alert, good = druglike.verify(molecules("CN(C)(C)(C)C", ETHANOL, RHODANINE, ASPIRIN))
    assert (list(invalid.verdicts), invalid.accepted) == (["validity"], False)
    assert (list(plain.verdicts)[-1], plain.accepted) == ("diversity", True)
    assert (list(alert.verdicts), alert.accepted) == (["validity", "qed", "structural_alerts"], False)
    assert good.accepted is True


def test_a_stage_that_is_not_required_scores_without_refusing(druglike):
    (judgement,) = druglike.verify(molecules("C1CC(C2CCNCC2)CCN1C(=O)c1ccccc1"))
    assert judgement.verdicts["synthetic_accessibility"].accepted is False and judgement.accepted is True


def test_builtins_share_one_worker(druglike):
    assert len({stage._service for stage in druglike.stages}) == 1


def test_a_set_verifier_is_never_cached_and_its_memory_goes_round_through_json(druglike):
    thing = molecules("Cc1ccncc1C(=O)N1CCOCC1")
    assert [druglike.verify(thing)[0].accepted for _ in range(2)] == [True, False]
    saved = druglike.state()
    with VerifierLadder([VerifierRef(type="diversity", config={"bucket_size": 1})]) as later:
        assert later.state() == {}
        later.restore({**saved, "gone": [1]})
        assert later.verify(thing)[0].accepted is False
        assert later.state()["diversity"].keys() >= saved["diversity"].keys()


def test_a_slow_verdict_is_polled_and_lets_the_design_climb_on(tmp_path):
    source = """
        from aliquot.verifiers.sdk import Score, SlowVerifier, PointwiseVerifier

        class Docking(SlowVerifier):
            name, version = "docking", "1"

            def __init__(self, config):
                super().__init__(config)
                self.asked = 0

            def submit(self, designs):
                return ["job-" + design.value for design in designs]

            def poll(self, tickets):
                self.asked += 1
                if self.asked == 3:
                    return {"job-nobody": Score(1.0)}
                return {t: Score(float(len(t)), accepted=t != "job-C") for t in tickets if t != "job-CCC"}

        class Length(PointwiseVerifier):
            name, version = "length", "1"

            def verify(self, designs):
                return [Score(len(design.value)) for design in designs]
    """
    path = written(tmp_path, "slow.py", source)
    refs = [VerifierRef(name="docking", type=f"{path}:Docking"), VerifierRef(name="length", type=f"{path}:Length")]
    with VerifierLadder(refs, kind="molecule") as ladder:
        waiting = ladder.verify(molecules("C", "CC", "CCC"))
        assert [j.pending for j in waiting] == [{"docking": "job-C"}, {"docking": "job-CC"}, {"docking": "job-CCC"}]
        assert [(j.accepted, j.verdicts) for j in waiting] == [(None, {})] * 3
        stored = [Judgement.model_validate_json(j.model_dump_json()) for j in waiting]
        polled = ladder.poll(stored)
        assert [j.accepted for j in polled] == [False, True, None]
        assert [list(j.verdicts) for j in polled] == [["docking"], ["docking", "length"], []]
        assert polled[2].pending == {"docking": "job-CCC"} and not polled[1].pending
        assert ladder.poll(polled)[2].pending == {"docking": "job-CCC"}
        foreign = ladder.poll(polled)[2]
        assert "job-nobody" in foreign.verdicts["docking"].error.message and not foreign.pending


def test_a_plugin_that_does_not_load_is_a_configuration_error_with_its_traceback(tmp_path):
    path = written(tmp_path, "broken.py", "import sys\nsys.exit('no licence found')")
    with pytest.raises(ConfigError) as error:
        VerifierLadder([VerifierRef(type=f"{path}:Mine")])
    assert "verifiers" in str(error.value) and "no licence found" in str(error.value)
    assert error.value.problems[0][0] == "0.type"


def test_a_plugin_is_checked_in_a_worker_and_never_imported_here(tmp_path):
    path = written(tmp_path, "checked.py", HOSTILE)
    assert validate_config("checked.py:Hostile", {}, base=tmp_path) == {"penalty": 0.0}
    with pytest.raises(ConfigError, match="did you mean 'penalty'") as error:
        validate_config(f"{path}:Hostile", {"penalti": 1})
    assert error.value.problems[0][0] == "config.penalti"
    assert not any("checked" in name for name in sys.modules)


def test_mistakes_in_a_ladder_are_told_together_with_their_places():
    refs = [
        VerifierRef(type="qed", config={"minimum": 2}),
        VerifierRef(type="qed", name="second", config={"colour": "red"}),
    ]
    with pytest.raises(ConfigError) as error:
        VerifierLadder(refs, kind="sequence")
    assert [path for path, _, _ in error.value.problems] == ["0.config.minimum", "0.type", "1.config.colour", "1.type"]
    with pytest.raises(ConfigError, match="name of its own"):
        VerifierLadder([VerifierRef(type="qed"), VerifierRef(type="qed")])


def test_an_installed_plugin_is_found_by_its_entry_point_and_cannot_shadow_a_builtin(tmp_path, monkeypatch):
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[aliquot.verifiers]\nacme = acme.plugin:Acme\nqed = acme.plugin:Fake\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert resolve("acme").target == "acme.plugin:Acme" and resolve("acme").origin == "entry_point"
    assert resolve("qed").origin == "builtin"
