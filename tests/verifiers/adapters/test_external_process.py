"""ExternalProcess of REINVENT4: SMILES on standard input, JSON on standard output, in the sandbox."""

from __future__ import annotations

import json

import pytest

from aliquot.domain import ConfigError, Design, Outcome
from aliquot.verifiers.adapters.external_process import ExternalProcess
from aliquot.verifiers.sdk import NoScore

PROGRAM = """
import json, os, sys, time
smiles = sys.stdin.read().split()
sizes = [float(len(text)) for text in smiles]
out = {"version": 1, "payload": {"sizes": sizes, "first": [text[0] for text in smiles]}}
for text in smiles:
    match text:
        case "F": print("fluorine is not parametrised", file=sys.stderr); sys.exit(3)
        case "Cl": os.abort()
        case "Br": sizes.pop()
        case "I": print("not JSON, sorry"); sys.exit()
        case "N": sizes[smiles.index("N")] = float("nan")
        case "O": sizes[smiles.index("O")] = None
        case "P": sizes[smiles.index("P")] = "0.7"
        case "S": out["version"] = 2
        case "B": out = ["no payload"]
        case "Si":
            if os.fork() == 0:
                time.sleep(60)
            time.sleep(60)
        case "Se": out["payload"]["padding"] = "x" * 20_000_000
print(json.dumps(out))
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "score.py").write_text(PROGRAM)
    return tmp_path


def test_a_program_scores_a_batch_and_what_it_does_to_one_molecule_is_that_ones_alone(verdicts, program):
    """One batch with a molecule of each kind that goes wrong."""
    wrong = ["F", "Cl", "Br", "I", "N", "O", "P", "S", "B"]
    smiles = ["C", "CC", *wrong, "CCC"]
    config = {"command": ["python", {"file": "score.py"}], "property": "sizes", "seconds": 20, "minimum": 2}
    found = dict(zip(smiles, verdicts("external_process", smiles, base=program, **config), strict=True))
    assert [found[s].score for s in ("C", "CC", "CCC")] == [1, 2, 3]
    assert [found[s].accepted for s in ("C", "CC", "CCC")] == [False, True, True]
    assert found["CC"].values == {"first": "C"} and {"bubblewrap", "no_network"} <= {*found["CC"].controls}
    for text, says in {
        "F": "ended with exit code 3; its standard error ends with:\nfluorine is not parametrised",
        "Cl": "was ended by SIGABRT",
        "Br": "gave 0 sizes for 1 SMILES",
        "I": "is no JSON",
        "N": "sizes is nan",
        "O": "sizes is None, not a number",
        "P": "sizes is '0.7', not a number",
        "S": "is of version 2",
        "B": "has no payload",
    }.items():
        assert found[text].score is None and says in found[text].error.message
        assert found[text].error.outcome is Outcome.INFRASTRUCTURE_ERROR


def judge(program, *smiles, **config):
    checked = {"command": ["python", str(program / "score.py")], "property": "sizes", **config}
    verifier = ExternalProcess(ExternalProcess.Config.model_validate(checked))
    return list(verifier.verify([Design(kind="molecule", value=text) for text in smiles]))


def test_a_program_that_hangs_is_ended_with_its_children(program):
    with pytest.raises(RuntimeError, match=r"did not end within 0\.9 s"):
        judge(program, "Si", seconds=1)


def test_a_program_that_floods_is_not_read_to_its_end(program):
    with pytest.raises(RuntimeError, match="more than 16 MiB"):
        judge(program, "Se")


@pytest.mark.parametrize(
    ("property", "says"), [("", "name the one that is the score"), ("size", "no list 'size'; there is sizes, first")]
)
def test_which_list_is_the_score_must_be_plain(program, property, says):
    with pytest.raises(ValueError, match=says):
        judge(program, "C", property=property)


def test_a_design_that_would_be_two_lines_is_no_smiles(program):
    with pytest.raises(ValueError, match="a line of its own"):
        judge(program, "C\nCCCCCCC")


def test_other_lists_are_values_and_what_is_no_json_in_them_is_none(program, tmp_path):
    (tmp_path / "score.py").write_text(
        "import json\nprint(json.dumps({'version': 1, 'payload': {'a': [1], 'b': [float('inf')], 'n': 3}}))"
    )
    (score,) = judge(tmp_path, "C", property="a")
    assert score.score == 1 and score.values == {"b": None} and not isinstance(score, NoScore)


def test_a_program_that_is_not_there_is_told_when_the_verifier_starts(verdicts):
    with pytest.raises(ConfigError, match="no program conda here"):
        verdicts("external_process", ["C"], command=["conda", "run", "predict.py"])


def test_what_the_campaign_does_not_show_is_not_seen(verdicts, program):
    (program / "secret.txt").write_text("42")
    (program / "spy.py").write_text(
        "import json, os, sys\n"
        f"found = [float(os.path.exists({str(program / 'secret.txt')!r})) for _ in sys.stdin]\n"
        "print(json.dumps({'version': 1, 'payload': {'found': found}}))"
    )
    command = {"command": ["python", {"file": "spy.py"}]}
    (hidden,) = verdicts("external_process", ["C"], base=program, **command)
    (shown,) = verdicts("external_process", ["C"], base=program, **command, reads=["secret.txt"])
    assert (hidden.score, shown.score) == (0.0, 1.0)
    assert hidden.digest != shown.digest and json.dumps(hidden.values) == "{}"
