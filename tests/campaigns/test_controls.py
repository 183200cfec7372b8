"""A verifier whose controls do not hold blocks its campaign before it can teach anything; so does a missing sandbox."""

from pathlib import Path

from sqlmodel import select

from aliquot.campaigns import controls as module
from aliquot.campaigns import run as running
from aliquot.campaigns.run import CampaignRun
from aliquot.domain import CampaignState
from aliquot.isolation.containment import SandboxUnavailable
from aliquot.ledger import EventRow, ProposalRow
from tests.campaigns.test_run import check, run
from tests.campaigns.tiny import spec

PLUGINS = Path(__file__).parent / "plugins" / "controlled.py"


def controlled(file: Path, name: str):
    return spec(verifiers=[{"name": "v", "type": f"{file}:{name}"}], budget={"experiments": 6})


def said(campaign) -> list[dict]:
    with campaign.ledger.read() as session:
        return [e.data for e in session.exec(select(EventRow).where(EventRow.kind == "controls"))]


def test_an_oracle_that_answers_nothing_but_zero_never_teaches(tmp_path):
    plugin = tmp_path / "oracle.py"
    plugin.write_text(PLUGINS.read_text())
    with CampaignRun.create(controlled(plugin, "Silenced"), tmp_path / "run") as campaign:
        assert run(campaign) is CampaignState.BLOCKED
        assert "GAGA" in campaign.progress().reason and "control" in campaign.progress().reason
        with campaign.ledger.read() as session:
            assert session.exec(select(ProposalRow)).first() is None
        plugin.write_text(PLUGINS.read_text().replace("[Score(0.0) for _ in designs]", "super().verify(designs)"))
        assert run(campaign) is CampaignState.EXHAUSTED
        check(campaign)
        assert [len(one["problems"]) for one in said(campaign)] == [1, 0]


def test_controls_are_asked_again_while_the_campaign_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "HOUR", 1e-9)
    with CampaignRun.create(controlled(PLUGINS, "Purines"), tmp_path / "run") as campaign:
        assert run(campaign) is CampaignState.EXHAUSTED
        asked = said(campaign)
        assert len(asked) > 2 and all(one == {"asked": 2, "problems": []} for one in asked)


def test_without_a_sandbox_a_campaign_is_blocked_and_goes_on_when_there_is_one(tmp_path, monkeypatch):
    def refused(*_):
        raise SandboxUnavailable(("bubblewrap is not installed: apt-get install bubblewrap",))

    with CampaignRun.create(controlled(PLUGINS, "Purines"), tmp_path / "run") as campaign:
        with monkeypatch.context() as patch:
            patch.setattr(running, "VerifierLadder", refused)
            assert run(campaign) is CampaignState.BLOCKED
        assert "apt-get install bubblewrap" in campaign.progress().reason
        assert run(campaign) is CampaignState.EXHAUSTED
