"""The slow one of this room: a trainer is killed twenty times at a random moment, and its books still balance.

Each life is a process of its own that runs `aliquot.trainer.worker` and dies by SIGKILL: while it opens, in the midst
of a step, between the file of weights and the transaction, while it saves. Lives are forked from a process that has
imported all there is to import, since they are many; the last one is started as a campaign starts it, and finishes.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sqlmodel import func
from sqlmodel import select as query

from aliquot.domain import SequenceSpace
from aliquot.domain.spaces import BOS
from aliquot.ledger import (
    CampaignRow,
    CheckpointRow,
    DispositionRow,
    GroupRow,
    Ledger,
    LineageRow,
    ProposalRow,
    RewardRow,
    TrainerStatusRow,
    TrajectoryRow,
    seal,
)
from aliquot.ledger import lineages as branches
from aliquot.trainer.learning import advantages
from aliquot.trainer.loop import Trainer
from aliquot.trainer.policies import Dense, load_policy, read_weights
from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine

KILLS, GROUP = 20, 6
SPACE = SequenceSpace(alphabet="dna", min_length=2, max_length=6)
SHAPE = Dense(hidden_size=16, layers=1, heads=2, key_value_heads=1, feed_forward_size=16, max_positions=16)
LEARNING = {"tolerance": 1e-9, "checkpoint_every": 2, "keep_checkpoints": 2, "batch_size": 4}

NURSERY = """
import os, signal, sys
from torch.utils.tensorboard import SummaryWriter
from aliquot.trainer import worker

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
for _ in sys.stdin:
    life = os.fork()
    if life == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        silent, _ = os.pipe()
        os.dup2(silent, 0)
        os.dup2(2, 1)
        sys.stdin = open(0, closefd=False)  # never says a word, never ends
        worker.main(*sys.argv[1:])
        os._exit(1)
    print(life, flush=True)
