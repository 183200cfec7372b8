"""What is refused over HTTP: with a problem document, and before anything is made."""

from __future__ import annotations

import json

import pytest
import yaml

from aliquot.api.bodies import BODY_LIMIT

CAMPAIGNS = "/api/v1/campaigns"


def refused(response, status: int) -> dict:
    """The problem document of a refusal."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document["status"] == status and document["title"] and document["instance"].startswith("/api/v1/")
    return document


def test_a_valid_campaign_is_created_as_json_and_as_yaml(client, small_campaign):
    made = client.post(CAMPAIGNS, json=small_campaign)
    assert made.status_code == 201
    assert made.headers["location"] == made.json()["links"]["self"]
    text = yaml.safe_dump(small_campaign)
    again = client.post(CAMPAIGNS, content=text, headers={"content-type": "application/yaml; charset=utf-8"})
    assert again.status_code == 201
    listed = client.get(CAMPAIGNS).json()
    assert [one["id"] for one in listed] == [made.json()["id"], again.json()["id"]]
    assert all(one["state"] == "draft" and one["progress"] is None for one in listed)


def test_every_problem_is_named_with_path_value_and_remedy(client, small_campaign):
    small_campaign["budget"] = {"experiments": 0}
    small_campaign["lab"]["assays"][0]["name"] = "purity"
    small_campaign["proposing"]["grop_size"] = 8
    document = refused(client.post(CAMPAIGNS, json=small_campaign), 422)
    by_path = {one["path"]: one for one in document["problems"]}
    assert by_path["budget.experiments"]["value"] == 0
    assert "group_size" in by_path["proposing.grop_size"]["remedy"]
    assert client.get(CAMPAIGNS).json() == []


@pytest.mark.parametrize("section", ["lab", "verifiers"])
def test_a_file_smuggled_in_as_bytes_is_refused_and_not_run(client, small_campaign, tmp_path, section):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass X: ...\n")
    smuggled = {"type": f"{tmp_path / 'evil.py'}:X".encode()}
    small_campaign[section] = smuggled if section == "lab" else [smuggled]
    body = yaml.safe_dump(small_campaign)
    assert "!!binary" in body
    refused(client.post(CAMPAIGNS, content=body, headers={"content-type": "application/yaml"}), 422)
    assert not (tmp_path / "ran").exists() and client.get(CAMPAIGNS).json() == []


def test_an_assay_that_the_lab_has_not_is_refused(client, small_campaign):
    small_campaign["objective"]["targets"][0]["assay"] = "purity"
    (one,) = refused(client.post(CAMPAIGNS, json=small_campaign), 422)["problems"]
    assert one["path"] == "objective.targets[0].assay" and one["value"] == "purity" and "yield" in one["remedy"]


@pytest.mark.parametrize(
    ("section", "content", "path"),
    [
        ("verifiers", [{"type": "./evil.py:Evil"}], "verifiers[0].type"),
        ("verifiers", ["/tmp/evil.py:Evil"], "verifiers[0].type"),
        ("lab", {"type": "../evil.py:Lab"}, "lab.type"),
        ("lab", {"type": "simulated", "preset": "druglike", "path": "/tmp/evil.db"}, "lab.path"),
    ],
)
def test_files_of_the_server_cannot_be_named_from_outside(client, small_campaign, section, content, path):
    document = refused(client.post(CAMPAIGNS, json=small_campaign | {section: content}), 422)
    assert [one["path"] for one in document["problems"]] == [path]


BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]\n" for a, b in zip("abcdefghij", "bcdefghijk", strict=True)
)


@pytest.mark.parametrize(
    ("media_type", "body", "status"),
    [
        ("application/json", b'{"name": ', 400),
        ("application/json", b'{"name": NaN}', 400),
        ("application/json", b"\xff\xfe{}", 400),
        ("application/json", b"[" * 100_000, 400),
        ("application/json", b"", 400),
        ("application/json", b"[1, 2]", 422),
        ("application/json", b"null", 422),
        ("application/json", b'{"name": "\\ud800"}', 400),
        ("application/yaml", b'name: "\\uD800"', 400),
        ("application/yaml", b"a: [1, 2", 400),
        ("application/yaml", b"a: &a [*a]", 400),
        ("application/yaml", BOMB.encode(), 400),
        ("application/yaml", b"? {x: 1}\n: 2", 400),
        ("application/yaml", b"!!python/object/apply:os.system [id]", 400),
        ("application/yaml", b"[" * 5_000, 400),
        ("application/yaml", b"when: 2026-01-01\nwhat: !!binary aGk=\nnan: .nan", 422),
        ("text/plain", b"{}", 415),
        ("application/x-www-form-urlencoded", b"name=x", 415),
        ("application/json", b" " * (BODY_LIMIT + 1), 413),
        ("application/yaml", b"#" * (BODY_LIMIT + 1), 413),
    ],
)
def test_a_body_that_is_not_a_campaign_is_refused_without_harm(client, media_type, body, status):
    refused(client.post(CAMPAIGNS, content=body, headers={"content-type": media_type}), status)
    assert client.get(CAMPAIGNS).json() == []


def test_a_body_without_a_declared_length_is_counted_while_it_comes(client):
    pieces = (b" " * 65_536 for _ in range(17))
    refused(client.post(CAMPAIGNS, content=pieces, headers={"content-type": "application/json"}), 413)


def test_a_foreign_host_name_is_not_answered(client):
    assert client.get("/api/v1/health", headers={"host": "evil.example"}).status_code == 400
    assert client.get("/api/v1/health", headers={"host": "localhost:8000"}).json()["status"] == "ok"


@pytest.mark.parametrize("id", ["000000000000", "..", "%2e%2e", "ABC", "0" * 400])
@pytest.mark.parametrize("what", ["", "/results", "/report", "/events"])
def test_a_campaign_that_is_not_there_is_404(client, id, what):
    assert client.get(f"{CAMPAIGNS}/{id}{what}").status_code == 404


def test_what_is_not_known_yet_is_a_conflict_that_says_so(client, small_campaign):
    links = client.post(CAMPAIGNS, json=small_campaign).json()["links"]
    for name in ("results", "report", "events"):
        assert "not begun" in refused(client.get(links[name]), 409)["detail"]


def test_a_cancelled_campaign_stays_so(client, small_campaign):
    here = client.post(CAMPAIGNS, json=small_campaign).json()["links"]["self"]
    assert client.post(f"{here}/pause").json()["wanted"] == "paused"
    assert client.post(f"{here}/resume").json()["wanted"] == "running"
    assert client.post(f"{here}/cancel").json()["state"] == "cancelled"
    refused(client.post(f"{here}/resume"), 409)


def test_the_page_lists_campaigns_and_escapes_what_they_say(client, small_campaign):
    assert "No campaign yet" in client.get("/").text
    made = client.post(CAMPAIGNS, json=small_campaign).json()
    folder = client.app.state.folders.get(made["id"])
    folder.want(folder.wanted, "<script>alert(1)</script>")
    page = client.get("/").text
    assert "small" in page and made["links"]["self"] in page
    assert "<script>" not in page and "&lt;script&gt;" in page


def test_the_schema_of_the_api_is_served(client):
    schema = client.get("/api/v1/openapi.json").json()
    assert schema["openapi"].startswith("3.1")
    assert json.dumps(schema).count("ProblemDocument") > 1
