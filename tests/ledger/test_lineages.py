"""A branch consumed exactly its own dispositions and its ancestors' up to each fork."""

import pytest

from aliquot.ledger import (
    CampaignRow,
    CheckpointRow,
    DispositionRow,
    GroupRow,
    GroupUseRow,
    Ledger,
    LineageRow,
    ProposalRow,
    RewardRow,
)
from aliquot.ledger import lineages as branches


@pytest.fixture
def session(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    with ledger.write() as session:
        session.add(CampaignRow(name="c", spec={}, clock=0.0, created_at=0.0))
        session.flush()
        session.add(GroupRow(campaign_id=1, number=1, source="p", created_at=0.0))
        session.flush()
        session.add(ProposalRow(campaign_id=1, group_id=1, position=0, text="C", created_at=0.0))
        session.flush()
        session.add(
            RewardRow(
                campaign_id=1,
                proposal_id=1,
                objective_version=1,
                revision=0,
                status="final",
                completeness=1,
                created_at=0,
            )
        )
        session.flush()
        yield session
    ledger.close()


def learn(session, lineage, step, applied):
    session.add(
        DispositionRow(proposal_id=1, reward_id=1, lineage_id=lineage.id, step=step, applied=applied, created_at=0)
    )
    session.flush()


def test_consumption_follows_the_branch_through_two_forks(session):
    root = branches.start(session, 1, 0.0)
    for step, amount in ((1, 1.0), (2, 10.0), (3, 100.0)):
        learn(session, root, step, amount)
    child = branches.fork(session, root, 2, "crash", 0.0)
    learn(session, child, 3, 1000.0)
    learn(session, child, 4, 10000.0)
    grandchild = branches.fork(session, child, 1, "rolled back below the first fork", 0.0)

    def applied(lineage):
        rows = branches.consumed(session, branches.branch(session, lineage))
        return rows[0][1] if rows else 0.0

    assert applied(root) == 111.0
    assert applied(child) == 11011.0
    assert applied(grandchild) == 1.0
    assert branches.newest(session, 1).id == grandchild.id


def test_checkpoints_and_freezes_of_abandoned_steps_do_not_count(session):
    root = branches.start(session, 1, 0.0)
    for step in (2, 4):
        session.add(CheckpointRow(lineage_id=root.id, step=step, path=f"{step}", digest="d", created_at=0))
    session.add(GroupUseRow(group_id=1, lineage_id=root.id, step=3, scale=2.0, baseline=0.5))
    session.flush()
    assert branches.frozen(session, branches.branch(session, root)) == {1: (2.0, 0.5)}
    child: LineageRow = branches.fork(session, root, 2, "crash", 0.0)
    chain = branches.branch(session, child)
    assert [row.step for row in branches.checkpoints(session, chain)] == [2]
    assert branches.frozen(session, chain) == {}
