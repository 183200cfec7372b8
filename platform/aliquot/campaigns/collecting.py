"""Collect: what the lab says, each delivery applied once, with all its consequences in one transaction.

A delivery that repeats an id already in the inbox does nothing. One that makes no sense (unknown key, an assay that was
not asked for, another unit) is kept in quarantine and told in the event log; it is never thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlmodel import Session, func, select

from aliquot.campaigns.context import Context
from aliquot.campaigns.dispatching import started
from aliquot.campaigns.rewarding import is_late, revise_designs
from aliquot.domain import ExperimentState, Measurement, Outcome
from aliquot.lab_adapters.sdk import Delivery, LabError
from aliquot.ledger import AttemptRow, ExperimentRow, InboxRow, MeasurementRow, move, record

ENDS = {
    Outcome.MEASURED: ExperimentState.COMPLETED,
    Outcome.LAB_FAILURE: ExperimentState.FAILED,
    Outcome.INCONCLUSIVE: ExperimentState.FAILED,
    Outcome.TIMED_OUT: ExperimentState.FAILED,
    Outcome.INFRASTRUCTURE_ERROR: ExperimentState.FAILED,
    Outcome.CANCELLED: ExperimentState.CANCELLED,
}


def collect(context: Context) -> int:
    """Apply all that the lab has sent since the last time; returns how many new deliveries there were."""
    with context.ledger.read() as session:
        cursor = context.campaign(session).lab_cursor
    try:
        page = context.lab.results(cursor)
    except LabError as error:
        with context.ledger.write() as session:
            record(session, context.campaign_id, context.clock.now(), "lab_error", message=str(error)[:2000])
        return 0
    if not page.deliveries:
        return 0
    at = context.clock.now()
    with context.ledger.write() as session:
        touched, new = apply(context, session, page.deliveries, at)
        context.campaign(session).lab_cursor = page.cursor
        session.flush()
        revise_designs(context, session, touched, at)
    return new


def apply(context: Context, session: Session, deliveries: Sequence[Delivery], at: float) -> tuple[set[str], int]:
    """Store deliveries and what follows from them; returns the design keys touched and how many were new."""
    touched, new = set(), 0
    for delivery in deliveries:
        same = (
            InboxRow.campaign_id == context.campaign_id,
            InboxRow.lab == context.description.name,
            InboxRow.delivery_id == delivery.delivery_id,
        )
        if session.exec(select(InboxRow.id).where(*same)).first() is not None:
            continue
        new += 1
        found = select(ExperimentRow).join(AttemptRow).where(AttemptRow.key == delivery.key)
        experiment = session.exec(found.where(ExperimentRow.campaign_id == context.campaign_id)).first()
        problem = _problem(context, experiment, delivery)
        inbox = InboxRow(
            campaign_id=context.campaign_id, lab=context.description.name, delivery_id=delivery.delivery_id,
            body=delivery.model_dump(mode="json"), state="quarantined" if problem else "applied", note=problem,
            received_at=at,
        )  # fmt: skip
        session.add(inbox)
        session.flush()
        if problem or experiment is None:
            told = {"delivery": delivery.delivery_id, "reason": problem}
            record(session, context.campaign_id, at, "delivery_quarantined", **told)
            continue
        ended = ExperimentState(experiment.state).terminal
        late = ended and (experiment.state == ExperimentState.CANCELLED or is_late(experiment))
        if experiment.state in (ExperimentState.DISPATCHING, ExperimentState.UNCERTAIN):
            started(context, session, experiment, at)  # the acknowledgement was lost, the experiment was not
        for measurement in delivery.measurements:
            _store(context, session, experiment, inbox, measurement, late, at)
        if delivery.outcome is not None and not (ended and experiment.state != ExperimentState.EXPIRED):
            changes = {"outcome": delivery.outcome, "reason": delivery.note, "ended_at": experiment.ended_at or at}
            move(session, experiment, ENDS[delivery.outcome], at, **changes)
        touched.add(experiment.design_key)
    return touched, new


def _problem(context: Context, experiment: ExperimentRow | None, delivery: Delivery) -> str:
    if experiment is None:
        return f"no experiment of this campaign has the key {delivery.key!r}"
    if delivery.outcome is not None and delivery.outcome not in ENDS:
        return f"a lab cannot end an experiment with {delivery.outcome!r}"
    units = {assay.name: assay.unit for assay in context.description.assays}
    for measurement in delivery.measurements:
        if measurement.assay not in units:
            return f"the lab has no assay {measurement.assay!r}; it has {', '.join(units)}"
        if measurement.assay not in experiment.assays:
            return f"{measurement.assay!r} was not asked for; asked for: {', '.join(experiment.assays)}"
        if measurement.unit != units[measurement.assay]:
            return f"{measurement.assay} is measured in {units[measurement.assay]!r}, not {measurement.unit!r}"
    return ""


def _store(
    context: Context, session: Session, experiment: ExperimentRow, inbox: InboxRow, measurement: Measurement,
    late: bool, at: float,
) -> None:  # fmt: skip
    """One value; the same (assay, replicate, revision) again is old news.

    A retraction under a revision that is there already takes it back all the same; another value under it is told in
    the event log and kept in the inbox, since a lab that means it gives it a revision of its own.
    """
    same = (
        MeasurementRow.experiment_id == experiment.id,
        MeasurementRow.assay == measurement.assay,
        MeasurementRow.replicate == measurement.replicate,
        MeasurementRow.revision == measurement.revision,
    )
    old = session.exec(select(MeasurementRow).where(*same)).first()
    if old is not None and measurement.retracted and not old.retracted:
        measurement = measurement.model_copy(update={"revision": _last_revision(session, old) + 1})
    elif old is not None:
        if (old.value, old.retracted) != (measurement.value, measurement.retracted):
            told = {"experiment": experiment.number, "assay": old.assay, "replicate": old.replicate}
            told |= {"revision": old.revision, "kept": old.value, "said": measurement.value}
            record(session, context.campaign_id, at, "measurement_conflict", **told)
        return
    row = MeasurementRow(
        experiment_id=experiment.id, inbox_id=inbox.id, late=late, received_at=at,
        **measurement.model_dump(mode="json"),
    )  # fmt: skip
    session.add(row)
    session.flush()


def _last_revision(session: Session, row: MeasurementRow) -> int:
    same = (
        MeasurementRow.experiment_id == row.experiment_id,
        MeasurementRow.assay == row.assay,
        MeasurementRow.replicate == row.replicate,
    )
    return session.exec(select(func.max(MeasurementRow.revision)).where(*same)).one() or 0
