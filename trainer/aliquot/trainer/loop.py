"""The trainer: follows the ledger's rewards, learns what is due, publishes weights, and records all it did.

One step, in this order: read news → take what is due → gradient → judge it → write weights to a file → one transaction
with the dispositions, the freezes of new groups, the policy version and the status → judge what the step left. A crash
before the transaction leaves an orphan file; a crash after it, but before the next checkpoint, forks the lineage at the
last checkpoint, and what the abandoned branch had learned becomes due again. So does a roll-back that a monitor asks
for.
"""

from __future__ import annotations

import fcntl
import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sqlmodel import Session
from torch.utils.tensorboard import SummaryWriter

from aliquot.domain import CampaignState, Tier
from aliquot.ledger import CampaignRow, Ledger, record
from aliquot.ledger import lineages as branches
from aliquot.trainer.batch import BatchReader, Reused
from aliquot.trainer.branch import Branch
from aliquot.trainer.config import TrainingSpec
from aliquot.trainer.experts import revive_dead
from aliquot.trainer.learning.book import CoefficientBook
from aliquot.trainer.learning.members import Due
from aliquot.trainer.monitors import Action, Alarm, NewestDesigns, strongest
from aliquot.trainer.policies import Policy
from aliquot.trainer.records import Records
from aliquot.trainer.state import TrainingState
from aliquot.trainer.step import Gradient, Learned, gradient

