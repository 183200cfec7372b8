"""Dispatch: intent before effect.

An attempt with its idempotency key is committed before the lab is called, and `running` is committed after. A crash
between the two leaves an experiment in `dispatching`, which `recover` settles by the lab's declared capabilities: the
same key is sent again when that starts nothing new, the lab is asked when it can look a key up, and when neither is so
the experiment is `uncertain`, its budget still held, until a person or a result says what happened.
"""

from __future__ import annotations

import hashlib

from sqlmodel import Session, col, func, select

from aliquot.campaigns.context import Context, design_of
from aliquot.campaigns.rewarding import revise_designs
from aliquot.clock import HOUR
from aliquot.domain import ExperimentState, Outcome
from aliquot.lab_adapters.sdk import LabError, LabRefused, LabStatus, Submission
from aliquot.ledger import AttemptRow, DesignRow, ExperimentRow, move, record
from aliquot.ledger.budget import refund, settle

MAX_ATTEMPTS = 3
"""Dispatches of one experiment before an unreachable lab fails it."""


def dispatch(context: Context) -> int:
    """Send every experiment that is ready; returns how many the lab took."""
    sent = 0
    for experiment, design in _in_state(context, ExperimentState.READY):
        with context.ledger.write() as session:
            at = context.clock.now()
            number = 1 + session.exec(select(func.count()).where(AttemptRow.experiment_id == experiment.id)).one()
            attempt = AttemptRow(
                experiment_id=experiment.id,
                number=number,
                key=_key(context, session, experiment, number),
                started_at=at,
            )
            session.add(attempt)
            move(session, experiment, "dispatching", at)
        sent += _send(context, experiment, design, attempt)
    return sent


def recover(context: Context) -> None:
    """Settle what a crash left in `dispatching`."""
    capabilities = context.description.capabilities
    for experiment, design in _in_state(context, ExperimentState.DISPATCHING):
        with context.ledger.read() as session:
            attempt = _last_attempt(session, experiment)
        unknown = capabilities.lookup and context.lab.reconcile([attempt.key])[attempt.key] is LabStatus.UNKNOWN
        if capabilities.idempotent_submit or unknown:
            _send(context, experiment, design, attempt)
        elif capabilities.lookup:
            _running(context, experiment)
        else:
            with context.ledger.write() as session:
                reason = "the engine stopped while it was sending this, and the lab cannot say whether it came"
                move(session, experiment, "uncertain", context.clock.now(), reason=reason)


def expire(context: Context) -> None:
    """Stop waiting for experiments past their time; what the lab still says later is stored all the same."""
    now = context.clock.now()
    overdue = [
        experiment
        for experiment, _ in _in_state(context, ExperimentState.RUNNING)
        if experiment.expires_at is not None and experiment.expires_at <= now
    ]
    for experiment in overdue:
        with context.ledger.write() as session:
            reason = f"no last word from the lab within {context.spec.runtime.timeout_hours:g} hours"
            move(session, experiment, "expired", now, outcome=Outcome.TIMED_OUT, reason=reason, ended_at=now)
            revise_designs(context, session, [experiment.design_key], now)


def _send(context: Context, experiment: ExperimentRow, design, attempt: AttemptRow) -> bool:
    submission = Submission(key=attempt.key, design=design, assays=tuple(experiment.assays))
    try:
        context.lab.submit(submission)
    except LabRefused as error:
        _give_up(context, experiment, attempt, str(error), again=False)
        return False
    except LabError as error:
        _give_up(context, experiment, attempt, str(error), again=attempt.number < MAX_ATTEMPTS)
        return False
    _running(context, experiment)
    return True


def _running(context: Context, experiment: ExperimentRow) -> None:
    with context.ledger.write() as session:
        at = context.clock.now()
        expires = at + context.spec.runtime.timeout_hours * HOUR
        move(session, experiment, "running", at, dispatched_at=at, expires_at=expires)
        settle(session, context.campaign_id, experiment.id, at)  # type: ignore[arg-type]


def _give_up(context: Context, experiment: ExperimentRow, attempt: AttemptRow, message: str, again: bool) -> None:
    """The attempt ends as an infrastructure error; the experiment waits for another, or fails with its money back."""
    with context.ledger.write() as session:
        at = context.clock.now()
        row = session.get(AttemptRow, attempt.id)
        row.outcome, row.note = Outcome.INFRASTRUCTURE_ERROR, message  # type: ignore[union-attr]
        record(session, context.campaign_id, at, "lab_error", experiment=experiment.number, message=message[:2000])
        if again:
            move(session, experiment, "ready", at, reason=message)
            return
        changes = {"outcome": Outcome.INFRASTRUCTURE_ERROR, "reason": message, "ended_at": at}
        move(session, experiment, "failed", at, **changes)
        refund(session, context.campaign_id, experiment.id, at)  # type: ignore[arg-type]


def _in_state(context: Context, state: ExperimentState):
    query = (
        select(ExperimentRow, DesignRow)
        .join(DesignRow)
        .where(ExperimentRow.campaign_id == context.campaign_id, ExperimentRow.state == state)
        .order_by(col(ExperimentRow.id))
    )
    with context.ledger.read() as session:
        return [(experiment, design_of(design)) for experiment, design in session.exec(query)]


def _last_attempt(session: Session, experiment: ExperimentRow) -> AttemptRow:
    query = select(AttemptRow).where(AttemptRow.experiment_id == experiment.id)
    return session.exec(query.order_by(col(AttemptRow.number).desc())).first()  # type: ignore[return-value]


def _key(context: Context, session: Session, experiment: ExperimentRow, number: int) -> str:
    """Unique across campaigns and ledgers, the same after a restart."""
    campaign = context.campaign(session)
    text = f"{campaign.name}/{campaign.created_at}/{campaign.id}"
    return f"{hashlib.sha256(text.encode()).hexdigest()[:12]}-{experiment.number}-{number}"
