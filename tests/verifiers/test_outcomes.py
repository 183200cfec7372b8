"""Each thing that an author can do wrong gets its typed outcome, with the item that did it; the rest goes on."""

from __future__ import annotations

import textwrap

import pytest

from aliquot.domain import ConfigError, Design, Outcome
from aliquot.verifiers.ladder import VerifierLadder
from aliquot.verifiers.stage import VerifierRef

ODD = """
    import sys, time
    from aliquot.verifiers.sdk import Needs, PointwiseVerifier, Score, SetVerifier, SlowVerifier

    HELD = []

    class Odd(PointwiseVerifier):
        name, version = "odd", "1"
        needs = Needs(seconds=2, memory_mb=700)

        def verify(self, designs):
            for i, design in enumerate(designs):
                match design.value:
                    case "swapped": yield Score(9.0, of=Design(kind="sequence", value="other"))
                    case "huge": HELD.append(bytearray(2**30)); yield Score(1.0)
                    case "leak": HELD.append(bytearray(150 * 2**20)); yield Score(3.0)
                    case "print": sys.stdout.write("x" * 3_000_000); sys.stderr.write("y" * 3_000_000); yield Score(4.0)
                    case "exit": sys.exit("no licence")
                    case "none": yield None
                    case "complex": yield Score(1j)
                    case "accepted": yield Score(1.0, accepted="yes")
                    case "hang": time.sleep(60)
                    case _: yield Score(float(len(design.value)), of=design)

    class Returns(Odd):
        name, version = "returns", "1"

        def verify(self, designs):
            return {"text": "0.5", "mapping": {design.key: 1 for design in designs}, "nothing": None,
                    "number": 1.0}[designs[0].value]

    class Lists(Odd):
        name, version = "lists", "1"

        def verify(self, designs):
            return [Score(1.0)] * (len(designs) + (1 if designs[0].value == "many" else -1))

    class Jobs(SlowVerifier):
        name, version = "jobs", "1"

        def submit(self, designs):
            return [None if design.value == "none" else design.value for design in designs]

        def poll(self, tickets):
            if "swapped" in tickets:
                return {t: Score(1.0, of="another") for t in tickets}
            return None if "nothing" in tickets else {t: Score(1.0) for t in tickets}
"""


