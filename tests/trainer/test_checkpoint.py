"""A checkpoint is there whole or not at all, in a file or, sharded, in a folder; the newest stay, and the best."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
import torch
from sqlmodel import col, select

from aliquot.ledger import CampaignRow, CheckpointRow, Ledger
from aliquot.ledger import lineages as branches
from aliquot.trainer import checkpoint as checkpoints
from aliquot.trainer.checkpoint import DamagedCheckpoint


class Branches:
    """A ledger with two lineages of one campaign."""

    def __init__(self, folder):
        self.folder = folder / "checkpoints"
        self.ledger = Ledger(folder / "ledger.db")
        with self.ledger.write() as session:
            session.add(CampaignRow(name="c", spec={}, clock=0.0, created_at=0.0))
            session.flush()
            root = branches.start(session, 1, 0.0)
            branches.fork(session, root, 0, "test", 0.0)

    def save(self, step, state=None, lineage=1, keep=100, value=None):
        state = {"step": step} if state is None else state
        checkpoints.save(self.ledger, self.folder, lineage, step, state, 0.0, keep, value)

    def rows(self, lineage=1):
        with self.ledger.read() as session:
            query = select(CheckpointRow).where(CheckpointRow.lineage_id == lineage)
            return list(session.exec(query.order_by(col(CheckpointRow.step))))

    def steps(self, lineage=1):
        return [row.step for row in self.rows(lineage)]


@pytest.fixture
def kept(tmp_path):
    kept = Branches(tmp_path)
    yield kept
    kept.ledger.close()


def state():
    return {
        "model": {"w": torch.arange(6.0).reshape(2, 3)},
        "optimiser": {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"betas": (0.9, 0.99), "lr": 1e-3}]},
        "book": {"running": (1.5, 2), "unused": {7: (0.2, None)}},
    }


def test_what_is_saved_comes_back(kept):
    kept.save(3, state())
    loaded = checkpoints.load(kept.folder, kept.rows()[0])
    assert torch.equal(loaded["model"]["w"], state()["model"]["w"])
    assert torch.equal(loaded["optimiser"]["state"][0]["step"], torch.tensor(3.0))
    assert loaded["book"] == state()["book"]
    assert loaded["optimiser"]["param_groups"] == state()["optimiser"]["param_groups"]
    assert [path.name for path in kept.folder.iterdir()] == [kept.rows()[0].path]


def test_the_newest_stay_and_the_best_of_each_branch(kept):
    values = {1: 0.1, 2: 0.7, 3: 0.7, 4: -0.2, 5: 1e-05, 6: None, 7: float("nan")}
    for step, value in values.items():
        kept.save(step, keep=2, value=value)
    kept.save(1, lineage=2, keep=2, value=0.3)
    assert kept.steps() == [3, 6, 7] and kept.steps(lineage=2) == [1]
    assert {path.name for path in kept.folder.iterdir()} == {row.path for row in kept.rows() + kept.rows(lineage=2)}
    assert checkpoints.best(kept.rows()).step == 3
    assert [checkpoints.value_of(row) for row in kept.rows()] == [0.7, None, None]
    assert all(checkpoints.load(kept.folder, row) == {"step": row.step} for row in kept.rows())


def test_no_checkpoint_is_best_where_no_value_is_known(kept):
    kept.save(1)
    assert checkpoints.best(kept.rows()) is None


@pytest.mark.parametrize("value", [-0.2, 1e-05, 12.0, 3])
def test_a_value_comes_back_from_its_name_to_the_last_bit(kept, value):
    kept.save(1, value=value)
    assert checkpoints.value_of(kept.rows()[0]) == value


def test_a_step_saved_again_replaces_what_stood_there(kept):
    kept.save(1, {"a": 1}, value=0.5)
    kept.save(1, {"a": 2}, value=0.6)
    (row,) = kept.rows()
    assert checkpoints.load(kept.folder, row) == {"a": 2} and checkpoints.value_of(row) == 0.6
    assert [path.name for path in kept.folder.iterdir()] == [row.path]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "is missing; an older one is taken"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "does not match its hash"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x"), "does not match its hash"),
    ],
)
def test_damage_is_said_with_the_files_name(kept, damage, message):
    kept.save(1)
    path = kept.folder / kept.rows()[0].path
    damage(path)
    with pytest.raises(DamagedCheckpoint, match=f"{path.name} {message}"):
        checkpoints.load(kept.folder, kept.rows()[0])


def test_a_write_that_was_cut_off_leaves_the_checkpoints_as_they_were_and_is_swept_up_by_the_next(kept, monkeypatch):
    kept.save(1)
    whole_save = torch.save

    def cut_off(state, path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", cut_off)
    with pytest.raises(KeyboardInterrupt):
        kept.save(2, keep=1)
    assert kept.steps() == [1] and checkpoints.load(kept.folder, kept.rows()[0]) == {"step": 1}
    assert len(list(kept.folder.iterdir())) == 2
    monkeypatch.setattr(torch, "save", whole_save)
    kept.save(3, keep=1)
    assert [path.name for path in kept.folder.iterdir()] == [kept.rows()[0].path]


def test_file_and_folder_are_on_the_disk_before_the_ledger_names_them(kept, monkeypatch):
    order = []
    fsync = checkpoints.os.fsync

    def noted(descriptor):
        order.append(checkpoints.os.readlink(f"/proc/self/fd/{descriptor}").rpartition("/")[2])
        fsync(descriptor)

    monkeypatch.setattr(checkpoints.os, "fsync", noted)
    monkeypatch.setattr(checkpoints, "_enter", lambda *_: order.append("ledger"))
    kept.save(1)
    assert order == ["lineage-1-step-1.pt.tmp", "checkpoints", "ledger"]


SHARDED = """
    import os, sys
    import torch, torch.distributed as dist
    from pathlib import Path
    from sqlmodel import select
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor
    from aliquot.domain import SequenceSpace
    from aliquot.ledger import CheckpointRow, Ledger
    from aliquot.trainer import checkpoint as checkpoints
    from aliquot.trainer.policies import Dense, load_policy

    torch.set_num_threads(1)
    root = Path(sys.argv[1])
    store = dist.FileStore(str(root / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
    shape = Dense(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=16, max_positions=16)
    space, tokens = SequenceSpace(alphabet="dna", min_length=1, max_length=8), torch.tensor([[1, 3, 4, 5]])

    def trainer(seed):
        model = load_policy("fresh", space, shape, seed).model
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model, torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(model, optimiser):
        model(input_ids=tokens).logits.log_softmax(-1)[..., 3].sum().backward()
        optimiser.step()
        optimiser.zero_grad()

    def state(model, optimiser):
        weights, moments = get_state_dict(model, optimiser)
        return {"model": weights, "optimiser": moments, "book": {"unused": {7: (0.2, None)}}}

    one, other = trainer(0), trainer(1)
    step(*one)
    ledger, folder = Ledger(root / "ledger.db"), root / "checkpoints"
    for number in (1, 2, 3):
        checkpoints.save(ledger, folder, 1, number, state(*one), 0.0, keep=1, value=1.0 / number)
        step(*one)
    with ledger.read() as session:
        rows = list(session.exec(select(CheckpointRow).order_by(CheckpointRow.step)))
    assert [row.step for row in rows] == [1, 3]
    assert sorted(path.name for path in folder.iterdir()) == sorted(row.path for row in rows)

    found = checkpoints.load(folder, rows[1], like=state(*other))
    assert all(isinstance(tensor, DTensor) for tensor in found["model"].values())
    assert found["book"] == {"unused": {7: (0.2, None)}}
    set_state_dict(*other, model_state_dict=found["model"], optim_state_dict=found["optimiser"])
    step(*other)
    for a, b in zip(one[0].parameters(), other[0].parameters(), strict=True):
        assert torch.equal(a.full_tensor(), b.full_tensor())
    dist.destroy_process_group()

    whole = checkpoints.load(folder, rows[1])
    assert not any(isinstance(tensor, DTensor) for tensor in whole["model"].values())
    for name, tensor in found["model"].items():
        assert torch.equal(whole["model"][name], tensor.to_local())

    part = next(path for path in sorted((folder / rows[1].path).rglob("*")) if path.suffix == ".distcp")
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    try:
        checkpoints.load(folder, rows[1])
    except checkpoints.DamagedCheckpoint as error:
        print(error)
    ledger.close()
"""


def test_a_sharded_state_is_a_folder_that_comes_back_bit_for_bit_and_shows_damage(kept):
    """In a process of its own, which the process group then dies with."""
    root = kept.folder.parent
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SHARDED), str(root)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert "lineage-1-step-3-value-0.3333333333333333 does not match its hash" in done.stdout
