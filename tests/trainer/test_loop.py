"""The trainer on a real ledger with a real (tiny) policy: books balance, crashes fork, nothing is learned twice."""

import shutil

import pytest
import torch
from pydantic import ValidationError
from sqlmodel import func, select

from aliquot.domain import SequenceSpace
from aliquot.domain.spaces import BOS
from aliquot.ledger import (
    CampaignRow,
    DesignRow,
    DispositionRow,
    EventRow,
    GroupRow,
    Ledger,
    LineageRow,
    PolicyVersionRow,
    ProposalRow,
    RewardRow,
    TrajectoryRow,
    seal,
)
from aliquot.ledger import lineages as branches
from aliquot.trainer.config import LearningConfig
from aliquot.trainer.learning import advantages
from aliquot.trainer.loop import Trainer
from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine

SPACE = SequenceSpace(alphabet="dna", min_length=2, max_length=6)
GROUP = 6
MOE = {"type": "moe", "hidden_size": 32, "layers": 2, "experts": 4, "feed_forward_size": 32}


class Campaign:
    """A hand-made campaign: proposals come from the real policy, rewards from the test."""

    def __init__(self, folder, architecture=None, **learning):
        self.folder = folder
        self.ledger = Ledger(folder / "ledger.db")
        spec = {
            "seed": 0,
            "space": SPACE.model_dump(mode="json"),
            "policy": {"init": "fresh", "architecture": architecture},
            "learning": {"tolerance": 0.0, "checkpoint_every": 1000, "batch_size": 4} | learning,
        }
        with self.ledger.write() as session:
            session.add(CampaignRow(name="c", spec=spec, clock=5.0, created_at=0.0))
        self.trainer = Trainer(self.ledger, folder, 1)

    def propose(self, number, values, predicted=0.4, probability=0.5, state="selected", status="partial", keys=False):
        engine = TorchRolloutEngine(self.trainer.policy, version=self.version())
        trajectories = engine.generate(RolloutRequest([BOS], len(values), 7, seed=number))
        with self.ledger.write() as session:
            group = GroupRow(campaign_id=1, number=number, source="p", created_at=0.0)
            session.add(group)
            session.flush()
            ids = []
            for position, trajectory in enumerate(trajectories):
                row = TrajectoryRow(
                    campaign_id=1, digest=trajectory.digest, policy_version=trajectory.version,
                    tokens=len(trajectory.tokens), sealed=seal(trajectory),
                )  # fmt: skip
                session.add(row)
                session.flush()
                key = self.design(session, trajectory) if keys else None
                proposal = ProposalRow(
                    design_key=key, campaign_id=1, group_id=group.id, position=position, trajectory_id=row.id,
                    text="x", state=state, selection_probability=probability, predicted_mean=predicted,
                    created_at=0.0,
                )  # fmt: skip
                session.add(proposal)
                session.flush()
                ids.append(proposal.id)
        for proposal_id, value in zip(ids, values, strict=True):
            self.reward(proposal_id, value, status)
        return ids

    def design(self, session, trajectory):
        design = SPACE.codec().decode(trajectory.tokens.tolist())
        session.merge(DesignRow(key=design.key, kind=design.kind, value=design.value))
        session.flush()
        return design.key

    def reward(self, proposal_id, value, status="partial"):
        with self.ledger.write() as session:
            last = session.exec(select(func.max(RewardRow.revision)).where(RewardRow.proposal_id == proposal_id)).one()
            session.add(
                RewardRow(
                    campaign_id=1,
                    proposal_id=proposal_id,
                    objective_version=1,
                    status=status,
                    value=value,
                    revision=0 if last is None else last + 1,
                    completeness=1.0,
                    created_at=0.0,
                )  # fmt: skip
            )

    def version(self):
        with self.ledger.read() as session:
            return branches.newest_version(session, 1).id

    def sums(self):
        with self.ledger.read() as session:
            chain = branches.branch(session, branches.newest(session, 1))
            return {p: (a, m) for p, a, m, _ in branches.consumed(session, chain)}

    def weights(self):
        return {k: v.clone() for k, v in self.trainer.policy.model.state_dict().items()}


@pytest.fixture
def campaign(tmp_path):
    torch.set_num_threads(1)
    campaign = Campaign(tmp_path)
    yield campaign
    campaign.ledger.close()


def final(campaign, values, predicted=0.4, probability=0.5):
    """The advantages that the newest rewards ask for, worked out here from the frozen scale and baseline."""
    import numpy as np

    with campaign.ledger.read() as session:
        frozen = branches.frozen(session, branches.branch(session, branches.newest(session, 1)))
    scale, baseline = frozen[1]
    corrected = [np.nan if v is None else predicted + min(1 / probability, 5.0) * (v - predicted) for v in values]
    return advantages(np.array(corrected), baseline, scale, 4.0)


