"""Dispatch: intent before effect.

An attempt with its idempotency key is committed before the lab is called, and `running` is committed after. A crash
between the two, or a lab that could not be reached, leaves an experiment in `dispatching`, which `recover` settles at
the next tick by the lab's declared capabilities: the
same key is sent again when that starts nothing new, the lab is asked when it can look a key up, and when neither is so
the experiment is `uncertain`, its budget still held, until a person or a result says what happened.
"""

from __future__ import annotations

import hashlib

from sqlmodel import Session, col, func, select

from aliquot.campaigns.context import Context, design_of
from aliquot.campaigns.rewarding import revise_designs
from aliquot.clock import HOUR
from aliquot.domain import Design, ExperimentState, Outcome
from aliquot.lab_adapters.sdk import LabError, LabRefused, LabStatus, Submission
from aliquot.ledger import AttemptRow, DesignRow, ExperimentRow, move, record
from aliquot.ledger.budget import refund, settle


def dispatch(context: Context) -> int:
    """Send every experiment that is ready, and what is still open from before; returns how many the lab took."""
    recover(context)
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
    """Settle what stands in `dispatching`: a crash or an error of the lab left open whether it came through."""
    capabilities = context.description.capabilities
    for experiment, design in _in_state(context, ExperimentState.DISPATCHING):
        with context.ledger.read() as session:
            attempt = _last_attempt(session, experiment)
        if capabilities.idempotent_submit:
            _send(context, experiment, design, attempt)
        elif capabilities.lookup:
            try:
                status = context.lab.reconcile([attempt.key])[attempt.key]
            except (LabError, KeyError) as error:
                _tell(context, experiment, attempt, str(error))
                continue
            if status is LabStatus.UNKNOWN:
                _send(context, experiment, design, attempt)
            else:
                _running(context, experiment)
        else:
            _uncertain(context, experiment)


def expire(context: Context) -> None:
    """Stop waiting for experiments past their time; what the lab still says later is stored all the same."""
    now = context.clock.now()
    states = (ExperimentState.RUNNING, ExperimentState.UNCERTAIN, ExperimentState.DISPATCHING)
    patience = context.spec.runtime.timeout_hours * HOUR
    for experiment, _ in [one for state in states for one in _in_state(context, state)]:
        if (experiment.expires_at or experiment.selected_at + patience) > now:
            continue
        with context.ledger.write() as session:
            settle(session, context.campaign_id, experiment.id, now)
            reason = f"no last word from the lab within {context.spec.runtime.timeout_hours:g} hours"
            over = {"outcome": Outcome.TIMED_OUT, "reason": reason, "ended_at": now}
            move(session, experiment, "expired", now, expires_at=experiment.expires_at or now, **over)
            revise_designs(context, session, [experiment.design_key], now)


def _send(context: Context, experiment: ExperimentRow, design: Design, attempt: AttemptRow) -> bool:
    """Submit an attempt. Only a refusal proves that nothing was started; after any other error that stays open."""
    submission = Submission(key=attempt.key, design=design, assays=tuple(experiment.assays))
    try:
        context.lab.submit(submission)
    except LabRefused as error:
        _refused(context, experiment, attempt, str(error))
        return False
    except LabError as error:
        _tell(context, experiment, attempt, str(error))
        capabilities = context.description.capabilities
        if not capabilities.idempotent_submit and not capabilities.lookup:
            _uncertain(context, experiment)
        return False
    _running(context, experiment)
    return True


def _running(context: Context, experiment: ExperimentRow) -> None:
    with context.ledger.write() as session:
        started(context, session, experiment, context.clock.now())


def started(context: Context, session: Session, experiment: ExperimentRow, at: float) -> None:
    """The lab has it: move it to `running` and settle its budget."""
    expires = at + context.spec.runtime.timeout_hours * HOUR
    move(session, experiment, "running", at, dispatched_at=at, expires_at=expires)
    settle(session, context.campaign_id, experiment.id, at)


def _uncertain(context: Context, experiment: ExperimentRow) -> None:
    with context.ledger.write() as session:
        at = context.clock.now()
        expires = at + context.spec.runtime.timeout_hours * HOUR
        reason = "whether the lab got this is not known, and it cannot say"
        move(session, experiment, "uncertain", at, reason=reason, expires_at=expires)


def _tell(context: Context, experiment: ExperimentRow, attempt: AttemptRow, message: str) -> None:
    """Note an error of the lab on the attempt, once for each different message."""
    with context.ledger.write() as session:
        row = session.get(AttemptRow, attempt.id)
        if row is not None and row.note != message:
            row.outcome, row.note = Outcome.INFRASTRUCTURE_ERROR, message
            at = context.clock.now()
            record(session, context.campaign_id, at, "lab_error", experiment=experiment.number, message=message[:2000])


def _refused(context: Context, experiment: ExperimentRow, attempt: AttemptRow, message: str) -> None:
    """The lab will not have it: an infrastructure error, and the money back."""
    _tell(context, experiment, attempt, message)
    with context.ledger.write() as session:
        at = context.clock.now()
        changes = {"outcome": Outcome.INFRASTRUCTURE_ERROR, "reason": message, "ended_at": at}
        move(session, experiment, "failed", at, **changes)
        refund(session, context.campaign_id, experiment.id, at)


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
