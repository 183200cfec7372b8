"""`http` and `http_job` against a real second process, from inside the sandbox."""

from __future__ import annotations

import json

import pytest

from aliquot.domain import ConfigError, Design, Outcome
from aliquot.verifiers.adapters.http_exchange import Remote, RemoteFailed, same_place
from aliquot.verifiers.adapters.http_job import HttpJob
from aliquot.verifiers.registry import validate_config

SMILES = ["C", "CC", "CCC", "CCCBr"]


@pytest.fixture
def asked(ladder, remote):
    """Scores and messages of `SMILES` where the server does what it is told, and the ladder that asked."""

    def ask(*how, smiles=SMILES, **config):
        remote.behave(*how)
        opened = ladder("http", url=f"{remote.url}/score", **{"seconds": 5, **config})
        found = [j.verdicts["http"] for j in opened.verify([Design(kind="molecule", value=s) for s in smiles])]
        return [v.score for v in found], [v.error.message if v.error else "" for v in found], found

    return ask


def test_a_server_scores_designs_from_inside_the_sandbox_and_may_refuse_them(asked, remote):
    scores, _, found = asked("reversed", maximum=4)
    assert scores == [1, 2, 3, 5] and [v.accepted for v in found] == [True, True, True, False]
    assert found[3].reason == "score 5 is above 4" and found[1].values == {"of": "CC"}
    assert {"bubblewrap", "no_network"} <= {*found[0].controls}
    (request,) = remote.seen()
    assert [d["value"] for d in request["body"]["designs"]] == SMILES and request["authorization"] is None


@pytest.mark.parametrize(
    ("how", "left", "says"),
    [
        ("twice", [None, 2, 3, 5], "answered twice"),
        ("one less", [None, 2, 3, 5], "said nothing of it"),
        ("nan", [None, 2, 3, 5], "nan"),
        ("text", [None, 2, 3, 5], "'0.9', not a number"),
        ("error", [None, 2, 3, 5], "no conformer"),
        ("garbage", [None] * 4, "no JSON"),
        ("list", [None] * 4, 'wanted is {"verdicts"'),
        ("huge", [None] * 4, "more than 100000 bytes"),
        ("redirect", [None] * 4, "redirects are not followed"),
        (401, [None] * 4, "answered 401"),
        (500, [None] * 4, "(tried 2 times)"),
        ("hang up", [None] * 4, "cannot be reached"),
        ("cut", [None] * 4, "(tried 2 times)"),
    ],
)
def test_whatever_is_wrong_in_an_answer_leaves_what_it_touches_without_a_score(asked, how, left, says):
    scores, messages, found = asked(how, retries=1, max_bytes=100_000)
    assert scores == left and says in messages[0]
    assert found[0].error.outcome is Outcome.INFRASTRUCTURE_ERROR


@pytest.mark.parametrize("how", ["late", "drip"])
def test_a_server_that_is_late_is_told_as_a_time_out(asked, how):
    scores, messages, found = asked(how, smiles=["C"], seconds=1, retries=1, max_bytes=100_000)
    assert scores == [None] and found[0].error.outcome is Outcome.TIMED_OUT and "did not answer within" in messages[0]


def test_an_answer_to_an_earlier_request_fits_no_design(asked):
    scores, messages, _ = asked("well", "shifted", batch=2)
    assert scores == [1, 2, None, None] and "an id that was not asked" in messages[2]


def test_what_may_pass_is_tried_again_with_the_same_request(asked, remote):
    scores, _, _ = asked(429, 503, "hang up", "well")
    assert scores == [1, 2, 3, 5]
    bodies = [request["body"] for request in remote.seen()]
    assert len(bodies) == 4 and all(body == bodies[0] for body in bodies)


def test_a_design_that_a_server_cannot_process_costs_the_others_nothing(asked):
    scores, messages, _ = asked("unprocessable bromine")
    assert scores == [1, 2, 3, None] and "answered 422" in messages[3]


def test_a_token_comes_from_where_the_operator_put_it_and_is_never_told(asked, remote, tmp_path, monkeypatch):
    monkeypatch.setenv("ALIQUOT_TOKEN_LENGTH", "s3cret-of-the-variable\n")
    _, messages, found = asked(403, token={"variable": "ALIQUOT_TOKEN_LENGTH"})
    assert remote.seen()[0]["authorization"] == "Bearer s3cret-of-the-variable"
    assert "[token]" in messages[0] and "s3cret" not in repr(found)

    (tmp_path / "token").write_text("s3cret-of-the-file\n")
    scores, _, found = asked("well", token={"file": str(tmp_path / "token")})
    assert scores[0] == 1 and remote.seen()[0]["authorization"] == "Bearer s3cret-of-the-file"
    assert "s3cret" not in repr(found)


