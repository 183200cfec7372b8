"""A verifier is mended after the campaign: its verdicts are had again, and rewards follow."""

from pathlib import Path

import pytest
from sqlmodel import select

from aliquot.campaigns.run import CampaignRun
from aliquot.domain import CampaignState, ConfigError
from aliquot.ledger import ProposalRow, RewardRow, VerdictRow
from tests.campaigns.test_run import run
from tests.campaigns.tiny import spec

PLUGINS = Path(__file__).parent / "plugins" / "controlled.py"
RAMP = {"desirability": {"type": "ramp", "low": 0.0, "high": 1.0}}
STRICT = """

class Strict(Purines):
    name = "strict"

    def verify(self, designs):
        for design, score in zip(designs, super().verify(designs), strict=True):
            yield Score(score.score, accepted=not str(design.value).startswith("T"), reason="begins with T")
"""


@pytest.fixture
def campaign(tmp_path):
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PLUGINS.read_text() + STRICT)
    targets = [{"assay": "binding"} | RAMP, {"verifier": "v"} | RAMP]
    verifiers = [{"name": "v", "type": f"{plugin}:Strict"}, {"name": "n", "type": "length"}]
    made = spec(verifiers=verifiers, objective={"targets": targets}, budget={"experiments": 8})
    with CampaignRun.create(made, tmp_path / "run") as campaign:
        assert run(campaign) is CampaignState.EXHAUSTED
        yield campaign, plugin


def proposals(campaign):
    """(state, first letter, newest reward) of each proposal that names a design."""
    with campaign.ledger.read() as session:
        rows = session.exec(select(RewardRow, ProposalRow).join(ProposalRow).order_by(RewardRow.id))
        newest = {p.id: (p.state, p.text[:1], (r.status, r.value)) for r, p in rows if p.state != "invalid"}
    return newest


def test_what_is_refused_no_longer_or_now_and_what_is_scored_anew(campaign):
    campaign, plugin = campaign
    before = proposals(campaign)
    source = plugin.read_text().replace('name = "strict"', 'name, version = "strict", "2"')
    plugin.write_text(source.replace('startswith("T")', 'startswith("G")').replace('in "AG"', 'in "AC"'))
    with pytest.raises(ConfigError, match="version 2 today"):
        campaign.reverify("v", "3")
    found = campaign.reverify("v", "2")
    after = proposals(campaign)
    assert found.judged > 0 and found.errors == 0
    assert found.rewards == sum(before[i] != after[i] for i in before)
    for state, first, reward in after.values():
        if first == "G":
            assert reward[1] == 0.0  # the objective's floor
        elif state == "refused":
            assert first == "T" and reward == ("retracted", None)
    assert any(first == "G" and before[i][2] != reward for i, (_, first, reward) in after.items())
    assert any(first not in "GT" and before[i][2] != reward for i, (_, first, reward) in after.items())
    with campaign.ledger.read() as session:
        versions = {row.plugin_version for row in session.exec(select(VerdictRow).where(VerdictRow.verifier == "v"))}
    assert versions == {"1", "2"}
    again = campaign.reverify("v")
    assert (again.judged, again.rewards) == (0, 0)


def test_a_verifier_that_is_not_there_is_said(campaign):
    with pytest.raises(ConfigError, match="it has: v, n"):
        campaign[0].reverify("w")


def test_what_cannot_be_judged_again_keeps_its_verdict(campaign):
    campaign, plugin = campaign
    before = proposals(campaign)
    broken = "raise OSError('licence')\n        for design, score"
    plugin.write_text(plugin.read_text().replace("for design, score", broken))
    found = campaign.reverify("v")
    assert found.judged == found.errors > 0 and found.rewards == 0
    assert proposals(campaign) == before
