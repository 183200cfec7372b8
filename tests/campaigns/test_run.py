"""Whole campaigns on a tiny policy: same seed same run, stopped anywhere and gone on with, nothing lost or twice."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import yaml
from sqlmodel import func, select

from aliquot.campaigns.load import load
from aliquot.campaigns.run import CampaignRun
from aliquot.domain import CampaignState, ConfigError
from aliquot.ledger import (
    AttemptRow,
    BudgetRow,
    DispositionRow,
    EventRow,
    ExperimentRow,
    InboxRow,
    MeasurementRow,
    PolicyVersionRow,
    ProposalRow,
    RewardRow,
    VerdictRow,
)
from aliquot.ledger import lineages as branches
from tests.campaigns.tiny import SPEC, spec

FACTS = (ExperimentRow, ProposalRow, MeasurementRow, RewardRow, DispositionRow, VerdictRow, AttemptRow)


def run(campaign, ticks=None):
    """Run to the end, or stop after some ticks."""
    stop, count = threading.Event(), [0]

    def watch(_):
        count[0] += 1
        if ticks is not None and count[0] >= ticks:
            stop.set()

    return campaign.run(watch, stop)


def facts(campaign):
    """Every row of the tables that matter, as it stands; weights by their bytes."""
    with campaign.ledger.read() as session:
        rows = [
            [row.model_dump() for row in session.exec(select(table).order_by(table.id))]  # type: ignore[attr-defined]
            for table in FACTS
        ]
        newest = branches.newest_version(session, campaign.campaign_id)
        seconds = [row.pop("seconds") for row in rows[FACTS.index(VerdictRow)]]
        assert all(s >= 0 for s in seconds)
    return rows, (campaign.folder / "weights" / newest.weights).read_bytes()


def check(campaign):
    """Invariants that hold after every run, however it went."""
    with campaign.ledger.read() as session:
        count = lambda query: session.exec(query).one()  # noqa: E731
        line = session.get(BudgetRow, (campaign.campaign_id, "experiments"))
        assert line.reserved == 0 and line.spent <= line.limit
        experiments = session.exec(select(ExperimentRow)).all()
        assert sorted(e.number for e in experiments) == list(range(1, len(experiments) + 1))
        assert len({e.design_key for e in experiments}) == len(experiments)
        sequence = session.exec(select(EventRow.sequence).order_by(EventRow.sequence)).all()
        assert sequence == list(range(1, len(sequence) + 1))
        with_reward = count(select(func.count(func.distinct(RewardRow.proposal_id))))
        assert with_reward == count(select(func.count()).select_from(ProposalRow))
        assert count(select(func.count()).select_from(InboxRow).where(InboxRow.state == "quarantined")) == 0
        chain = branches.branch(session, branches.newest(session, campaign.campaign_id))
        disposed = {p for p, *_ in branches.consumed(session, chain)}
        assert disposed == set(session.exec(select(ProposalRow.id)))
        return experiments


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def test_the_same_seed_gives_the_same_run_and_another_another(tmp_path):
    found = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        with CampaignRun.create(spec(seed=seed), tmp_path / name) as campaign:
            assert run(campaign) is CampaignState.EXHAUSTED
            check(campaign)
            found.append(facts(campaign))
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_a_stopped_run_goes_on_from_exactly_there(tmp_path):
    with CampaignRun.create(spec(), tmp_path / "whole") as campaign:
        run(campaign)
        whole = facts(campaign)
    with CampaignRun.create(spec(), tmp_path / "parts") as campaign:
        assert run(campaign, ticks=3) is CampaignState.PAUSED
    for ticks in (1, 4, None):
        with CampaignRun.open(tmp_path / "parts") as campaign:
            state = run(campaign, ticks)
    assert state is CampaignState.EXHAUSTED
    with CampaignRun.open(tmp_path / "parts") as campaign:
        check(campaign)
        assert facts(campaign) == whole
        assert run(campaign) is CampaignState.EXHAUSTED  # an ended run is left as it is


def test_every_experiment_is_settled_and_rewards_say_how_complete_they_are(tmp_path):
    with CampaignRun.create(spec(), tmp_path / "run") as campaign:
        run(campaign)
        experiments = check(campaign)
        assert {e.state for e in experiments} <= {"completed", "failed", "expired"}
        assert len(experiments) == 20
        with campaign.ledger.read() as session:
            newest = select(RewardRow.proposal_id, func.max(RewardRow.id)).group_by(RewardRow.proposal_id)
            ids = [row for _, row in session.exec(newest)]
            rewards = session.exec(
                select(RewardRow, ProposalRow, ExperimentRow)
                .join(ProposalRow, ProposalRow.id == RewardRow.proposal_id)
                .join(ExperimentRow, ExperimentRow.id == ProposalRow.experiment_id)
                .where(RewardRow.id.in_(ids))
            ).all()
        for reward, _, experiment in rewards:
            if experiment.state == "completed":
                assert reward.status in ("final", "revised") and reward.completeness == 1.0
            if experiment.state == "expired":
                assert reward.status in ("pending", "partial") and reward.completeness < 1.0
            if experiment.outcome == "lab_failure":
                assert reward.value == 0.0  # reported by the lab: the declared failure value, not a missing one


def test_kill_at_any_time_and_nothing_is_lost_or_learned_twice(tmp_path):
    """The whole process and its trainer are killed at growing delays; each time the run is gone on with."""
    folder = tmp_path / "run"
    CampaignRun.create(spec(runtime={"deterministic": False}), folder).close()
    code = (
        "import sys, threading, torch; torch.set_num_threads(1)\n"
        "from pathlib import Path\n"
        "from aliquot.campaigns.run import CampaignRun\n"
        "with CampaignRun.open(Path(sys.argv[1])) as c:\n"
        "    print('open', flush=True)\n"
        "    c.run(lambda p: print('tick', flush=True), threading.Event())\n"
    )
    for ticks in (1, 2, 3, 5):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, start_new_session=True
        )
        for _ in range(ticks):
            if process.stdout.readline() == b"":
                break
        time.sleep(0.05 * ticks)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    with CampaignRun.open(folder) as campaign:
        assert run(campaign) is CampaignState.EXHAUSTED
        experiments = check(campaign)
        assert len(experiments) == 20
        with campaign.ledger.read() as session:
            attempts = session.exec(select(AttemptRow.key)).all()
            assert len(set(attempts)) == len(attempts) == 20
            versions = session.exec(select(PolicyVersionRow.id)).all()
            assert versions == sorted(set(versions))


def test_a_verifier_that_raises_leaves_the_reward_missing_never_zero(tmp_path):
    plugin = f"{Path(__file__).parent / 'plugins' / 'hostile.py'}:Moody"
    with CampaignRun.create(spec(verifiers=[{"name": "moody", "type": plugin}]), tmp_path / "run") as campaign:
        assert run(campaign) is CampaignState.EXHAUSTED
        check(campaign)
        with campaign.ledger.read() as session:
            rows = session.exec(select(ProposalRow).where(ProposalRow.state == "undecided")).all()
            assert rows and all(row.text.startswith("A") and "not this one" in row.reason for row in rows)
            values = session.exec(select(RewardRow.value).where(RewardRow.proposal_id.in_([r.id for r in rows]))).all()
            assert set(values) == {None}
            verdict = session.exec(select(VerdictRow).where(VerdictRow.error.is_not(None))).first()
            assert verdict.score is None and verdict.error["outcome"] == "infrastructure_error"
            others = session.exec(select(func.count()).where(ProposalRow.state == "selected")).one()
            assert others > 0


def test_an_outage_blocks_a_campaign_which_goes_on_when_it_is_over(tmp_path, monkeypatch):
    plugin, mended = f"{Path(__file__).parent / 'plugins' / 'hostile.py'}:Broken", tmp_path / "mended"
    monkeypatch.setenv("ALIQUOT_TRUSTED_PLUGINS", plugin)  # in a sandbox it would not see the file
    verifier = {"name": "broken", "type": plugin, "config": {"mended": str(mended)}}
    wanted = spec(verifiers=[verifier], stopping={"patience": 3}, budget={"experiments": 4})
    with CampaignRun.create(wanted, tmp_path / "run") as campaign:
        assert run(campaign) is CampaignState.BLOCKED
        assert "its model is not there" in campaign.progress().reason
    mended.touch()
    with CampaignRun.open(tmp_path / "run") as campaign:
        assert run(campaign) is CampaignState.EXHAUSTED
        check(campaign)


def test_what_a_lab_never_takes_expires_and_does_not_hold_the_campaign_for_ever(tmp_path):
    plugin = f"{Path(__file__).parent / 'plugins' / 'hostile.py'}:Dead"
    runtime = {"poll_seconds": 0.01, "timeout_hours": 1e-4}
    wanted = spec(lab=SPEC["lab"] | {"type": plugin}, runtime=runtime, budget={"experiments": 4})
    with CampaignRun.create(wanted, tmp_path / "run") as campaign:
        assert run(campaign) is CampaignState.EXHAUSTED
        check(campaign)
        with campaign.ledger.read() as session:
            rows = session.exec(select(ExperimentRow)).all()
        assert len(rows) == 4 and all(row.state == "expired" and row.outcome == "timed_out" for row in rows)
        assert all(row.expires_at <= row.ended_at for row in rows)  # what it says now is late


def test_a_lab_that_cannot_be_reached_gives_typed_outcomes_and_money_back(tmp_path):
    plugin = f"{Path(__file__).parent / 'plugins' / 'hostile.py'}:Unreachable"
    runtime = {"poll_seconds": 0.01}  # a lab of one's own lives on the wall clock
    with CampaignRun.create(spec(lab=SPEC["lab"] | {"type": plugin}, runtime=runtime), tmp_path / "run") as campaign:
        run(campaign, ticks=4)
        with campaign.ledger.read() as session:
            refused = session.exec(select(ExperimentRow).where(ExperimentRow.state == "failed")).all()
            assert refused and all(e.outcome in ("infrastructure_error", "lab_failure") for e in refused)
            kinds = session.exec(select(EventRow.kind)).all()
            assert "lab_error" in kinds
            tried = session.exec(select(AttemptRow).where(AttemptRow.outcome == "infrastructure_error")).all()
            assert {a.note for a in tried} == {"connection refused", "no such reagent"}


def test_a_folder_holds_one_run_and_one_process(tmp_path):
    CampaignRun.create(spec(), tmp_path / "run").close()
    with pytest.raises(ConfigError, match="resume"):
        CampaignRun.create(spec(), tmp_path / "run")
    with CampaignRun.open(tmp_path / "run"), pytest.raises(ConfigError, match="another process"):
        CampaignRun.open(tmp_path / "run")
    with pytest.raises(ConfigError, match="no run is here"):
        CampaignRun.open(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_money_is_never_overspent_and_a_design_beyond_it_is_missing_not_bad(tmp_path):
    lab = SPEC["lab"] | {"assays": [SPEC["lab"]["assays"][0] | {"cost": 10.0}]}
    dear = spec(budget={"experiments": 20, "money": 57.0}, lab=lab, stopping={"patience": 2})
    with CampaignRun.create(dear, tmp_path / "run") as campaign:
        assert run(campaign) is CampaignState.EXHAUSTED
        assert len(check(campaign)) == 5
        with campaign.ledger.read() as session:
            line = session.get(BudgetRow, (campaign.campaign_id, "money"))
            assert (line.reserved, line.spent) == (0.0, 50.0)
            refused = session.exec(select(ProposalRow).where(ProposalRow.outcome == "refused_by_budget")).all()
            assert refused and all("7 left" in row.reason for row in refused)
            begun = select(RewardRow).where(RewardRow.proposal_id == refused[0].id, RewardRow.revision == 0)
            assert session.exec(begun).one().value is None


def test_a_lost_acknowledgement_is_one_execution(tmp_path):
    plugin = f"{Path(__file__).parent / 'plugins' / 'hostile.py'}:Forgetful"
    runtime = {"poll_seconds": 0.01}
    with CampaignRun.create(spec(lab=SPEC["lab"] | {"type": plugin}, runtime=runtime), tmp_path / "run") as campaign:
        run(campaign, ticks=4)
        with campaign.ledger.read() as session:
            attempts = session.exec(select(AttemptRow)).all()
            experiments = session.exec(select(ExperimentRow)).all()
            assert len(attempts) == len(experiments) > 0
            assert any("the line went dead" in a.note for a in attempts)
            assert (
                sum(e.state == "running" for e in experiments) >= len(experiments) - 4
            )  # the last round's may be open


def test_known_designs_are_proposed_first(tmp_path):
    space = SPEC["space"] | {"seeds": ["GATCAC", "CCCC"]}
    with CampaignRun.create(spec(space=space), tmp_path / "run") as campaign:
        run(campaign)
        check(campaign)
        with campaign.ledger.read() as session:
            rows = session.exec(select(ProposalRow).where(ProposalRow.off_policy)).all()
        assert [row.text for row in rows] == ["GATCAC", "CCCC"]
        assert all(row.state == "selected" and row.trajectory_id is None for row in rows)


def test_a_space_smaller_than_the_budget_ends_the_campaign(tmp_path):
    space = {"type": "sequence", "alphabet": "dna", "min_length": 1, "max_length": 1}
    with CampaignRun.create(spec(space=space, stopping={"patience": 3}), tmp_path / "run") as campaign:
        assert run(campaign) is CampaignState.EXHAUSTED
        assert len(check(campaign)) <= 4
        assert campaign.progress().reason == "no new design for the lab in 3 rounds"


def test_a_run_that_breaks_says_why_and_can_be_resumed(tmp_path, monkeypatch):
    from aliquot.campaigns import engine

    def broken(context):
        raise OSError("disk full")

    with CampaignRun.create(spec(), tmp_path / "run") as campaign:
        with monkeypatch.context() as patch:
            patch.setattr(engine, "propose", broken)
            with pytest.raises(OSError, match="disk full"):
                run(campaign)
        assert campaign.state is CampaignState.FAILED and campaign.progress().reason == "OSError: disk full"
        assert run(campaign) is CampaignState.EXHAUSTED
        check(campaign)


RAMP = {"desirability": {"type": "ramp", "low": 0, "high": 1}}
BAD = [
    ({"objective": {"targets": [{"assay": "bindng"} | RAMP]}}, "objective.targets[0].assay", "binding"),
    ({"objective": {"targets": [{"assay": "binding"} | RAMP, {"verifier": "qed"} | RAMP]}}, "", "verifiers are: none"),
    ({"objective": {"targets": [{"verifier": "qed"} | RAMP]}}, "", "no `assay`"),
    ({"lab": {"type": "simulatd"}}, "lab.type", "simulated"),
    ({"verifiers": [{"type": "qeed"}]}, "verifiers[0].type", "qed"),
    ({"policy": {"init": "zinc-mo"}}, "policy.init", "fresh"),
    ({"selecting": {"per_round": 50}}, "", "group_size"),
    ({"budget": {"experiments": -1}}, "budget.experiments", "greater"),
    ({"learning": {"learning_rat": 1}}, "learning.learning_rat", "'learning_rate'"),
]


@pytest.mark.parametrize(("change", "path", "remedy"), BAD)
def test_bad_input_is_said_with_its_path_and_remedy(change, path, remedy):
    with pytest.raises(ConfigError) as caught:
        spec(**change)
    [(where, _, said)] = caught.value.problems
    assert where == path and remedy in said


def test_relative_plugin_paths_start_from_the_campaign_file(tmp_path):
    (tmp_path / "plugin.py").write_text((Path(__file__).parent / "plugins" / "hostile.py").read_text())
    data = SPEC | {"verifiers": [{"name": "moody", "type": "./plugin.py:Moody"}]}
    (tmp_path / "campaign.yaml").write_text(yaml.safe_dump(data))
    loaded = load(tmp_path / "campaign.yaml", ["budget.experiments=7"])
    assert loaded.verifiers[0].type == f"{tmp_path / 'plugin.py'}:Moody"
    assert loaded.budget.experiments == 7
