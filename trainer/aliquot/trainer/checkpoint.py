"""Checkpoints that name their branch and step, written whole or not at all.

A checkpoint holds what the ledger does not: weights, optimiser moments, and the trainer's running statistics. What was
consumed is not in it: that is the dispositions on its branch up to its step.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import torch
from sqlmodel import col, select

from aliquot.domain import AliquotError
from aliquot.ledger import CheckpointRow, Ledger


class DamagedCheckpoint(AliquotError):
    """A checkpoint file is missing or does not match its hash."""


def save(ledger: Ledger, folder: Path, lineage_id: int, step: int, state: dict[str, Any], at: float, keep: int) -> None:
    """Write `state`, then enter it in the ledger, then remove files beyond the newest `keep` of this branch."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"lineage-{lineage_id}-step-{step}.pt"
    partial = folder / f"{name}.{os.getpid()}.tmp"
    torch.save(state, partial)
    with partial.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    partial.replace(folder / name)
    with ledger.write() as session:
        same = (CheckpointRow.lineage_id == lineage_id, CheckpointRow.step == step)
        row = session.exec(select(CheckpointRow).where(*same)).first()
        row = row or CheckpointRow(lineage_id=lineage_id, step=step, path=name, digest=digest, created_at=at)
        row.digest = digest
        session.add(row)
        session.flush()
        query = select(CheckpointRow).where(CheckpointRow.lineage_id == lineage_id)
        older = session.exec(query.order_by(col(CheckpointRow.step).desc()).offset(keep)).all()
        for row in older:
            session.delete(row)
    for row in older:
        (folder / row.path).unlink(missing_ok=True)


def load(folder: Path, row: CheckpointRow) -> dict[str, Any]:
    """The state of a checkpoint.

    Raises:
        DamagedCheckpoint: with the file's name; an older checkpoint may still be whole.
    """
    path = folder / row.path
    if not path.is_file():
        raise DamagedCheckpoint(f"{path} is missing; an older one is taken")
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != row.digest:
            raise DamagedCheckpoint(f"{path} does not match its hash; an older one is taken")
    return torch.load(path, weights_only=True)