def sequences(*values: str) -> list[Design]:
    return [Design(kind="sequence", value=value) for value in values]


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A ladder for each class of the file, opened when it is first asked for."""
    path = tmp_path_factory.mktemp("plugins") / "odd.py"
    path.write_text("from aliquot.domain import Design\n" + textwrap.dedent(ODD))
    opened = {}

    def ladder(name):
        if name not in opened:
            opened[name] = VerifierLadder([VerifierRef(name="odd", type=f"{path}:{name}")])
        return opened[name]

    yield ladder
    for one in opened.values():
        one.close()


@pytest.mark.parametrize(
    ("poison", "says"),
    [
        ("swapped", "the score of another design"),
        ("exit", "no licence"),
        ("none", "None (NoneType) instead of a Score"),
        ("complex", "1j (complex); a score is a number"),
        ("accepted", "'yes' (str); it is True or False"),
        ("huge", "declares Needs(memory_mb=700)"),
    ],
)
def test_the_item_that_did_it_is_named_and_the_others_are_judged(odd, poison, says):
    good, bad, also = (j.verdicts["odd"] for j in odd("Odd").verify(sequences("AC", poison, "ACDE")))
    assert (good.score, also.score) == (2, 4)
    assert bad.score is None and bad.error.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert bad.error.message.startswith(poison) and says in bad.error.message


def test_a_hang_says_what_was_declared(odd):
    bad, good = (j.verdicts["odd"] for j in odd("Odd").verify(sequences("hang", "ACD")))
    assert good.score == 3 and bad.error.outcome is Outcome.TIMED_OUT
    assert "Needs(seconds=2)" in bad.error.message


def test_what_leaks_is_replaced_and_every_item_gets_its_score(odd):
    verdicts = [j.verdicts["odd"] for j in odd("Odd").verify(sequences("leak", "AC", "ACD"))]
    service = odd("Odd").stages[0]._service
    before = service.starts
    for i in range(8):
        verdicts += [j.verdicts["odd"] for j in odd("Odd").verify(sequences("leak", f"LEAK{'K' * i}"))]
        odd("Odd").cache._verdicts.clear()
    assert all(verdict.error is None for verdict in verdicts)
    assert service.starts > before, "700 MiB hold no eight leaks of 150"


def test_what_is_printed_reaches_no_frame(odd):
    assert [j.verdicts["odd"].score for j in odd("Odd").verify(sequences("print", "A"))] == [4, 1]


@pytest.mark.parametrize("what", ["text", "mapping", "nothing", "number"])
def test_what_is_no_list_of_scores_is_told(odd, what):
    (judgement,) = odd("Returns").verify(sequences(what))
    assert "one Score for each design" in judgement.verdicts["odd"].error.message and judgement.accepted is None


@pytest.mark.parametrize("what", ["many", "few"])
def test_too_many_or_too_few_are_told_with_what_to_do(odd, what):
    (judgement,) = odd("Lists").verify(sequences(what))
    assert "exactly one result per item" in judgement.verdicts["odd"].error.message
    assert "raises" in judgement.verdicts["odd"].error.message


def test_tickets_and_their_answers_are_checked_too(odd):
    none, nothing, swapped, fine = odd("Jobs").verify(sequences("none", "nothing", "swapped", "fine"))
    assert "non-empty string" in none.verdicts["odd"].error.message
    bad, good = odd("Jobs").poll([nothing, fine])
    assert "a mapping of ticket to Score" in bad.verdicts["odd"].error.message and good.verdicts["odd"].score == 1
    (bad,) = odd("Jobs").poll([swapped])
    assert "another design" in bad.verdicts["odd"].error.message


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import nothing_of_the_kind", "nothing_of_the_kind"),
        ("def broken(:", "SyntaxError"),
        ("raise RuntimeError('no model')", "no model"),
        ("class Mine: pass", "no verifier"),
        ("from aliquot.verifiers.sdk import *\nclass Mine(PointwiseVerifier):\n    name = 'x'\n"
         "    def verify(self, designs): return []", "declares no version"),
        ("from aliquot.verifiers.sdk import *\nclass Mine(PointwiseVerifier):\n    name, version = 'x', '1'\n"
         "    def __init__(self, config): raise OSError('no licence')\n    def verify(self, designs): return []",
         "no licence"),
        ("from aliquot.verifiers.sdk import *\n@verifier(name='x', version='1')\ndef Mine(a, b, c): return 1",
         "takes 3 parameters"),
        ("from aliquot.verifiers.sdk import *\n@verifier(name='x', version='1')\ndef Mine(a, b): return 1",
         "annotate 'b'"),
        ("from aliquot.verifiers.sdk import *\n@verifier(name='x', version='1', kind=('sequence',))\n"
         "def Mine(a): return 1", "knows no kind"),
    ],
)  # fmt: skip
def test_what_does_not_load_is_a_configuration_error_with_its_cause(tmp_path, source, says):
    (tmp_path / "mine.py").write_text(source)
    with pytest.raises(ConfigError, match=says) as error:
        VerifierLadder([VerifierRef(type="./mine.py:Mine")], base=tmp_path)
    assert error.value.problems[0][0] == "0.type" and "does not load" in str(error.value)


def test_a_function_is_a_verifier(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from __future__ import annotations\nfrom aliquot.verifiers.sdk import Score, VerifierConfig, verifier\n"
        "class Config(VerifierConfig):\n    factor: float = 1\n\n"
        "@verifier(name='mine', version='1', kinds=('sequence',))\ndef mine(design, config: Config):\n"
        "    return config.factor * len(design.value) if design.value != 'A' else Score(0.0, accepted=False)\n"
    )
    ref = VerifierRef(name="mine", type="./mine.py:mine", config={"factor": 2})
    with VerifierLadder([ref], base=tmp_path) as ladder:
        long, refused = (j.verdicts["mine"] for j in ladder.verify(sequences("ACD", "A")))
    assert (long.score, long.accepted, refused.accepted) == (6, True, False)