HOUR = 3600.0
COMPLETION_EVERY = 10
"""Steps between looks at whether slow results are learned like fast ones."""
WORTH = 0.9
"""How much of a checkpoint's worth is that of the steps before: an average of rewards, for `keep the best`."""


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
        self.state = TrainingState(self.spec, campaign_id)
        self.reader = BatchReader(ledger, self.policy, self.spec.policy.sampling)
        self.records = Records(campaign_id, folder)
        self.branch = Branch(ledger, folder, self.records, self.state)
        self.newest = NewestDesigns(campaign_id)
        self._worth = math.nan
        self._skipped: set[int] = set()
        """Proposals of skipped gradients: others go first, so that they meet other parameters."""
        self._writer: SummaryWriter | None = None
        self._lock = _only_one(folder)
        self.branch.open()

    @property
    def policy(self) -> Policy:
        return self.state.policy

    @property
    def book(self) -> CoefficientBook:
        return self.state.book

    @property
    def step_number(self) -> int:
        return self.records.step

    def step(self) -> dict[str, float] | None:
        """Learn one batch of what is due. Returns the step's metrics, or None when nothing is due or a monitor has
        paused the campaign."""
        started, state = time.perf_counter(), self.state
        with self.ledger.read() as session:
            if self._paused(session):
                return None
            news = self.book.follow(session, self.records.now(session))
            due, evicted = self.book.take(self._skipped)
            batch, unusable = self.reader.due(session, due)
            newest = branches.newest_version(session, self.campaign_id)
            reused = self._reuse(session) if batch else []
        if not due and not evicted:
            if news:
                with self.ledger.write() as session:
                    self.records.status(session, self.book, None)
            return None
        found: Gradient | None = None
        if batch:
            found = gradient(self.policy, state.reference, state.gauge, batch, reused, self.config)
            found.metrics["due"] = float(len(batch))
            if newest is not None and (fresh := state.gauge.reading(newest.id)) is not None:
                found.metrics["kl_fresh"] = fresh
            if self._held_back(state.watch.before(self.step_number + 1, found.metrics)):
                self._skipped |= {one.member.proposal_id for one, _ in batch}
                return found.metrics
        self.records.step += 1
        learned = self._walk(found) if found else []
        if learned:
            self._skipped.clear()
        weights = self.records.write_weights(self.policy) if learned else None
        metrics = found.metrics if found else {"due": 0.0}
        metrics |= {f"tier_{tier}": float(sum(item.tier is tier for item in learned)) for tier in Tier}
        metrics |= self._ages([item.due for item in learned])
        if self.step_number % COMPLETION_EVERY == 0:
            metrics |= self.book.completion()
        with self.ledger.write() as session:
            self.records.learned(session, learned)
            self.records.set_aside(session, evicted)
            self.records.set_aside(session, unusable, "trajectory_unusable")
            self.records.reused(session, reused)
            self.records.frozen(session, self.book, {item.due.group_id for item in learned})
            for item in learned:
                self.book.learned(item.due, item.applied, item.masked, item.weight)
            for one, _ in evicted + unusable:
                self.book.learned(one, 0.0, one.coefficient)
            for again in reused:
                self.book.reused(again.member, again.coefficient)
            if weights is not None:
                self.records.publish(session, weights)
            metrics = {name: value for name, value in metrics.items() if math.isfinite(value)}
            record(session, self.campaign_id, self.records.now(session), "trained", step=self.step_number, **metrics)
            self.records.status(session, self.book, metrics)
            facts = self.newest.follow(session)
        self._log(metrics | facts | {"seconds": time.perf_counter() - started})
        over = self._held_back(state.watch.after(self.step_number, metrics | facts))
        if found and not over:
            self._value(metrics.get("reward", math.nan))
            if self.step_number - max(self.branch.saved_step, 0) >= self.config.checkpoint_every:
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
        with self.ledger.read() as session:
            residue = [] if self._paused(session) else self.book.residue()
        if residue:
            self.records.step += 1
            with self.ledger.write() as session:
                self.records.set_aside(session, residue)
                for due, _ in residue:
                    self.book.learned(due, 0.0, due.coefficient)
                self.records.status(session, self.book, None)
        self.save()

    def save(self) -> None:
        """A checkpoint of this branch and step, if the newest is not that already."""
        self.branch.save(self.config.keep_checkpoints, self._worth)

    def close(self) -> None:
        """Flush TensorBoard and give the campaign free for another trainer."""
        if self._writer is not None:
            self._writer.close()
        self._lock.close()

    def _walk(self, found: Gradient) -> list[Learned]:
        """Step along a gradient; returns what was done with each due."""
        state = self.state
        rate = self.config.learning_rate * found.scale * state.watch.learning_rate_scale
        for group in state.optimiser.param_groups:
            group["lr"] = rate
        state.optimiser.step()
        state.optimiser.zero_grad(set_to_none=True)
        found.metrics["learning_rate"] = rate
        if found.loads is not None and self.config.routing.revive and self.config.lora is None:
            found.metrics["experts_revived"] = float(len(revive_dead(state, found.loads, self.step_number)))
        return found.learned

    def _held_back(self, alarms: Sequence[Alarm]) -> bool:
        """Write alarms down and do what the strongest asks; returns whether the step at hand is over with that."""
        worst = strongest(alarms)
        if worst is None:
            return False
        with self.ledger.write() as session:
            self.records.alarms(session, alarms)
        if worst.action is Action.ROLL_BACK:
            self.branch.roll_back(worst.since, worst.message)
            self._worth = math.nan
        over = worst.action.strength >= Action.SKIP_STEP.strength
        if over:
            self.state.optimiser.zero_grad(set_to_none=True)
        return over

    def _paused(self, session: Session) -> bool:
        campaign = session.get(CampaignRow, self.campaign_id)
        return campaign is not None and campaign.state == CampaignState.PAUSED

    def _reuse(self, session: Session) -> list[Reused]:
        """What is learned from once more in this step; the draw depends on seed and step alone."""
        random = np.random.default_rng([self.spec.seed, self.step_number])
        return [one for kind in self.config.reuse for one in self.reader.reuse(session, self.book, kind, random)]

    def _ages(self, dues: list[Due]) -> dict[str, float]:
        """How old what was learned is, in policy versions and in lab hours, and what it was worth."""
        if not dues:
            return {}
        members = [due.member for due in dues]
        values = [member.value for member in members if member.value is not None]
        return {
            "staleness_versions": sum(map(self.book.age, members)) / len(members),
            "staleness_hours": sum(self.book.now - member.proposed_at for member in members) / len(members) / HOUR,
            "reward": sum(values) / len(values) if values else math.nan,
        }

    def _value(self, reward: float) -> None:
        if math.isfinite(reward):
            self._worth = WORTH * self._worth + (1 - WORTH) * reward if math.isfinite(self._worth) else reward

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
