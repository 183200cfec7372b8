"""The trainer: follows the ledger's rewards, learns what is due, publishes weights, and records all it did.

One step, in this order: read news → take what is due → gradient step → write weights to a file → one transaction with
the dispositions, the freezes of new groups, the policy version and the status. A crash before the transaction leaves
an orphan file; a crash after it, but before the next checkpoint, forks the lineage at the last checkpoint, and what
the abandoned branch had learned becomes due again.
"""

from __future__ import annotations

import copy
import fcntl
import math
import time
from pathlib import Path

import torch
from sqlmodel import Session, col, func, select
from torch.utils.tensorboard import SummaryWriter

from aliquot.domain import Tier, Trajectory
from aliquot.ledger import (
    CampaignRow,
    DamagedArtifact,
    DispositionRow,
    GroupUseRow,
    Ledger,
    LineageRow,
    PolicyVersionRow,
    TrainerStatusRow,
    TrajectoryRow,
    record,
    unseal,
)
from aliquot.ledger import lineages as branches
from aliquot.trainer import checkpoint as checkpoints
from aliquot.trainer.config import TrainingSpec
from aliquot.trainer.learning import DivergenceGauge
from aliquot.trainer.learning.book import CoefficientBook, Due
from aliquot.trainer.policies import load_policy, write_weights
from aliquot.trainer.step import Learned, gradient_step

KEEP_WEIGHTS = 4
"""Published weight files kept; a rollout engine needs only the newest."""


