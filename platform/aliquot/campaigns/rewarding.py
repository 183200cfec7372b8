"""Reward: from what is known of a design to a new revision of every proposal that named it.

Known are the scores of its verifiers and the mean of each assay's good replicates. What is missing is filled as the
campaign says. The rewards of a group begin together, so that its baseline sees all siblings; after that each fact makes
a new revision, and what did not change makes none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlmodel import Session, col, func, select

from aliquot.campaigns.context import Context, design_of
from aliquot.domain import Design, ExperimentState, Objective, Outcome, Quality, RewardStatus
from aliquot.ledger import DesignRow, ExperimentRow, MeasurementRow, ProposalRow, RewardRow, VerdictRow

LAST = (ExperimentState.COMPLETED, ExperimentState.FAILED)


@dataclass
class Known:
    """What is known of one design."""

    values: dict[str, float] = field(default_factory=dict)
    """By target name; NaN is a reported lab failure."""
    errors: dict[str, float] = field(default_factory=dict)
    """Standard error of an assay's mean, where the lab gave one."""
    returned: dict[str, float] = field(default_factory=dict)
    """Fraction of an assay's declared replicates that are in."""
    retracted: bool = False
    """Something was taken back, and nothing of that assay is left."""
    ended: bool = False
    """No more is to come."""


@dataclass(frozen=True)
class Valued:
    """A reward before it gets its revision."""

    status: RewardStatus
    value: float | None
    uncertainty: float | None
    completeness: float


def known_of(context: Context, session: Session, keys: Iterable[str]) -> dict[str, Known]:
    """What the ledger knows of each design: verdict scores and assay means, newest revision of each replicate only."""
    keys = sorted(set(keys))
    known = {key: Known() for key in keys}
    scores = select(VerdictRow).where(
        VerdictRow.campaign_id == context.campaign_id,
        col(VerdictRow.design_key).in_(keys),
        col(VerdictRow.score) != None,  # noqa: E711
    )
    for verdict in session.exec(scores.order_by(col(VerdictRow.id))):
        known[verdict.design_key].values[verdict.verifier] = verdict.score  # type: ignore[assignment]
    query = (
        select(ExperimentRow, MeasurementRow)
        .join(MeasurementRow, isouter=True)
        .where(ExperimentRow.campaign_id == context.campaign_id, col(ExperimentRow.design_key).in_(keys))
        .order_by(col(ExperimentRow.id), col(MeasurementRow.revision))
    )
    stored = context.spec.rewarding.late == "store"
    replicates: dict[str, dict[tuple, MeasurementRow]] = defaultdict(dict)
    failed = set()
    for experiment, row in session.exec(query):
        known[experiment.design_key].ended |= experiment.state in LAST
        if experiment.outcome == Outcome.LAB_FAILURE and not (is_late(experiment) and stored):
            failed.add(experiment.design_key)
        if row is not None and not (row.late and stored):
            replicates[experiment.design_key][(experiment.id, row.assay, row.replicate)] = row
    declared = {assay.name: assay.replicates for assay in context.description.assays}
    for key, rows in replicates.items():
        by_assay: dict[str, list[MeasurementRow]] = defaultdict(list)
        for row in rows.values():
            by_assay[row.assay].append(row)
        for assay, found in by_assay.items():
            good = [row for row in found if not row.retracted and row.quality != Quality.FAILED]
            if good:
                values = np.array([row.value for row in good], dtype=float)
                deviation = [row.standard_error for row in good if row.standard_error is not None]
                known[key].values[assay] = float(values.mean())
                if len(deviation) == len(good):
                    known[key].errors[assay] = float(np.sqrt(np.square(deviation).sum()) / len(good))
            elif any(row.quality == Quality.FAILED and not row.retracted for row in found):
                known[key].values[assay] = math.nan
            else:
                known[key].retracted = True
                continue
            standing = declared.get(assay, 1) if not good else sum(not row.retracted for row in found)
            known[key].returned[assay] = min(1.0, standing / declared.get(assay, 1))
    for key in failed:
        for assay in context.objective.assays:
            known[key].values.setdefault(assay, math.nan)
            known[key].returned.setdefault(assay, 1.0)
    return known


