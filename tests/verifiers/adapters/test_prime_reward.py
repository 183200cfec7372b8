"""Reward functions of Prime Intellect's `verifiers`: with the package itself from PyPI, in an environment of its own
and in the sandbox; and functions of the older form, which need none.

The environment is built once for a test run; 51 wheels, 60 MB to fetch.
"""

from __future__ import annotations

import pytest

from aliquot.domain import ConfigError, Design
from aliquot.verifiers.adapters.prime_reward import TESTED, PrimeReward, judge_of
from aliquot.verifiers.sdk import NoScore

TASK = """
import verifiers.v1 as vf

assert vf.Task.__module__ == "verifiers.v1.task"

class Data(vf.TaskData):
    answer: str = ""
    forbidden: str = "Br"

class Ring(vf.Task[Data]):
    @vf.reward(weight=2.0)
    async def similar(self, trace: vf.Trace) -> float:
        shared = set(trace.last_reply) & set(self.data.answer)
        return len(shared) / len(set(self.data.answer))

    @vf.reward
    async def polite(self, task, trace) -> dict[str, float]:
        if "N" in trace.last_reply:
            raise RuntimeError("no nitrogen, please")
        return {"short": float(len(trace.last_reply) < 10), "odd": float("nan") if "P" in trace.last_reply else 0.0}

    @vf.metric
    async def turns(self, trace) -> float:
        return float(trace.num_turns)

class Contained(vf.Task[Data]):
    @vf.reward
    async def runs(self, trace, runtime) -> float:
        return 1.0
"""
FUNCTIONS = """
def length(completion, answer, **kwargs):
    return len(completion[-1]["content"]) / answer

async def carbon(completion, state, info, unit="C"):
    assert state["completion"] == completion and info["element"] == "C"
    if "X" in completion[-1]["content"]:
        raise KeyError("X")
    return completion[-1]["content"].count(info["element"])

def seldom(completion):
    return float("nan") if "P" in completion[-1]["content"] else True if "T" in completion[-1]["content"] else 0.0

def grouped(completions): return [0.0 for _ in completions]
def boxed(completion, runtime): return 0.0

class Parser:
    def parse_answer(self, completion): return completion[-1]["content"].strip("<>")

def parsed(completion, parser): return float(len(parser.parse_answer(completion)))

class Rubric:
    funcs, weights, class_objects = [parsed, length], [1.0, 0.0], {"parser": Parser()}

rubric = Rubric()
"""


@pytest.fixture
def judged(tmp_path):
    """Answers of the functions above, in this process."""
    (tmp_path / "rewards.py").write_text(FUNCTIONS)

    def judge(rewards, *values, **config):
        checked = PrimeReward.Config(file=tmp_path / "rewards.py", rewards=rewards, **{"answer": 4, **config})
        designs = [Design(kind="sequence", value=value) for value in values]
        return list(PrimeReward(checked).verify(designs))

    return judge


def test_a_task_of_the_real_package_scores_designs_in_the_sandbox(environment_of, verdicts, tmp_path):
    environment_of(TESTED)
    (tmp_path / "ring.py").write_text(TASK)
    config = {"file": "ring.py", "rewards": {"Ring": None}, "prompt": "Name a ring.", "answer": "CO"}
    found = verdicts("prime_reward", ["CCO", "CCC", "N", "P", "C" * 12], base=tmp_path, **config)
    assert [v.score for v in found] == [3.0, 2.0, None, None, 1.0]
    assert found[0].values == {"turns": 1.0, "similar": 1.0, "short": 1.0, "odd": 0.0}
    assert "no nitrogen, please" in found[2].error.message and "reward is nan" in found[3].error.message
    assert {"bubblewrap", "no_network"} <= {*found[0].controls}


def test_functions_name_what_they_want_and_their_weighted_sum_is_the_score(judged):
    rewards = {"length": 2.0, "carbon": None, "seldom": None}
    one, other = judged(rewards, "CCO", "CCCC", info={"element": "C"})
    assert one.score == 2 * 3 / 4 + 2 and other.score == 2 * 1 + 4
    assert one.values == {"length": 0.75, "carbon": 2, "seldom": 0.0}


@pytest.mark.parametrize(
    ("value", "says"), [("X", "KeyError: 'X'"), ("P", "seldom is nan"), ("T", "True, not a number")]
)
def test_what_those_frameworks_count_as_zero_has_no_score_and_the_others_have_theirs(judged, value, says):
    wrong, right = judged({"carbon": None, "seldom": None}, value, "C", info={"element": "C"})
    assert isinstance(wrong, NoScore) and says in wrong.reason and right.score == 1.0


def test_a_rubric_keeps_its_weights_and_its_parser(judged):
    (score,) = judged({"rubric": None}, "CCC", template="<{design}>")
    assert score.score == 3.0 and score.values == {"parsed": 3.0, "length": 1.25}


def test_conditions_are_told_as_json(judged, tmp_path):
    config = PrimeReward.Config(file=tmp_path / "rewards.py", rewards={"length": 1.0}, answer=1)
    (score,) = PrimeReward(config).verify([Design(kind="conditions", value={"t": 3.0, "base": "NaH"})])
    assert score.score == len('{"base": "NaH", "t": 3.0}')


@pytest.mark.parametrize(
    ("rewards", "says"),
    [
        ({"lenght": 1.0}, "did you mean 'length'"),
        ({"grouped": 1.0}, "is no verifier"),
        ({"boxed": 1.0}, "wants a runtime"),
        ({"rubric": None, "length": None}, "stands alone"),
        ({"FUNCTIONS": None}, "has no 'FUNCTIONS'"),
    ],
)
def test_what_cannot_be_asked_is_told_when_the_verifier_starts(judged, tmp_path, rewards, says):
    with pytest.raises(ValueError, match=says):
        judge_of(PrimeReward.Config(file=tmp_path / "rewards.py", rewards=rewards))


def test_a_reward_that_needs_a_container_is_told_when_the_verifier_starts(environment_of, verdicts, tmp_path):
    environment_of(TESTED)
    (tmp_path / "ring.py").write_text(TASK)
    with pytest.raises(ConfigError, match=r"Contained\.runs wants a runtime"):
        verdicts("prime_reward", ["C"], base=tmp_path, file="ring.py", rewards={"Contained": None})
