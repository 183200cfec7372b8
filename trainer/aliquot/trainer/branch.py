"""The branch of checkpoints that a trainer is on: begun, resumed, forked after a crash or a roll-back.

Always true here: when any of these returns, the state's parameters, its book and the ledger's newest lineage speak of
the same step, and the newest published version is that of the parameters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlmodel import Session, func, select

from aliquot.ledger import CheckpointRow, DispositionRow, Ledger, LineageRow, record
from aliquot.ledger import lineages as branches
from aliquot.trainer import checkpoint as checkpoints
from aliquot.trainer.records import Records
from aliquot.trainer.state import TrainingState


class Branch:
    """Moves one trainer's state along one campaign's tree of checkpoints."""

    def __init__(self, ledger: Ledger, folder: Path, records: Records, state: TrainingState):
        self.ledger, self.records, self.state = ledger, records, state
        self.folder = folder / "checkpoints"
        self.saved_step = -1

    def open(self) -> None:
        """Begin the lineage, go on with it, or fork it at its last checkpoint; then publish what is loaded."""
        with self.ledger.write() as session:
            at = self.records.now(session)
            lineage = branches.newest(session, self.records.campaign_id)
            if lineage is None:
                lineage = branches.start(session, self.records.campaign_id, at)
            else:
                row = self._load(session, lineage, at)
                reason = "resumed from the last checkpoint" if row else "resumed before the first checkpoint"
                last = select(func.max(DispositionRow.step)).where(DispositionRow.lineage_id == lineage.id)
                if (session.exec(last).one() or 0) > self.records.step:
                    lineage = branches.fork(session, lineage, self.records.step, reason, at)
            self._take(session, lineage)

    def roll_back(self, since: int, reason: str) -> int:
        """Fork at the newest checkpoint from before a step; what came after it becomes due again. Returns its step."""
        with self.ledger.write() as session:
            at = self.records.now(session)
            lineage = branches.newest(session, self.records.campaign_id)
            assert lineage is not None
            self._load(session, lineage, at, before=since)
            lineage = branches.fork(session, lineage, self.records.step, reason, at)
            self._take(session, lineage)
        return self.records.step

    def save(self, keep: int, value: float | None) -> None:
        """A checkpoint of this branch and step, if the newest is not that already.

        Args:
            keep: how many of the newest stay; the one of the greatest value stays too.
            value: what it is worth; larger is better.
        """
        if self.saved_step == self.records.step:
            return
        with self.ledger.read() as session:
            at = self.records.now(session)
        lineage, step = self.records.lineage_id, self.records.step
        checkpoints.save(self.ledger, self.folder, lineage, step, self.state.save(), at, keep, value)
        self.saved_step = step

    def _take(self, session: Session, lineage: LineageRow) -> None:
        records, campaign_id = self.records, self.records.campaign_id
        records.lineage_id = lineage.id  # type: ignore[assignment]
        branch = branches.branch(session, lineage)
        self.state.follow(session, lineage)
        records.status(session, self.state.book, None)  # a branch that was abandoned may have said more
        published = branches.newest_version(session, campaign_id)
        kept = [one for one, limit in branch if limit is None or limit >= records.step]
        current = published is not None and published.lineage_id in kept and published.step == records.step
        if not current or not records.holds(published):
            records.publish(session, records.write_weights(self.state.policy))

    def _load(
        self, session: Session, lineage: LineageRow, at: float, before: int | None = None
    ) -> CheckpointRow | None:
        """The newest checkpoint that can be read, from before a step if one is given; None: the untrained policy.

        Damaged ones are passed over, with an event.
        """
        for row in branches.checkpoints(session, branches.branch(session, lineage)):
            if before is not None and row.step >= before:
                continue
            try:
                saved: dict[str, Any] | None = checkpoints.load(self.folder, row)
            except checkpoints.DamagedCheckpoint as error:
                told = {"step": row.step, "message": str(error)}
                record(session, self.records.campaign_id, at, "checkpoint_damaged", **told)
                continue
            self.state.load(saved)
            self.records.step = self.saved_step = row.step
            return row
        self.state.load(None)
        self.records.step, self.saved_step = 0, -1
        return None