"""


class Campaign:
    """Made by hand: sequences come from the untrained policy, rewards from the test."""

    def __init__(self, folder):
        self.folder, self.ledger = folder, Ledger(folder / "ledger.db")
        policy = {"init": "fresh", "architecture": SHAPE.model_dump()}
        space = SPACE.model_dump(mode="json")
        spec = {"seed": 0, "space": space, "policy": policy, "learning": LEARNING}
        with self.ledger.write() as session:
            session.add(CampaignRow(name="c", spec=spec, clock=5.0, created_at=0.0))
        Trainer(self.ledger, folder, 1).close()  # publishes the untrained policy
        self.engine = TorchRolloutEngine(load_policy("fresh", SPACE, SHAPE, seed=0))
        self.groups: list[dict[int, float | None]] = []
        """Newest value of each proposal, group by group."""

    @property
    def arguments(self) -> list[str]:
        return [str(self.folder), str(self.ledger.path), "1"]

    def propose(self, values) -> None:
        number = len(self.groups) + 1
        drawn = self.engine.generate(RolloutRequest([BOS], len(values), 7, seed=number))
        with self.ledger.write() as session:
            published = branches.newest_version(session, 1)
            group = GroupRow(campaign_id=1, number=number, source="p", created_at=0.0)
            session.add(group)
            session.flush()
            members: dict[int, float | None] = {}
            for position, one in enumerate(drawn):
                row = TrajectoryRow(
                    campaign_id=1, digest=one.digest, policy_version=published.id, tokens=len(one.tokens),
                    sealed=seal(one),
                )  # fmt: skip
                session.add(row)
                session.flush()
                proposal = ProposalRow(
                    campaign_id=1, group_id=group.id, position=position, trajectory_id=row.id, text="x",
                    state="selected", created_at=0.0,
                )  # fmt: skip
                session.add(proposal)
                session.flush()
                members[proposal.id] = None
        self.groups.append(members)
        for proposal_id, value in zip(list(members), values, strict=True):
            self.reward(proposal_id, value)

    def reward(self, proposal_id, value) -> None:
        next(group for group in self.groups if proposal_id in group)[proposal_id] = value
        with self.ledger.write() as session:
            last = session.exec(query(func.max(RewardRow.revision)).where(RewardRow.proposal_id == proposal_id)).one()
            session.add(
                RewardRow(
                    campaign_id=1, proposal_id=proposal_id, objective_version=1, status="partial", value=value,
                    revision=0 if last is None else last + 1, completeness=1.0, created_at=0.0,
                )
            )  # fmt: skip

    def live_on(self, chance: random.Random) -> None:
        """What a campaign would do meanwhile: a new group, results revised, one of them retracted."""
        self.propose([chance.random() for _ in range(GROUP)])
        known = [proposal for group in self.groups for proposal in group]
        for proposal_id in chance.sample(known, 2):
            self.reward(proposal_id, chance.random())
        self.reward(chance.choice(known), None)

    def learned_all(self) -> bool:
        with self.ledger.read() as session:
            status, last = session.get(TrainerStatusRow, 1), session.exec(query(func.max(RewardRow.id))).one()
        return status is not None and status.reward_seen == last and status.backlog == 0

    def count(self, table) -> int:
        with self.ledger.read() as session:
            return session.exec(query(func.count()).select_from(table)).one()


@pytest.fixture
def campaign(tmp_path):
    campaign = Campaign(tmp_path)
    yield campaign
    campaign.ledger.close()


@pytest.fixture
def life(campaign):
    """Begins a life of the trainer; gives its process id."""
    nursery = subprocess.Popen(
        [sys.executable, "-c", NURSERY, *campaign.arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert nursery.stdout.readline() == "ready\n"

    def begin() -> int:
        nursery.stdin.write("\n")
        nursery.stdin.flush()
        assert select.select([nursery.stdout], [], [], 60)[0]
        return int(nursery.stdout.readline())

    yield begin
    nursery.kill()
    nursery.communicate()


def wait(condition, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the trainer did not come so far"
        time.sleep(0.01)


def test_slow_no_reward_is_skipped_or_applied_twice_however_often_the_trainer_is_killed(campaign, life):
    chance = random.Random(0)
    campaign.live_on(chance)
    began = time.monotonic()
    process = life()
    wait(campaign.learned_all)
    whole = time.monotonic() - began
    os.kill(process, signal.SIGKILL)
    for _ in range(KILLS - 1):
        campaign.live_on(chance)
        process = life()
        time.sleep(chance.uniform(0.0, 1.2 * whole))
        os.kill(process, signal.SIGKILL)
    assert campaign.count(LineageRow) > 2  # else no life was cut short in the midst of learning

    last = subprocess.run(
        [sys.executable, "-m", "aliquot.trainer.worker", *campaign.arguments], input="finish\n", text=True,
        stdout=subprocess.PIPE, timeout=240, check=True,
    )  # fmt: skip
    assert last.stdout == "ready\n"

    with campaign.ledger.read() as session:
        chain = branches.branch(session, branches.newest(session, 1))
        consumed = {proposal: applied + masked for proposal, applied, masked, _ in branches.consumed(session, chain)}
        frozen = branches.frozen(session, chain)
        published = branches.newest_version(session, 1)
        rows = session.exec(query(CheckpointRow)).all()
    for group_id, members in enumerate(campaign.groups, start=1):
        scale, baseline = frozen[group_id]
        values = np.array([np.nan if value is None else value for value in members.values()])
        expected = advantages(values, baseline, scale, 4.0)
        for proposal_id, advantage in zip(members, expected, strict=True):
            assert consumed.get(proposal_id, 0.0) == pytest.approx(advantage, abs=1e-9)

    trainer = Trainer(campaign.ledger, campaign.folder, 1)
    weights = read_weights(campaign.folder / "weights" / published.weights)
    assert trainer.step() is None
    assert all(np.array_equal(weights[k], v) for k, v in trainer.policy.model.state_dict().items())
    trainer.close()
    assert {path.name for path in (campaign.folder / "checkpoints").iterdir()} == {row.path for row in rows}
    assert campaign.count(DispositionRow) > len(consumed)
