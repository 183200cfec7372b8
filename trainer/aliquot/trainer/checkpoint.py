"""Checkpoints that name their branch and step, written whole or not at all.

A checkpoint holds what the ledger does not: weights, optimiser moments, and the trainer's running statistics. What was
consumed is not in it: that is the dispositions on its branch up to its step.

A state without sharded tensors is one file. One with a `DTensor` in it is a folder: its tensors in the format of
`torch.distributed.checkpoint`, each rank writing what it holds, and the rest beside them in `rest.pt`. Either stands
under its name only when all of it is on the disk, and is entered in the ledger after that, with its hash.

Kept of each branch are the newest few and the best. What a checkpoint is worth stands in its name.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from sqlmodel import select
from torch import Tensor
from torch.distributed.tensor import DTensor

from aliquot.domain import AliquotError
from aliquot.ledger import CheckpointRow, Ledger, LineageRow

REST, TENSORS = "rest.pt", "tensors"
"""Inside a folder."""


class DamagedCheckpoint(AliquotError):
    """A checkpoint is missing or does not match its hash."""


def save(
    ledger: Ledger,
    folder: Path,
    lineage_id: int,
    step: int,
    state: dict[str, Any],
    at: float,
    keep: int,
    value: float | None = None,
) -> None:
    """Write `state`, enter it in the ledger, then remove what is neither of the newest `keep` of its branch nor best.

    Args:
        ledger: where it is entered.
        folder: of the campaign's checkpoints; one trainer alone writes there.
        lineage_id, step: what it is a checkpoint of; one that is there already is replaced.
        state: dicts, lists and tuples of tensors and plain values. With a `DTensor` in it, every rank calls this.
        at: lab clock, seconds.
        keep: how many of the newest stay, at least one.
        value: what it is worth, larger is better; None or not finite when nobody knows.
    """
    sharded = any(isinstance(tensor, DTensor) for _, tensor in _tensors(state))
    known = "" if value is None or not math.isfinite(value) else f"-value-{value!r}"
    path = folder / f"lineage-{lineage_id}-step-{step}{known}{'' if sharded else '.pt'}"
    partial = folder / f"{path.name}.tmp"
    if _leads():
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob("*.tmp"):
            _remove(stale)
    if sharded:
        _together()
        dcp.save(dict(_tensors(state)), checkpoint_id=partial / TENSORS)
    if _leads():
        torch.save(_without_tensors(state) if sharded else state, partial / REST if sharded else partial)
        digest = _digest(partial, durably=True)
        if path.is_dir():
            _remove(path)
        partial.rename(path)
        _sync(folder)
        row = CheckpointRow(lineage_id=lineage_id, step=step, path=path.name, digest=digest, created_at=at)
        _enter(ledger, folder, row, keep)
    if sharded:
        _together()


def load(folder: Path, row: CheckpointRow, like: dict[str, Any] | None = None) -> dict[str, Any]:
    """The state of a checkpoint.

    Args:
        folder: of the campaign's checkpoints.
        row: which one.
        like: a state of the same form. Where it has a `DTensor`, this one has it too, sharded in the same way,
            and every rank calls this. Elsewhere, and without it, tensors come whole, on the CPU.

    Raises:
        DamagedCheckpoint: with its name; an older checkpoint may still be whole.
    """
    path = folder / row.path
    if not path.exists():
        raise DamagedCheckpoint(f"{path} is missing; an older one is taken")
    if _digest(path) != row.digest:
        raise DamagedCheckpoint(f"{path} does not match its hash; an older one is taken")
    if path.is_file():
        return torch.load(path, weights_only=True)
    described = dcp.FileSystemReader(path / TENSORS).read_metadata().state_dict_metadata
    placed = {name: tensor for name, tensor in _tensors(like) if isinstance(tensor, DTensor)}
    found = {
        name: torch.empty_like(placed[name]) if name in placed else torch.empty(one.size, dtype=one.properties.dtype)  # type: ignore[union-attr]
        for name, one in described.items()
    }
    dcp.load(found, checkpoint_id=path / TENSORS, no_dist=not placed)
    return _with_tensors(torch.load(path / REST, weights_only=True), found)


def value_of(row: CheckpointRow) -> float | None:
    """What a checkpoint was said to be worth."""
    said = re.search(r"-value-(.+?)(\.pt)?$", row.path)
    return float(said[1]) if said else None


def best(rows: Sequence[CheckpointRow]) -> CheckpointRow | None:
    """The one of the greatest value, of equals the newest; None when no value is known."""
    known = [(value, row.step, row) for row in rows if (value := value_of(row)) is not None]
    return max(known, key=lambda one: one[:2])[2] if known else None


def _enter(ledger: Ledger, folder: Path, new: CheckpointRow, keep: int) -> None:
    """Into the ledger, and only then remove all that it does not name: what is superseded, and what a kill between the
    two left of earlier saves."""
    with ledger.write() as session:
        found = session.exec(select(CheckpointRow).where(CheckpointRow.lineage_id == new.lineage_id))
        rows = {row.step: row for row in found}
        row = rows.setdefault(new.step, new)
        row.path, row.digest = new.path, new.digest
        session.add(row)
        top = best(list(rows.values()))
        kept = {new.step, *sorted(rows)[-keep:], top.step if top else new.step}
        for step in rows.keys() - kept:
            session.delete(rows[step])
        session.flush()
        campaign = select(LineageRow.campaign_id).where(LineageRow.id == new.lineage_id).scalar_subquery()
        named = select(CheckpointRow.path).join(LineageRow).where(LineageRow.campaign_id == campaign)
        names = set(session.exec(named))
    for path in folder.iterdir():
        if path.name not in names:
            _remove(path)


def _leads() -> bool:
    return not dist.is_initialized() or dist.get_rank() == 0


def _together() -> None:
    if dist.is_initialized():
        dist.barrier()


def _digest(path: Path, durably: bool = False) -> str:
    """sha256 of a file, or over names and sha256s of all files of a folder; hex. Durably: once they are on the disk."""
    if path.is_dir():
        inside = sorted(one for one in path.rglob("*") if one.is_file())
        names = "".join(f"{one.relative_to(path).as_posix()} {_digest(one, durably)}\n" for one in inside)
        if durably:
            for one in {path, *(one.parent for one in inside)}:
                _sync(one)
        return hashlib.sha256(names.encode()).hexdigest()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if durably:
            os.fsync(file.fileno())
    return digest


def _sync(folder: Path) -> None:
    """A rename is on the disk only when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _tensors(state: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """(place, tensor) of each tensor; the place is the path of keys to it."""
    if isinstance(state, Tensor):
        yield name, state
    elif isinstance(state, dict):
        for key, value in state.items():
            yield from _tensors(value, f"{name}/{key}")
    elif isinstance(state, list | tuple):
        for i, value in enumerate(state):
            yield from _tensors(value, f"{name}/{i}")


def _without_tensors(state: Any) -> Any:
    """The same with None in place of each tensor."""
    if isinstance(state, dict):
        return {key: _without_tensors(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(_without_tensors(value) for value in state)
    return None if isinstance(state, Tensor) else state


def _with_tensors(rest: Any, tensors: dict[str, Tensor], name: str = "") -> Any:
    if name in tensors:
        return tensors[name]
    if isinstance(rest, dict):
        return {key: _with_tensors(value, tensors, f"{name}/{key}") for key, value in rest.items()}
    if isinstance(rest, list | tuple):
        return type(rest)(_with_tensors(value, tensors, f"{name}/{i}") for i, value in enumerate(rest))
    return rest