def valued(context: Context, designs: Sequence[Design], known: Sequence[Known]) -> list[Valued]:
    """The reward of each design from what is known of it, as the campaign treats what is missing."""
    objective, missing = context.objective, context.spec.rewarding.missing
    wanted = {target.name for target in objective.targets}
    complete = [wanted <= set(one.values) for one in known]
    filled: dict[int, tuple[float, float]] = {}
    incomplete = [i for i, whole in enumerate(complete) if not whole]
    if missing == "impute" and incomplete and context.surrogate.ready:
        mean, sd = context.surrogate.predict([designs[i] for i in incomplete], [known[i].values for i in incomplete])
        filled = {i: (float(m), float(s)) for i, m, s in zip(incomplete, mean, sd, strict=True)}
    results = []
    for i, one in enumerate(known):
        measured = [a for a in objective.assays if a in one.returned]
        completeness = _completeness(objective, one)
        status = RewardStatus.PARTIAL if measured else RewardStatus.PENDING
        if complete[i] and (one.ended or completeness > 1 - 1e-9):
            status = RewardStatus.FINAL
        elif one.retracted and not measured:
            status = RewardStatus.RETRACTED
        value: float | None = None
        uncertainty: float | None = None
        if complete[i] and (missing != "wait" or status is RewardStatus.FINAL):
            value, uncertainty = float(objective.value(one.values)), _spread(objective, one)
        elif i in filled:
            value, uncertainty = filled[i]
        elif missing == "renormalise" and measured:
            rest = Objective(
                targets=tuple(t for t in objective.targets if t.name in one.values),
                combine=objective.combine,
                floor=objective.floor,
            )
            value = float(rest.value(one.values))
        results.append(Valued(status, value, uncertainty, completeness))
    return results


def floor_of(context: Context) -> Valued:
    """The reward of an invalid or refused design: the objective's declared floor, known for sure."""
    return Valued(RewardStatus.FINAL, context.objective.floor, 0.0, 1.0)


def revise(context: Context, session: Session, rewards: dict[int, Valued], at: float) -> int:
    """Append a revision for each proposal (by id) whose reward changed; returns how many did."""
    newest = (
        select(RewardRow.proposal_id, func.max(RewardRow.id))
        .where(col(RewardRow.proposal_id).in_(rewards))
        .group_by(col(RewardRow.proposal_id))
    )
    ids = dict(session.exec(newest).all())
    before = {
        row.proposal_id: row for row in session.exec(select(RewardRow).where(col(RewardRow.id).in_(ids.values())))
    }
    written = 0
    for proposal_id, reward in rewards.items():
        old, status = before.get(proposal_id), reward.status
        if old is not None:
            same = (old.value, old.uncertainty) == (reward.value, reward.uncertainty)
            if same and old.completeness == reward.completeness and old.status in (status, RewardStatus.REVISED):
                continue
            if status is RewardStatus.FINAL and old.status in (RewardStatus.FINAL, RewardStatus.REVISED):
                status = RewardStatus.REVISED
        session.add(
            RewardRow(
                campaign_id=context.campaign_id,
                proposal_id=proposal_id,
                status=status,
                value=reward.value,
                objective_version=context.campaign(session).objective_version,
                revision=old.revision + 1 if old else 0,
                uncertainty=reward.uncertainty,
                completeness=reward.completeness,
                created_at=at,
            )  # fmt: skip
        )
        written += 1
    return written


def revise_designs(context: Context, session: Session, keys: Iterable[str], at: float) -> int:
    """New revisions for every proposal whose design is among `keys` and whose experiment has news."""
    keys = sorted(set(keys))
    if not keys:
        return 0
    query = (
        select(ProposalRow.id, DesignRow)
        .join(DesignRow)
        .where(
            ProposalRow.campaign_id == context.campaign_id,
            col(ProposalRow.design_key).in_(keys),
            col(ProposalRow.state).in_(("selected", "credited")),
        )
    )
    named: dict[str, list[int]] = defaultdict(list)
    designs: dict[str, Design] = {}
    for proposal_id, row in session.exec(query.order_by(col(ProposalRow.id))):
        named[row.key].append(proposal_id)  # type: ignore[arg-type]
        designs[row.key] = design_of(row)
    known = known_of(context, session, named)
    order = list(named)
    values = valued(context, [designs[k] for k in order], [known[k] for k in order])
    return revise(context, session, {p: v for k, v in zip(order, values, strict=True) for p in named[k]}, at)


def is_late(experiment: ExperimentRow) -> bool:
    """Whether the lab's last word came after the campaign had stopped waiting."""
    return experiment.expires_at is not None and (experiment.ended_at or 0.0) >= experiment.expires_at


def _completeness(objective: Objective, known: Known) -> float:
    total = sum(t.weight for t in objective.targets)
    have = 0.0
    for target in objective.targets:
        if target.name in known.values:
            have += target.weight * (known.returned.get(target.name, 0.0) if target.assay else 1.0)
    return have / total


def _spread(objective: Objective, known: Known) -> float | None:
    """One standard deviation of the objective under the assays' standard errors, to first order, if any is known."""
    if not known.errors:
        return None
    variance = 0.0
    for name, error in known.errors.items():
        if name in {t.name for t in objective.targets}:
            up = objective.value(known.values | {name: known.values[name] + error})
            down = objective.value(known.values | {name: known.values[name] - error})
            variance += float((up - down) / 2) ** 2
    return math.sqrt(variance)