class Trainer:
    """Learns for one campaign.

    Args:
        ledger: where rewards are and dispositions go.
        folder: the campaign's folder; `weights`, `checkpoints` and `tensorboard` are made under it.
        campaign_id: the campaign's row.
    """

    def __init__(self, ledger: Ledger, folder: Path, campaign_id: int):
        self.ledger, self.folder, self.campaign_id = ledger, folder, campaign_id
        with ledger.read() as session:
            campaign = session.get(CampaignRow, campaign_id)
            if campaign is None:
                raise LookupError(f"the ledger {ledger.path} has no campaign {campaign_id}")
            self.spec = TrainingSpec.model_validate(campaign.spec)
        self.config = self.spec.learning
        self.policy = load_policy(self.spec.policy.init, self.spec.space, self.spec.policy.architecture, self.spec.seed)
        self.reference = copy.deepcopy(self.policy)
        self.reference.model.requires_grad_(False)
        self.optimiser = torch.optim.AdamW(
            self.policy.model.parameters(), lr=self.config.learning_rate, betas=(0.9, 0.99), weight_decay=0.0
        )
        self.gauge, self.book, self.step_number = DivergenceGauge(), CoefficientBook(campaign_id, self.config), 0
        self.checkpoint_step = -1
        self._writer: SummaryWriter | None = None
        self._lock = _only_one(folder)
        self.lineage_id = self._open()

    def step(self) -> dict[str, float] | None:
        """Learn one batch of what is due. Returns the step's metrics, or None when nothing is due."""
        started = time.perf_counter()
        with self.ledger.read() as session:
            news = self.book.follow(session)
            due = self.book.take()
            batch, damaged = self._unseal(session, due)
        if not batch and not damaged:
            if news:
                with self.ledger.write() as session:
                    self._status(session, None)
            return None
        learned: list[Learned] = []
        metrics: dict[str, float] = {}
        if batch:
            learned, metrics = gradient_step(
                self.policy, self.reference, self.optimiser, self.gauge, batch, self.config
            )
        self.step_number += 1
        weights = self._write_weights() if batch else None
        for item in learned:
            self.book.learned(item.due, item.applied, item.masked)
        for one, _ in damaged:
            self.book.learned(one, 0.0, one.coefficient)
        metrics["due"] = len(batch)
        with self.ledger.write() as session:
            metrics |= self._record(session, learned, damaged, batch)
            if weights is not None:
                self._publish(session, weights)
            metrics = {name: value for name, value in metrics.items() if math.isfinite(value)}
            record(session, self.campaign_id, self._now(session), "trained", step=self.step_number, **metrics)
            self._status(session, metrics)
        self._log(metrics | {"seconds": time.perf_counter() - started})
        if self.step_number - max(self.checkpoint_step, 0) >= self.config.checkpoint_every:
            self.save()
        return metrics

    def run_pending(self) -> int:
        """Steps until nothing is due; returns how many."""
        steps = 0
        while self.step() is not None:
            steps += 1
        return steps

    def finish(self) -> None:
        """Learn what is due, record what is too small to learn as masked, and save.

        A retraction is due however small it is. Other residues are not forced through at the end: an adaptive optimiser
        makes of many tiny coefficients steps as long as of large ones, and unmakes with them what was learned.
        """
        self.run_pending()
        residue = self.book.residue()
        if residue:
            self.step_number += 1
            with self.ledger.write() as session:
                at = self._now(session)
                for due, reason in residue:
                    session.add(self._disposition(due, at, masked=due.coefficient, reason=reason))
                    self.book.learned(due, 0.0, due.coefficient)
                self._status(session, None)
        self.save()

    def save(self) -> None:
        """A checkpoint of this branch and step, if the newest is not that already."""
        if self.checkpoint_step == self.step_number:
            return
        state = {
            "model": self.policy.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "gauge": self.gauge.readings,
            "book": self.book.state(),
        }
        with self.ledger.read() as session:
            at = self._now(session)
        folder = self.folder / "checkpoints"
        keep = self.config.keep_checkpoints
        checkpoints.save(self.ledger, folder, self.lineage_id, self.step_number, state, at, keep)
        self.checkpoint_step = self.step_number

    def close(self) -> None:
        """Flush TensorBoard and give the campaign free for another trainer."""
        if self._writer is not None:
            self._writer.close()
        self._lock.close()

    def _open(self) -> int:
        """Begin the lineage, go on with it, or fork it at its last checkpoint; then publish what is loaded."""
        with self.ledger.write() as session:
            at = self._now(session)
            lineage = branches.newest(session, self.campaign_id)
            if lineage is None:
                lineage = branches.start(session, self.campaign_id, at)
            else:
                lineage = self._resume(session, lineage, at)
            branch = branches.branch(session, lineage)
            self.book.open(session, branch)
            self._status(session, None)  # a branch that was abandoned may have said more
            published = branches.newest_version(session, self.campaign_id)
            kept = [one for one, limit in branch if limit is None or limit >= self.step_number]
            if published is None or published.lineage_id not in kept or published.step != self.step_number:
                self.lineage_id = lineage.id  # type: ignore[assignment]
                self._publish(session, self._write_weights())
            return lineage.id  # type: ignore[return-value]

    def _resume(self, session: Session, lineage: LineageRow, at: float) -> LineageRow:
        row, state = self._last_whole(session, lineage, at)
        if row is not None:
            self.policy.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.gauge.readings = state["gauge"]
            self.book.restore(state["book"])
            self.step_number = self.checkpoint_step = row.step
        last = select(func.max(DispositionRow.step)).where(DispositionRow.lineage_id == lineage.id)
        if (session.exec(last).one() or 0) > self.step_number:
            reason = "resumed from the last checkpoint" if row else "resumed before the first checkpoint"
            return branches.fork(session, lineage, self.step_number, reason, at)
        return lineage

    def _last_whole(self, session: Session, lineage: LineageRow, at: float):
        """The newest checkpoint of the branch that can be read, and its state; damaged ones are passed over."""
        for row in branches.checkpoints(session, branches.branch(session, lineage)):
            try:
                return row, checkpoints.load(self.folder / "checkpoints", row)
            except checkpoints.DamagedCheckpoint as error:
                record(session, self.campaign_id, at, "checkpoint_damaged", step=row.step, message=str(error))
        return None, {}

    def _unseal(self, session: Session, dues: list[Due]) -> tuple[list[tuple[Due, Trajectory]], list[tuple[Due, str]]]:
        """The trajectories of what is due; those that cannot be read are told apart, with the reason."""
        ids = [due.member.trajectory_id for due in dues if due.member.trajectory_id is not None]
        rows = {row.id: row for row in session.exec(select(TrajectoryRow).where(col(TrajectoryRow.id).in_(ids)))}
        batch, damaged = [], []
        for due in dues:
            row = rows.get(due.member.trajectory_id or 0)
            if row is None:
                damaged.append((due, "no trajectory: nothing to weigh it by"))
                continue
            try:
                data = row.sealed if row.sealed is not None else self.ledger.artifacts.get(str(row.artifact))
                batch.append((due, unseal(data, row.digest)))
            except (DamagedArtifact, FileNotFoundError) as error:
                damaged.append((due, f"quarantined: {error}"))
        return batch, damaged

    def _record(self, session: Session, learned: list[Learned], damaged: list[tuple[Due, str]], batch) -> dict:
        at = self._now(session)
        for item in learned:
            session.add(self._disposition(item.due, at, item.applied, item.masked, item.tier, item.weight, item.reason))
        for due, reason in damaged:
            session.add(self._disposition(due, at, masked=due.coefficient, reason=reason))
            if due.member.trajectory_id is not None:
                told = {"proposal": due.member.proposal_id, "reason": reason}
                record(session, self.campaign_id, at, "trajectory_unusable", **told)
        for group_id in sorted({item.due.group_id for item in learned}):
            group = self.book.groups[group_id]
            if group.frozen_now and group.scale is not None:
                use = GroupUseRow(
                    group_id=group_id,
                    lineage_id=self.lineage_id,
                    step=self.step_number,
                    scale=group.scale,
                    baseline=group.baseline,
                )
                session.add(use)
                group.frozen_now = False
        versions = [trajectory.version for _, trajectory in batch]
        newest = branches.newest_version(session, self.campaign_id)
        tiers = {f"tier_{tier}": sum(item.tier is tier for item in learned) for tier in Tier}
        values = [due.member.value for due, _ in batch if due.member.value is not None]
        return tiers | {
            "staleness_versions": (newest.id - sum(versions) / len(versions)) if versions and newest else 0.0,
            "reward": sum(values) / len(values) if values else 0.0,
        }

    def _disposition(
        self, due: Due, at: float, applied: float = 0.0, masked: float = 0.0, tier=None, weight=None, reason: str = ""
    ) -> DispositionRow:
        return DispositionRow(
            proposal_id=due.member.proposal_id,
            reward_id=due.member.reward_id,
            lineage_id=self.lineage_id,
            step=self.step_number,
            tier=tier,
            applied=applied,
            masked=masked,
            weight=weight,
            reason=reason,
            created_at=at,
        )

    def _write_weights(self) -> str:
        name = f"{time.time_ns()}-step-{self.step_number}.safetensors"
        write_weights(self.folder / "weights" / name, self.policy.model)
        return name

    def _publish(self, session: Session, weights: str) -> None:
        version = PolicyVersionRow(
            campaign_id=self.campaign_id, lineage_id=self.lineage_id, step=self.step_number, weights=weights,
            created_at=self._now(session),
        )  # fmt: skip
        session.add(version)
        session.flush()
        for old in sorted((self.folder / "weights").glob("*.safetensors"))[:-KEEP_WEIGHTS]:
            old.unlink(missing_ok=True)

    def _status(self, session: Session, metrics: dict[str, float] | None) -> None:
        row = session.get(TrainerStatusRow, self.campaign_id)
        row = row or TrainerStatusRow(campaign_id=self.campaign_id, metrics={})
        row.reward_seen, row.backlog, row.step = self.book.reward_seen, self.book.backlog, self.step_number
        row.metrics = metrics or row.metrics
        session.add(row)

    def _now(self, session: Session) -> float:
        return session.get(CampaignRow, self.campaign_id, populate_existing=True).clock  # type: ignore[union-attr]

    def _log(self, metrics: dict[str, float]) -> None:
        if self._writer is None:
            self._writer = SummaryWriter(self.folder / "tensorboard")
        for name, value in metrics.items():
            self._writer.add_scalar(f"train/{name}", value, self.step_number)


def _only_one(folder: Path):
    """The lock of the campaign's trainer: waits until one that outlived its campaign has saved and gone."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / "trainer.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock
