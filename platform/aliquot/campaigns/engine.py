"""The engine: one round after another, each read from the ledger and written back to it.

A tick is: let the trainer learn → collect what the lab sent → stop waiting for what is overdue → refit the surrogate →
propose, verify, select and dispatch when there is room → move the clock on. Every phase finds its work in the ledger,
so a tick that was cut anywhere is finished by the next one.
"""

from __future__ import annotations

import time

from sqlmodel import Session, col, func, select

from aliquot.campaigns.collecting import collect
from aliquot.campaigns.context import Context, design_of
from aliquot.campaigns.controls import Controls
from aliquot.campaigns.dispatching import dispatch, expire
from aliquot.campaigns.learner import Learner
from aliquot.campaigns.progress import newest_rewards
from aliquot.campaigns.proposing import propose, propose_seeds
from aliquot.campaigns.selecting import OPEN, places_left, predict_passed_over, select_round
from aliquot.campaigns.verifying import verify, waits_for_verdicts
from aliquot.clock import HOUR
from aliquot.domain import CampaignState, Design, Outcome, Quality, RewardStatus
from aliquot.ledger import (
    BudgetRow,
    DesignRow,
    ExperimentRow,
    GroupRow,
    MeasurementRow,
    PolicyVersionRow,
    ProposalRow,
    RewardRow,
    move,
)
from aliquot.ledger import lineages as branches
from aliquot.trainer.policies import read_weights

GLANCE = 0.5
"""Seconds between looks at slow verifiers while a virtual clock stands still."""


class Engine:
    """Runs one campaign, tick by tick."""

    def __init__(self, context: Context, learner: Learner):
        self.context, self.learner, self.controls = context, learner, Controls(context)
        self._measurements = -1
        self._begun_at = self._round()  # patience begins anew when a person resumes a campaign
        self._refit()  # as it stood when the last tick ended: the next one imputes before it fits again

    def tick(self) -> CampaignState:
        """One round; returns the campaign's state after it."""
        context = self.context
        if broken := self.controls.broken():
            return self._blocked(f"a control does not hold: {broken}")
        self.learner.advance(self._newest_reward() if context.clock.virtual else 0)
        if self._paused():
            return CampaignState.PAUSED
        collect(context)
        expire(context)
        self._refit()
        self._finish_round()
        if context.clock.virtual and waits_for_verdicts(context):
            time.sleep(GLANCE)  # verifiers work in real time, and lab time stands still meanwhile
            return CampaignState.RUNNING
        proposing = self._may_propose()
        if proposing:
            if not propose_seeds(context):
                self._load_newest_weights()
                propose(context)
            self._finish_round()
        return self._move_on(proposing)

    def _finish_round(self) -> None:
        """Verify, select and dispatch whatever stands before those doors."""
        context = self.context
        verify(context)
        with context.ledger.read() as session:
            waiting = select(ProposalRow.id).where(
                ProposalRow.campaign_id == context.campaign_id, ProposalRow.state == "verified"
            )
            begun = ~select(RewardRow.id).where(RewardRow.proposal_id == ProposalRow.id).exists()
            without = select(ProposalRow.id).where(
                ProposalRow.campaign_id == context.campaign_id, ProposalRow.state != "judging", begun
            )
            due = session.exec(waiting).first() is not None or session.exec(without).first() is not None
        if due:
            select_round(context)
        dispatch(context)

    def _may_propose(self) -> bool:
        context = self.context
        with context.ledger.read() as session:
            return self._may_go_on(session) and places_left(context, session) > 0

    def _refit(self) -> None:
        """Fit the surrogate again when there are new measurements."""
        context = self.context
        with context.ledger.read() as session:
            mine = select(func.count()).select_from(MeasurementRow).join(ExperimentRow)
            count = session.exec(mine.where(ExperimentRow.campaign_id == context.campaign_id)).one()
            if count == self._measurements:
                return
            self._measurements = count
            query = (
                select(MeasurementRow, DesignRow)
                .join(ExperimentRow, col(ExperimentRow.id) == MeasurementRow.experiment_id)
                .join(DesignRow, col(DesignRow.key) == ExperimentRow.design_key)
                .where(ExperimentRow.campaign_id == context.campaign_id)
                .order_by(col(MeasurementRow.id))
            )
            newest: dict[tuple[int, str, int], tuple[MeasurementRow, Design]] = {}
            for row, design in session.exec(query):
                before = newest.get((row.experiment_id, row.assay, row.replicate))
                if before is None or before[0].revision < row.revision:
                    newest[(row.experiment_id, row.assay, row.replicate)] = (row, design_of(design))
        observations: dict[str, list] = {assay: [] for assay in context.objective.assays}
        for row, measured in newest.values():
            kept = not (row.late and context.spec.rewarding.late == "store")
            if row.assay in observations and kept and not row.retracted and row.quality == Quality.GOOD:
                observations[row.assay].append((measured, row.value, row.standard_error))
        was_ready = context.surrogate.ready
        context.surrogate.fit(observations)
        if context.surrogate.ready and not was_ready:
            predict_passed_over(context)

    def _newest_reward(self) -> int:
        with self.context.ledger.read() as session:
            newest = select(func.max(RewardRow.id)).where(RewardRow.campaign_id == self.context.campaign_id)
            return session.exec(newest).one() or 0

    def _load_newest_weights(self) -> None:
        context = self.context
        with context.ledger.read() as session:
            newest: PolicyVersionRow | None = branches.newest_version(session, context.campaign_id)
        if newest is not None and newest.id != context.rollouts.version:
            context.rollouts.update_weights(read_weights(context.folder.weights / newest.weights), newest.id)  # type: ignore[arg-type]

    def _may_go_on(self, session: Session) -> bool:
        """Whether no stop rule holds."""
        return not self._target_reached(session) and not self._run_dry(session)

    def _run_dry(self, session: Session) -> bool:
        """Whether the last rounds, as many as the campaign's patience, brought nothing new that the lab would take."""
        mine = GroupRow.campaign_id == self.context.campaign_id
        fruitful = select(func.max(GroupRow.number)).join(ProposalRow).join(ExperimentRow)
        fruitful = fruitful.where(mine, ProposalRow.state == "selected", col(ExperimentRow.dispatched_at).is_not(None))
        last = max(session.exec(fruitful).one() or 0, self._begun_at)
        return self._round() - last >= self.context.spec.stopping.patience

    def _outage(self, session: Session) -> str:
        """Why a dry run of rounds says nothing of the space: in half of them or more something broke; else empty."""
        patience = self.context.spec.stopping.patience
        query = (
            select(GroupRow.number, func.max(ProposalRow.reason))
            .join(ProposalRow)
            .where(
                GroupRow.campaign_id == self.context.campaign_id,
                GroupRow.number > self._round() - patience,
                ProposalRow.outcome == Outcome.INFRASTRUCTURE_ERROR,
            )
            .group_by(col(GroupRow.number))
            .order_by(col(GroupRow.number))
        )
        broken = session.exec(query).all()
        return broken[-1][1] if 2 * len(broken) >= patience else ""

    def _round(self) -> int:
        with self.context.ledger.read() as session:
            mine = GroupRow.campaign_id == self.context.campaign_id
            return session.exec(select(func.max(GroupRow.number)).where(mine)).one() or 0

    def _target_reached(self, session: Session) -> bool:
        target = self.context.spec.stopping.target
        if target is None:
            return False
        whole = (RewardStatus.FINAL, RewardStatus.REVISED)
        query = select(func.max(RewardRow.value)).join(ProposalRow).where(
            col(RewardRow.id).in_(newest_rewards(self.context.campaign_id)),
            col(RewardRow.status).in_(whole),
            col(ProposalRow.experiment_id) != None,  # noqa: E711
        )  # fmt: skip
        best = session.exec(query).one()
        return best is not None and best >= target

    def _move_on(self, proposed: bool) -> CampaignState:
        """Advance the clock to the next thing to do, and end the campaign when there is nothing left."""
        context, runtime = self.context, self.context.spec.runtime
        now = context.clock.now()
        with context.ledger.read() as session:
            query = select(ExperimentRow).where(
                ExperimentRow.campaign_id == context.campaign_id, col(ExperimentRow.state).in_(OPEN)
            )
            still_open = session.exec(query).all()
            more = self._may_go_on(session) and places_left(context, session) > 0
            budget = session.get(BudgetRow, (context.campaign_id, "experiments"))
        event = context.lab.next_event_at()
        owed = waits_for_verdicts(context)
        if not still_open and not more and not owed and event is None:
            return self._end(int(budget.limit) if budget else 0)
        if not context.clock.virtual:
            context.clock.wait_until(now + runtime.poll_seconds)
        elif proposed or more or owed:
            context.clock.wait_until(now + runtime.round_hours * HOUR)
        else:
            moments = [e.expires_at for e in still_open if e.expires_at is not None]
            moments += [event] if event is not None else []
            context.clock.wait_until(max(min(moments, default=now), now + runtime.round_hours * HOUR))
        self._keep_time()
        return CampaignState.RUNNING

    def _end(self, experiments: int) -> CampaignState:
        context = self.context
        with context.ledger.read() as session:
            outage = self._outage(session) if self._run_dry(session) and not self._target_reached(session) else ""
        if outage:
            rounds = context.spec.stopping.patience
            return self._blocked(f"nothing could be sent in {rounds} rounds: {outage}")
        self.learner.finish()
        if self._paused():
            return CampaignState.PAUSED
        with context.ledger.write() as session:
            campaign = context.campaign(session)
            state, reason = CampaignState.EXHAUSTED, f"all {experiments} experiments of the budget are spent"
            if self._target_reached(session):
                state, reason = CampaignState.COMPLETED, "the target was reached"
            elif self._run_dry(session):
                reason = f"no new design for the lab in {context.spec.stopping.patience} rounds"
            move(session, campaign, state, context.clock.now(), reason=reason, clock=context.clock.now())
        return state

    def _blocked(self, reason: str) -> CampaignState:
        """Something is broken, and a person must look before the campaign can go on."""
        self.learner.stop()
        with self.context.ledger.write() as session:
            at = self.context.clock.now()
            campaign = self.context.campaign(session)
            move(session, campaign, CampaignState.BLOCKED, at, reason=reason[:2000], clock=at)
        return CampaignState.BLOCKED

    def _paused(self) -> bool:
        """Whether a monitor of the trainer has stopped the campaign, for a person to look."""
        with self.context.ledger.read() as session:
            return self.context.campaign(session).state == CampaignState.PAUSED

    def _keep_time(self) -> None:
        with self.context.ledger.write() as session:
            self.context.campaign(session).clock = self.context.clock.now()
