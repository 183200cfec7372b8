"""Verifiers that answer later, in a whole campaign: tickets outlive the process, and nobody is waited for for ever."""

from pathlib import Path

import pytest
from sqlmodel import func, select

from aliquot.campaigns import engine
from aliquot.campaigns.run import CampaignRun
from aliquot.domain import CampaignState, Outcome
from aliquot.ledger import JudgementRow, ProposalRow, VerdictRow
from tests.campaigns.test_run import check, run
from tests.campaigns.tiny import spec


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(engine, "GLANCE", 0.05)


PLUGINS = Path(__file__).parent / "plugins" / "slow.py"


def slow(name: str, **sections):
    return spec(verifiers=[{"name": name.lower(), "type": f"{PLUGINS}:{name}"}], budget={"experiments": 8}, **sections)


def rows(campaign, kind, *where):
    with campaign.ledger.read() as session:
        return session.exec(select(kind).where(*where)).all()


def test_a_campaign_waits_for_verdicts_that_come_later_while_lab_time_stands_still(tmp_path):
    with CampaignRun.create(slow("Docking"), tmp_path / "run") as campaign:
        assert run(campaign) is CampaignState.EXHAUSTED
        check(campaign)
        proposals = rows(campaign, ProposalRow)
        judged = [p for p in proposals if p.state in ("selected", "passed_over", "credited", "refused")]
        assert len(judged) == len([p for p in proposals if p.state != "invalid"]) > 8
        assert all((p.state == "refused") == p.text.startswith("T") for p in judged)
        verdicts = rows(campaign, VerdictRow)
        assert {v.design_key for v in verdicts} == {p.design_key for p in judged}
        assert all(3 <= v.score <= 8 for v in verdicts)
        assert not rows(campaign, JudgementRow)


def test_tickets_outlive_the_process_that_was_given_them(tmp_path, monkeypatch):
    real = engine.waits_for_verdicts

    def killed(context):
        if real(context):
            raise KeyboardInterrupt
        return False

    with CampaignRun.create(slow("Docking"), tmp_path / "run") as campaign:
        with monkeypatch.context() as patch:
            patch.setattr(engine, "waits_for_verdicts", killed)
            with pytest.raises(KeyboardInterrupt):
                run(campaign)
        waiting = rows(campaign, JudgementRow)
        assert waiting and {p.state for p in rows(campaign, ProposalRow)} <= {"judging", "invalid"}
        asked = {row.design_key: row.board["pending"]["docking"] for row in waiting}
    with CampaignRun.open(tmp_path / "run") as campaign:
        assert run(campaign) is CampaignState.EXHAUSTED
        with campaign.ledger.read() as session:
            count = select(VerdictRow.design_key, func.count()).group_by(VerdictRow.design_key)
            given = dict(session.exec(count).all())
        assert all(given[key] >= 1 for key in asked)


def test_who_never_answers_is_given_up_and_the_proposal_is_missing_not_zero(tmp_path):
    with CampaignRun.create(
        slow("Silent", verifying={"wait_hours": 1e-4}, stopping={"patience": 2}), tmp_path / "run"
    ) as campaign:
        assert run(campaign) is CampaignState.BLOCKED
        assert "no answer in 0.0001 hours" in campaign.progress().reason
        proposals = [p for p in rows(campaign, ProposalRow) if p.state != "invalid"]
        assert proposals and {p.state for p in proposals} == {"undecided"}
        assert {v.error["outcome"] for v in rows(campaign, VerdictRow)} == {Outcome.TIMED_OUT}
