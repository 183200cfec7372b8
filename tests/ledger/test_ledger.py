"""The ledger: allowed moves only, one winner, gapless events, whole artifacts, a schema that migrations make."""

import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine
from sqlmodel import select

from aliquot.domain import StopReason, Trajectory, VersionSpan
from aliquot.ledger import (
    MOVES,
    ArtifactStore,
    BudgetRow,
    CampaignRow,
    DamagedArtifact,
    DesignRow,
    EventRow,
    ExperimentRow,
    Ledger,
    StaleTransition,
    move,
    record,
    seal,
    unseal,
)
from aliquot.ledger.budget import BudgetExhausted, refund, reserve, settle
from aliquot.ledger.tables import METADATA


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    with ledger.write() as session:
        session.add(CampaignRow(name="c", spec={}, clock=0.0, created_at=0.0))
        session.add(DesignRow(key="k", kind="molecule", value="C"))
        session.flush()
        session.add(BudgetRow(campaign_id=1, unit="experiments", limit=3.0))
        for number in (1, 2, 3, 4):
            session.add(
                ExperimentRow(campaign_id=1, number=number, design_key="k", lab="l", assays=["a"], selected_at=0.0)
            )
    yield ledger
    ledger.close()


def test_migrations_make_exactly_the_declared_schema(ledger):
    engine = create_engine(f"sqlite:///{ledger.path}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_every_state_of_a_table_of_moves_is_reachable_and_known():
    for moves in MOVES.values():
        assert set().union(*moves.values()) <= set(moves)
        first = next(iter(moves))
        assert set(moves) - set().union(*moves.values()) - {first} == set() or first in moves


def test_a_move_outside_the_table_is_refused_and_writes_nothing(ledger):
    with pytest.raises(StaleTransition, match="cannot go from selected to completed"), ledger.write() as session:
        move(session, session.get(ExperimentRow, 1), "completed", 1.0)
    with ledger.read() as session:
        assert session.get(ExperimentRow, 1).state == "selected"
        assert session.exec(select(EventRow)).all() == []


def test_of_two_movers_one_wins(ledger):
    with ledger.read() as session:
        mine = session.get(ExperimentRow, 1)
    with ledger.read() as session:
        yours = session.get(ExperimentRow, 1)
    with ledger.write() as session:
        move(session, mine, "ready", 1.0)
    with pytest.raises(StaleTransition, match="no longer"), ledger.write() as session:
        move(session, yours, "cancelled", 2.0)


def test_a_transaction_that_fails_leaves_nothing(ledger):
    with pytest.raises(RuntimeError), ledger.write() as session:
        record(session, 1, 0.0, "something")
        move(session, session.get(ExperimentRow, 1), "ready", 1.0)
        raise RuntimeError
    with ledger.read() as session:
        assert session.get(ExperimentRow, 1).state == "selected"
        assert session.exec(select(EventRow)).all() == []


def test_events_are_gapless_under_concurrent_writers(ledger):
    def write(name):
        for i in range(15):
            with ledger.write() as session:
                record(session, 1, 0.0, name, i=i)

    threads = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    with ledger.read() as session:
        assert session.exec(select(EventRow.sequence).order_by(EventRow.sequence)).all() == list(range(1, 61))


def test_a_budget_is_never_overspent_and_closes_once(ledger):
    def budget():
        with ledger.read() as session:
            line = session.get(BudgetRow, (1, "experiments"))
            return line.reserved, line.spent

    for experiment in (1, 2, 3):
        with ledger.write() as session:
            reserve(session, 1, experiment, {"experiments": 1.0}, 0.0)
    with pytest.raises(BudgetExhausted, match="0 left"), ledger.write() as session:
        reserve(session, 1, 4, {"experiments": 1.0}, 0.0)
    for _ in range(3):
        with ledger.write() as session:
            settle(session, 1, 1, 1.0)
            refund(session, 1, 2, 1.0)
    assert budget() == (1.0, 1.0)
    with ledger.write() as session:
        refund(session, 1, 1, 2.0)
    assert budget() == (1.0, 1.0)


def trajectory(experts=True, recorded=None):
    return Trajectory(
        prompt=np.array([1], np.int32),
        tokens=np.array([3, 4, 2], np.int32),
        logprobs=np.array([-0.5, -1.25, -0.125], np.float32),
        versions=(VersionSpan(version=1, start=0, end=3),),
        experts=np.array([[[0, 1]], [[1, 2]], [[2, 0]]], np.uint8) if experts else None,
        recorded=recorded,
        engine="test",
        dtype="float32",
        stop=StopReason.EOS,
    )


@pytest.mark.parametrize("experts", [True, False])
def test_a_sealed_trajectory_comes_back_to_the_bit(experts):
    one = trajectory(experts)
    again = unseal(seal(one), one.digest)
    assert again.digest == one.digest and again.logprobs.dtype == np.float32
    assert np.array_equal(again.tokens, one.tokens)


def test_which_rows_of_experts_were_recorded_is_sealed_too():
    whole, gap = trajectory(), trajectory(recorded=np.array([True, False, True]))
    assert gap.digest != whole.digest
    assert unseal(seal(gap), gap.digest).recorded.tolist() == [True, False, True]
    assert unseal(seal(whole), whole.digest).recorded is None


def test_a_trajectory_sealed_before_a_field_was_there_is_read():
    one = trajectory()
    record = msgspec.msgpack.decode(seal(one))
    del record["recorded"]
    assert unseal(msgspec.msgpack.encode(record), one.digest).recorded is None


@pytest.mark.parametrize(("experts", "recorded"), [(False, [True]), (True, [True, False])])
def test_a_mask_of_experts_that_are_not_there_is_refused(experts, recorded):
    with pytest.raises(ValueError, match="rows of experts"):
        trajectory(experts, np.array(recorded))


def test_a_changed_trajectory_is_refused():
    one = trajectory()
    data = bytearray(seal(one))
    data[data.index(one.logprobs.tobytes())] ^= 1
    with pytest.raises(DamagedArtifact):
        unseal(bytes(data), one.digest)
    with pytest.raises(DamagedArtifact):
        unseal(b"\x00garbage", one.digest)


def test_an_artifact_is_named_by_its_content_and_checked(tmp_path: Path):
    store = ArtifactStore(tmp_path / "a")
    digest = store.put(b"hello")
    assert store.put(b"hello") == digest and store.get(digest) == b"hello"
    next((tmp_path / "a").rglob(digest)).write_bytes(b"hellO")
    with pytest.raises(DamagedArtifact, match="hash"):
        store.get(digest)