def test_applied_and_masked_add_up_to_the_final_advantage_after_any_revisions(campaign):
    values = [0.1, 0.5, 0.9, None, 0.3, 0.0]
    ids = campaign.propose(1, values)
    campaign.trainer.run_pending()
    for which, value in ((3, 0.7), (0, 0.4), (2, None), (3, 0.6), (2, 0.8)):
        values[which] = value
        campaign.reward(ids[which], value)
        campaign.trainer.run_pending()
        sums = campaign.sums()
        expected = final(campaign, values)
        for proposal, advantage in zip(ids, expected, strict=True):
            applied, masked = sums.get(proposal, (0.0, 0.0))
            assert applied + masked == pytest.approx(advantage, abs=1e-9)


MODES = [
    {"loss": {"type": "reinforce"}, "revisions": "replace"},
    {"loss": {"type": "aipo", "aggregation": "constant"}, "correction": {"type": "none"}},
    {"correction": {"type": "icepop"}, "masks": [{"type": "m2po", "tau": 1e-9}]},
    {"masks": [{"type": "geometric"}, {"type": "off_policy", "gap": 1e-6}], "tiers": {"fresh": 1e-9, "moderate": 2e-9}},
    {"loss": {"type": "ppo"}, "revisions": "wait", "baseline": {"scale": "group_std"}},
    {"loss": {"type": "gspo", "ratio": "behaviour"}, "correction": {"type": "none"}, "revisions": "wait"},
    {"loss": {"type": "dapo"}, "revisions": "wait", "reuse": [{"type": "clipped", "samples": 3}]},
]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: "-".join(mode))
def test_books_balance_whatever_the_loss_the_masks_and_the_mode_of_revision(tmp_path, mode):
    campaign = Campaign(tmp_path, learning_rate=0.02, **mode)
    values = [0.1, 0.5, 0.9, 0.4, 0.3, 0.0]
    ids = campaign.propose(1, values, status="final")
    campaign.trainer.run_pending()
    for which, value in ((3, 0.7), (0, 0.4), (2, None), (3, 0.6), (2, 0.8), (2, 0.8)):
        values[which] = value
        campaign.reward(ids[which], value, status="final")
        campaign.trainer.run_pending()
        for proposal, advantage in zip(ids, final(campaign, values), strict=True):
            applied, masked = campaign.sums().get(proposal, (0.0, 0.0))
            assert applied + masked == pytest.approx(advantage, abs=1e-9)
    for proposal in ids:
        campaign.reward(proposal, None, status="retracted")
    campaign.trainer.run_pending()
    assert all(sums == pytest.approx((0.0, 0.0), abs=1e-9) for sums in campaign.sums().values())
    with campaign.ledger.read() as session:
        chain = branches.branch(session, branches.newest(session, 1))
        assert all(total == pytest.approx(0.0) for total, _ in branches.reused(session, chain).values())
    campaign.ledger.close()


def test_what_was_reused_is_counted_within_its_budget_and_taken_back_with_a_retraction(tmp_path):
    campaign = Campaign(tmp_path, reuse=[{"type": "imitation", "top": 0.5, "budget": 2}])
    ids = campaign.propose(1, [0.1, 0.9, 0.2, 0.8, 0.1, 0.2], status="final", keys=True)
    campaign.trainer.run_pending()
    for number in range(2, 6):
        campaign.propose(number, [0.1, 0.2, 0.3], status="final")
        campaign.trainer.run_pending()

    def reused():
        with campaign.ledger.read() as session:
            return branches.reused(session, branches.branch(session, branches.newest(session, 1)))

    assert reused()[ids[1]][0] > 0 and reused()[ids[1]][1] == 2
    campaign.reward(ids[1], None, status="retracted")
    campaign.trainer.run_pending()
    assert reused()[ids[1]] == (pytest.approx(0.0), 2)
    campaign.ledger.close()


@pytest.mark.parametrize("wrong", [
    {"loss": {"type": "ppo"}},
    {"loss": {"type": "aipo"}, "correction": {"type": "tis"}, "revisions": "wait"},
    {"baseline": {"scale": "group_std"}},
    {"anchor": {"type": "augmented_likelihood"}},
])  # fmt: skip
def test_a_config_that_could_not_take_back_what_it_learned_is_refused(wrong):
    with pytest.raises(ValidationError, match="use|set"):
        LearningConfig.model_validate(wrong)


def test_a_retracted_success_is_taken_back_whole(campaign):
    ids = campaign.propose(1, [0.1, 0.9, 0.2, 0.3, 0.1, 0.2])
    campaign.trainer.run_pending()
    assert campaign.sums()[ids[1]][0] > 0.5
    campaign.reward(ids[1], None)
    campaign.trainer.run_pending()
    assert campaign.sums()[ids[1]] == pytest.approx((0.0, 0.0), abs=1e-12)


