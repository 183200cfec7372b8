"""A real server, its workers and its client: from submission to results, through pauses, crashes and restarts."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
import time

import httpx
import pytest

from aliquot.api.folders import Folders, Wanted
from aliquot.api.supervisor import CRASHES, Supervisor
from aliquot.campaigns.spec import CampaignSpec
from aliquot.client import Client, Refused

LONG = 600.0
"""Seconds after which a test gives up; a quiet machine needs a few."""


def until(condition, what: str):
    """Wait until `condition()` is true, and return what it gave."""
    deadline = time.monotonic() + LONG
    while not (value := condition()):
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.05)
    return value


def test_a_scientist_submits_waits_and_takes_the_results(start_server, small_campaign):
    _, address = start_server()
    with Client(address) as client:
        campaign = client.submit(small_campaign)
        assert campaign.wait(LONG, every=0.1) in ("completed", "exhausted")
        rows, now = campaign.results(), campaign.progress()
        assert len(rows) == 12 and rows[0]["yield [%]"] is not None
        assert now["experiments"]["budget"] == 12 and now["best"]["value"] > 0
        events = campaign.events()
        assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
        assert campaign.events(after=3)[0]["sequence"] == 4
        assert [one.id for one in client.campaigns()] == [campaign.id]
        links = campaign.status()["links"]
        table = list(csv.DictReader(io.StringIO(httpx.get(f"{address}{links['results']}?format=csv").text)))
        assert [row["number"] for row in table] == [str(row["number"]) for row in rows]
        assert "<html" in httpx.get(f"{address}{links['report']}", timeout=60).text
        assert links["report"] in httpx.get(address).text
        with pytest.raises(Refused, match="for good") as refusal:
            campaign.pause()
        assert refusal.value.status == 409


def test_a_campaign_pauses_resumes_and_is_cancelled(start_server, small_campaign):
    small_campaign["budget"]["experiments"] = 2000
    _, address = start_server()
    with Client(address) as client:
        campaign = client.submit(small_campaign)
        until(lambda: campaign.status()["state"] == "running", "the start")
        campaign.pause()
        assert campaign.wait(LONG, every=0.1) == "paused"
        measured = campaign.progress()["proposals"]["total"]
        campaign.resume()
        until(lambda: campaign.progress()["proposals"]["total"] > measured, "the resumption")
        campaign.cancel()
        assert campaign.wait(LONG, every=0.1) == "cancelled"
        assert campaign.progress()["proposals"]["total"] > measured


def test_a_server_that_was_killed_finds_its_campaign_at_work_and_one_that_stopped_resumes_it(
    start_server, small_campaign, tmp_path
):
    small_campaign["budget"]["experiments"] = 60
    server, address = start_server()
    with Client(address) as client:
        id = client.submit(small_campaign).id
        until(lambda: client.campaign(id).status()["state"] == "running", "the start")
    folder = Folders(tmp_path / "data").get(id)
    worker = folder.worker()
    server.kill()
    server.wait()
    assert worker is not None and folder.worker() == worker, "the campaign outlives its server"

    server, address = start_server()
    with Client(address) as client:
        assert client.campaign(id).status()["state"] in ("running", "completed", "exhausted")
    server.terminate()
    server.wait()
    assert folder.worker() is None, "a server that is stopped stops its campaigns"
    assert folder.wanted is Wanted.RUNNING

    _, address = start_server()
    with Client(address) as client:
        campaign = client.campaign(id)
        assert campaign.wait(LONG, every=0.1) in ("completed", "exhausted")
        assert len(campaign.results()) == 60


def test_a_second_server_does_not_take_the_same_folder_nor_the_same_port(start_server, tmp_path):
    _, address = start_server()
    port = address.rpartition(":")[2]
    for options in (["--port", "0", "--data", str(tmp_path / "data")], ["--port", port, "--data", str(tmp_path / "b")]):
        done = subprocess.run([sys.executable, "-m", "aliquot.cli", "serve", *options], capture_output=True, text=True)
        assert done.returncode == 2 and "another" in done.stderr


@pytest.fixture
def supervised(tmp_path, small_campaign):
    """A supervisor that is swept by hand, and one campaign."""
    folders = Folders(tmp_path / "data")
    small_campaign["budget"]["experiments"] = 5000
    supervisor = Supervisor(folders, limit=1)
    yield supervisor, folders.create(CampaignSpec.model_validate(small_campaign))
    for folder in folders.all():
        folder.want(Wanted.PAUSED)
    supervisor.stop()
    folders.close()


def test_a_worker_that_dies_is_replaced_but_not_for_ever(supervised):
    supervisor, folder = supervised
    for _ in range(CRASHES):
        supervisor.sweep()
        worker = until(folder.worker, "a worker")
        os.kill(worker, signal.SIGKILL)
        until(lambda: folder.worker() is None, "its end")
    until(lambda: supervisor.sweep() or folder.wanted is Wanted.PAUSED, "the verdict")
    assert "ended 3 times" in folder.note
    assert folder.worker() is None


def test_campaigns_beyond_the_limit_wait_their_turn(supervised):
    supervisor, first = supervised
    second = supervisor.folders.create(first.spec)
    until(lambda: supervisor.sweep() or first.worker(), "the turn of the first")
    supervisor.sweep()
    assert second.worker() is None
    first.want(Wanted.PAUSED)
    until(lambda: supervisor.sweep() or second.worker(), "the turn of the second")
    assert first.worker() is None


def test_a_campaign_that_fails_says_why_and_waits_for_a_person(supervised):
    supervisor, folder = supervised
    folder.run.mkdir()
    (folder.run / "weights").write_text("a file where a folder belongs")
    until(lambda: supervisor.sweep() or folder.wanted is Wanted.PAUSED, "the failure")
    assert "Error" in folder.note
    assert "Traceback" in folder.log.read_text()
