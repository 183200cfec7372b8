"""A plugin comes in over HTTP, and no campaign can name it before the administrator has approved it."""

from pathlib import Path

import pytest

from aliquot.api.admin import create_key
from aliquot.verifiers.kit.install import pack_plugin
from tests.campaigns.tiny import SPEC

PLUGIN = Path(__file__).parents[1] / "campaigns" / "plugins" / "controlled.py"
GZIP = {"content-type": "application/gzip"}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIQUOT_PLUGINS", str(tmp_path / "plugins"))
    return tmp_path / "plugins"


@pytest.fixture
def archive(tmp_path) -> bytes:
    return pack_plugin(f"{PLUGIN}:Purines", tmp_path).read_bytes()


def test_an_uploaded_plugin_is_used_only_after_the_administrators_word(client, home, archive, tmp_path):
    key = create_key(tmp_path / "data")
    assert key is not None and create_key(tmp_path / "data") is None
    assert key not in (tmp_path / "data" / "admin.key").read_text()
    sent = client.post("/api/v1/plugins", content=archive, headers=GZIP)
    assert sent.status_code == 201 and sent.json()["approved"] is False
    assert client.post("/api/v1/plugins", content=archive, headers=GZIP).json() == sent.json()
    campaign = SPEC | {"verifiers": [{"name": "v", "type": "purines"}]}
    refused = client.post("/api/v1/campaigns", json=campaign)
    assert refused.status_code == 422 and "approval" in refused.json()["problems"][0]["remedy"]

    place = sent.headers["Location"]
    for headers in ({}, {"Authorization": "Bearer aliquot_admin_guess"}, {"Authorization": f"Basic {key}"}):
        answer = client.post(f"{place}/approve", headers=headers)
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
        assert client.delete(place, headers=headers).status_code == 401
    mine = {"Authorization": f"Bearer {key}"}
    assert client.post(f"{place}/approve", headers=mine).json()["approved"] is True
    listed = {(one["name"], one["approved"]) for one in client.get("/api/v1/plugins").json()}
    assert ("purines", True) in listed and ("qed", True) in listed
    assert client.post("/api/v1/campaigns", json=campaign).status_code == 201
    assert client.delete(place, headers=mine).status_code == 204
    assert client.delete(place, headers=mine).status_code == 404


@pytest.mark.parametrize("body", [b"", b"not an archive", b"\x1f\x8b\x08\x00garbage"])
def test_what_is_no_archive_is_refused_and_nothing_is_kept(client, home, body):
    answer = client.post("/api/v1/plugins", content=body, headers=GZIP)
    assert answer.status_code == 422 and answer.headers["content-type"] == "application/problem+json"
    assert not list(home.glob("plugins/*"))


def test_an_archive_says_what_it_is(client, home, archive):
    assert client.post("/api/v1/plugins", content=archive).status_code == 415


@pytest.mark.parametrize("type", ["./mine", "/srv/mine", "~/mine", "mine.py:Mine"])
def test_over_http_no_campaign_names_files_of_this_machine(client, type):
    answer = client.post("/api/v1/campaigns", json=SPEC | {"verifiers": [{"name": "v", "type": type}]})
    assert answer.status_code == 422 and answer.json()["problems"][0]["path"] == "verifiers[0].type"


def test_without_a_sandbox_a_campaign_of_a_stranger_is_refused_with_the_remedy(client, monkeypatch):
    from aliquot.api import campaigns
    from aliquot.isolation.containment import SandboxUnavailable

    def refused(*_):
        raise SandboxUnavailable(("bubblewrap is not installed: apt-get install bubblewrap",))

    monkeypatch.setattr(campaigns, "parse", refused)
    answer = client.post("/api/v1/campaigns", json=SPEC)
    assert answer.status_code == 503 and "bubblewrap" in answer.json()["problems"][0]["remedy"]