def test_a_token_goes_only_to_hosts_that_the_operator_named(asked, remote, monkeypatch):
    monkeypatch.setenv("ALIQUOT_TOKEN_LENGTH", "s3cret")
    monkeypatch.setenv("ALIQUOT_TOKEN_LENGTH_HOSTS", "models.example.org")
    with pytest.raises(ConfigError, match=r"models\.example\.org only"):
        asked("well", retries=2, token={"variable": "ALIQUOT_TOKEN_LENGTH"})
    monkeypatch.setenv("ALIQUOT_TOKEN_LENGTH_HOSTS", "models.example.org, 127.0.0.1")
    assert asked("well", retries=2, token={"variable": "ALIQUOT_TOKEN_LENGTH"})[0][0] == 1


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"url": "ftp://host/x"}, "https://host/path"),
        ({"url": "https://me:secret@host/x"}, "does not belong into a campaign"),
        ({"url": "http://models.example.org/x", "token": {"variable": "ALIQUOT_TOKEN_X"}}, "by https only"),
        ({"url": "https://host/x", "token": {"variable": "AWS_SECRET_ACCESS_KEY"}}, "ALIQUOT_TOKEN_"),
        ({"url": "https://host/x", "token": {}}, "either `variable` or `file`"),
    ],
)
def test_a_configuration_that_would_leak_is_refused(config, says):
    with pytest.raises(ConfigError) as refused:
        validate_config("http", config)
    assert says in str(refused.value)


def test_without_its_token_no_campaign_starts(asked, monkeypatch):
    monkeypatch.delenv("ALIQUOT_TOKEN_LENGTH", raising=False)
    with pytest.raises(ConfigError, match="is empty or not set"):
        asked("well", retries=4, token={"variable": "ALIQUOT_TOKEN_LENGTH"})


def test_the_sandbox_lets_it_reach_its_own_server_and_no_other(asked, monkeypatch):
    monkeypatch.delenv("ALIQUOT_SANDBOX_PRIVATE")
    scores, messages, _ = asked("well", retries=0)
    assert scores == [None] * 4 and "answered 403" in messages[0] and "not a public address" in messages[0]


def test_a_job_is_asked_until_it_is_done_and_survives_a_restart(ladder, remote):
    remote.behave("well", "location", "well")
    config = {"url": f"{remote.url}/jobs", "seconds": 5, "retries": 0}
    designs = [Design(kind="sequence", value=value) for value in ("A", "AC", "ACD")]
    first = ladder("http_job", **config)
    judgements = first.verify(designs)
    first.close()
    tickets = [judgement.pending["http_job"] for judgement in judgements]
    assert len({*tickets}) == 3

    again = HttpJob(HttpJob.Config(**config))
    assert again.poll(tickets) == {} and again.poll(tickets) == {}, "first it was not ready, then the server was down"
    third = again.poll(tickets)
    assert [score.score for score in third.values()] == [1] and [*third] == tickets[:1]
    last = again.poll(tickets[1:])
    assert last[tickets[1]].score == 2 and "said nothing of it" in last[tickets[2]].reason


def test_a_job_may_be_done_at_once_or_be_lost(remote):
    remote.behave("at once", "location", "elsewhere")
    job = HttpJob(HttpJob.Config(url=f"{remote.url}/jobs", seconds=5))
    designs = [Design(kind="sequence", value="ACD")]
    (done,), (waiting,), (nowhere,) = job.submit(designs), job.submit(designs), job.submit(designs)
    assert job.poll([done])[done].score == 3
    assert "only addresses at" in nowhere.reason
    assert json.loads(waiting)["poll"].startswith(remote.url)
    remote.behave("well")  # it has forgotten its jobs
    assert "answered 404" in job.poll([waiting])[waiting].reason


def test_a_ticket_cannot_send_the_token_elsewhere(remote):
    job = HttpJob(HttpJob.Config(url=f"{remote.url}/jobs"))
    forged = json.dumps({"id": "x", "poll": "http://127.0.0.1:1/jobs/1"})
    assert "cannot be used" in job.poll([forged, "no ticket"])[forged].reason
    with pytest.raises(ValueError, match="only addresses at"):
        same_place("https://host/a", "https://host:444/b")
    assert same_place("https://host/a", "b?c=1") == "https://host/b?c=1"


def test_the_pauses_grow_and_follow_what_the_server_asks(remote):
    remote.behave(503)
    pauses: list[float] = []
    with pytest.raises(RemoteFailed, match="tried 4 times"):
        Remote(pause=pauses.append, retries=3).post(f"{remote.url}/score", {"designs": []}, 30)
    assert len(pauses) == 3 and 0.125 <= pauses[0] <= 0.25 and 0.25 <= pauses[1] <= 0.5 and 0.5 <= pauses[2] <= 1