def test_learning_raises_what_was_rewarded(campaign):
    favourite = SPACE.codec().encode(SPACE.design("AA"))[0]
    first = []
    for number in range(1, 17):
        engine = TorchRolloutEngine(campaign.trainer.policy)
        drawn = engine.generate(RolloutRequest([BOS], GROUP, 7, seed=number))
        share = [float((t.tokens == favourite).mean()) for t in drawn]
        first.append(sum(share) / len(share))
        campaign.propose(number, share, predicted=None, probability=None)
        campaign.trainer.run_pending()
    assert sum(first[-6:]) / 6 > sum(first[:6]) / 6 + 0.2


def test_a_kill_forks_at_the_last_checkpoint_and_learns_the_rest_again(campaign):
    ids = campaign.propose(1, [0.1, 0.9, 0.2, 0.3, 0.1, 0.2])
    campaign.trainer.step()
    campaign.trainer.save()
    kept = campaign.sums()
    campaign.trainer.run_pending()
    campaign.propose(2, [0.5, 0.1, 0.9, 0.3, 0.1, 0.2])
    campaign.trainer.run_pending()
    before = campaign.sums()
    assert len(before) > len(kept)

    campaign.trainer.close()  # the old one was killed
    campaign.trainer = Trainer(campaign.ledger, campaign.folder, 1)
    with campaign.ledger.read() as session:
        assert session.exec(select(func.count()).select_from(LineageRow)).one() == 2
        assert [e.kind for e in session.exec(select(EventRow))].count("lineage_forked") == 1
    assert campaign.sums() == kept
    campaign.trainer.run_pending()
    after = campaign.sums()
    assert after.keys() == before.keys()
    assert {p: sum(v) for p, v in after.items()} == pytest.approx({p: sum(v) for p, v in before.items()})
    assert ids[0] in after


@pytest.mark.parametrize("architecture", [None, MOE])
def test_a_saved_trainer_goes_on_bit_for_bit(tmp_path, architecture):
    torch.set_num_threads(1)
    whole = Campaign(tmp_path / "whole", architecture)
    whole.propose(1, [0.1, 0.9, 0.2, 0.3, 0.1, 0.2])
    whole.trainer.run_pending()
    whole.trainer.save()
    shutil.copytree(tmp_path / "whole", tmp_path / "broken")
    broken = Campaign.__new__(Campaign)
    broken.folder, broken.ledger = tmp_path / "broken", Ledger(tmp_path / "broken" / "ledger.db")
    broken.trainer = Trainer(broken.ledger, broken.folder, 1)
    for number in (2, 3, 4):
        for one in (whole, broken):
            one.propose(number, [0.5, 0.1, 0.9, 0.3, 0.6, 0.2])
            one.trainer.run_pending()
    assert all(torch.equal(a, b) for a, b in zip(whole.weights().values(), broken.weights().values(), strict=True))
    assert whole.sums() == broken.sums()
    assert whole.version() == broken.version()


def test_a_damaged_trajectory_is_quarantined_and_training_goes_on(campaign):
    ids = campaign.propose(1, [0.1, 0.9, 0.2, 0.3, 0.1, 0.2])
    with campaign.ledger.write() as session:
        session.get(TrajectoryRow, 2).sealed = b"\x00rotten"
    campaign.trainer.run_pending()
    with campaign.ledger.read() as session:
        row = session.exec(select(DispositionRow).where(DispositionRow.proposal_id == ids[1])).one()
        assert row.applied == 0.0 and row.masked != 0.0 and row.reason.startswith("quarantined")
        kinds = [e.kind for e in session.exec(select(EventRow))]
    assert "trajectory_unusable" in kinds and "trained" in kinds
    campaign.trainer.finish()
    assert sorted(campaign.sums()) == ids


def test_every_step_publishes_a_version_and_finishing_accounts_for_the_rest(tmp_path):
    campaign = Campaign(tmp_path, tolerance=0.8)
    campaign.propose(1, [0.1, 0.9, 0.2, 0.3, 0.1, 0.2])
    campaign.trainer.run_pending()
    with campaign.ledger.read() as session:
        versions = session.exec(select(PolicyVersionRow.step).order_by(PolicyVersionRow.id)).all()
    assert versions == list(range(len(versions)))
    campaign.trainer.finish()
    with campaign.ledger.read() as session:
        rows = session.exec(select(DispositionRow).where(DispositionRow.reason == "below tolerance at the end")).all()
    assert rows and all(row.applied == 0.0 for row in rows)
    sums = campaign.sums()
    expected = final(campaign, [0.1, 0.9, 0.2, 0.3, 0.1, 0.2])
    assert [sum(sums[p]) for p in sorted(sums)] == pytest.approx(list(expected), abs=1e-9)
