"""What a run leaves behind: one row per experiment, a summary, the resolved spec and the page.

Everything here is read from the ledger, so a folder can be written again at any time and says the same. Of each
replicate the newest revision counts; a retraction takes it out of the mean, a reported failure is NaN to the objective
and an empty cell to a reader. A desirability is that of the objective as it stands, computed by the objective itself.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sqlmodel import Session, col, func, select

from aliquot.campaigns.progress import campaign_row, dispositions, newest_rewards, progress
from aliquot.clock import DAY, HOUR
from aliquot.domain import Design, Objective, Outcome, Quality, Target
from aliquot.ledger import (
    CampaignRow,
    DesignRow,
    ExperimentRow,
    GroupRow,
    Ledger,
    MeasurementRow,
    ObjectiveRow,
    ProposalRow,
    RewardRow,
    TrajectoryRow,
    VerdictRow,
)


@dataclass
class AssayResult:
    """One assay of one experiment, over the replicates that hold."""

    unit: str
    mean: float | None = None
    """None: nothing that holds; NaN: the lab reported a failure."""
    error: float | None = None
    """Standard error of the mean: from the lab's own where every replicate has one, else from their scatter."""
    replicates: int = 0
    last_at: float = 0.0
    """Lab time of the newest word on it."""


@dataclass(eq=False)
class Record:
    """One experiment with all that the ledger joins to it."""

    experiment: ExperimentRow
    design: Design
    proposal: ProposalRow | None = None
    """The first that named the design; its prediction was made before any result."""
    policy_version: int | None = None
    sources: tuple[str, ...] = ()
    reward: RewardRow | None = None
    assays: dict[str, AssayResult] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    first_result_at: float | None = None


def records(session: Session, campaign_id: int) -> list[Record]:
    """Every experiment of a campaign, by number."""
    query = select(ExperimentRow, DesignRow).join(DesignRow).where(ExperimentRow.campaign_id == campaign_id)
    found: dict[int | None, Record] = {
        experiment.id: Record(experiment, Design(kind=design.kind, value=design.value))
        for experiment, design in session.exec(query.order_by(col(ExperimentRow.number)))
    }
    first = select(func.min(ProposalRow.id)).where(ProposalRow.campaign_id == campaign_id)
    proposals = (
        select(ProposalRow, TrajectoryRow.policy_version, RewardRow)
        .join(TrajectoryRow, col(TrajectoryRow.id) == ProposalRow.trajectory_id, isouter=True)
        .join(
            RewardRow,
            (col(RewardRow.proposal_id) == ProposalRow.id) & col(RewardRow.id).in_(newest_rewards(campaign_id)),
            isouter=True,
        )
        .where(col(ProposalRow.id).in_(first.group_by(col(ProposalRow.experiment_id))))
        .where(col(ProposalRow.experiment_id).is_not(None))
    )
    for proposal, policy_version, reward in session.exec(proposals):
        record = found[proposal.experiment_id]
        record.proposal, record.policy_version, record.reward = proposal, policy_version, reward
    sources = select(ProposalRow.experiment_id, GroupRow.source).join(GroupRow).distinct()
    sources = sources.where(ProposalRow.campaign_id == campaign_id, col(ProposalRow.experiment_id).is_not(None))
    for experiment_id, source in sorted(session.exec(sources)):
        found[experiment_id].sources += (source,)
    _measure(session, campaign_id, found)
    scores = select(VerdictRow).where(VerdictRow.campaign_id == campaign_id, col(VerdictRow.score).is_not(None))
    mine = select(ExperimentRow.design_key).where(ExperimentRow.campaign_id == campaign_id)
    scores = scores.where(col(VerdictRow.design_key).in_(mine))
    by_key: dict[str, dict[str, float]] = defaultdict(dict)
    for verdict in session.exec(scores.order_by(col(VerdictRow.id))):
        by_key[verdict.design_key][verdict.verifier] = verdict.score  # type: ignore[assignment]
    for record in found.values():
        record.scores = by_key[record.experiment.design_key]
    return list(found.values())


def _measure(session: Session, campaign_id: int, found: dict[int | None, Record]) -> None:
    """Fill in what each experiment's assays gave."""
    query = select(MeasurementRow).join(ExperimentRow).where(ExperimentRow.campaign_id == campaign_id)
    newest: dict[tuple[int, str], dict[int, MeasurementRow]] = defaultdict(dict)
    for row in session.exec(query.order_by(col(MeasurementRow.revision), col(MeasurementRow.id))):
        newest[row.experiment_id, row.assay][row.replicate] = row
        record = found[row.experiment_id]
        record.first_result_at = min(record.first_result_at or math.inf, row.received_at)
    for (experiment_id, assay), replicates in sorted(newest.items()):
        found[experiment_id].assays[assay] = _mean(list(replicates.values()))
    for record in found.values():
        if record.experiment.outcome == Outcome.LAB_FAILURE:
            for assay in record.experiment.assays:
                record.assays.setdefault(assay, AssayResult("", mean=math.nan))


def _mean(rows: Sequence[MeasurementRow]) -> AssayResult:
    result = AssayResult(rows[0].unit, last_at=max(row.received_at for row in rows))
    standing = [row for row in rows if not row.retracted]
    values = [row.value for row in standing if row.quality != Quality.FAILED and row.value is not None]
    result.replicates = n = len(values)
    errors = [row.standard_error for row in standing if row.standard_error is not None]
    if values:
        result.mean = float(np.mean(values))
        if len(errors) == n:
            result.error = float(np.sqrt(np.square(errors).sum())) / n
        elif n > 1:
            result.error = float(np.std(values, ddof=1)) / math.sqrt(n)
    elif standing:
        result.mean = math.nan
    return result


def objective_of(session: Session, campaign: CampaignRow) -> Objective:
    """The objective in force; the submitted one is version 1."""
    same = (ObjectiveRow.campaign_id == campaign.id, ObjectiveRow.version == campaign.objective_version)
    row = session.exec(select(ObjectiveRow).where(*same)).first()
    return Objective.model_validate(row.spec if row else campaign.spec["objective"])


def desirability(target: Target, value: float | None) -> float | None:
    """What one target makes of a value; NaN is a reported failure, None stays None."""
    if value is None:
        return None
    return float(Objective(targets=(target,), combine="arithmetic").value({target.name: value}))


def results(ledger: Ledger, campaign_id: int) -> list[dict[str, Any]]:
    """One row per experiment, all with the same columns.

    Units stand in brackets in the column's name (`?`: the lab has not said one yet), parameters of conditions under
    `design.`. Times are lab clock, ISO 8601 UTC, and hours since the campaign began.

    Raises:
        LookupError: the ledger has no such campaign.
    """
    with ledger.read() as session:
        campaign = campaign_row(session, campaign_id)
        objective, found = objective_of(session, campaign), records(session, campaign_id)
    units = {name: result.unit for record in found for name, result in record.assays.items() if result.unit}
    assays = list(dict.fromkeys([*objective.assays, *units]))
    return [_row(record, campaign, objective, assays, units) for record in found]


def _row(
    record: Record, campaign: CampaignRow, objective: Objective, assays: list[str], units: dict[str, str]
) -> dict[str, Any]:
    experiment, proposal, reward = record.experiment, record.proposal, record.reward
    row: dict[str, Any] = {"number": experiment.number, "design": record.design.text}
    for parameter in campaign.spec["space"].get("parameters", ()):
        unit = f" [{parameter['unit']}]" if parameter.get("unit") else ""
        row[f"design.{parameter['name']}{unit}"] = record.design.value[parameter["name"]]  # type: ignore[index,call-overload]
    row |= {
        "sources": ", ".join(record.sources),
        "policy_version": record.policy_version,
        "selection_probability": proposal.selection_probability if proposal else None,
        "predicted_mean": proposal.predicted_mean if proposal else None,
        "predicted_sd": proposal.predicted_sd if proposal else None,
    }
    targets = {target.name: target for target in objective.targets}
    for assay in assays:
        result, unit = record.assays.get(assay, AssayResult("")), units.get(assay, "?")
        row[f"{assay} [{unit}]"] = None if result.mean is None or math.isnan(result.mean) else result.mean
        row[f"{assay}_standard_error [{unit}]"] = result.error
        row[f"{assay}_replicates"] = result.replicates
        if assay in targets:
            row[f"{assay}_desirability"] = desirability(targets[assay], result.mean)
    for name in objective.scores:
        row[f"{name}_score"] = record.scores.get(name)
        row[f"{name}_desirability"] = desirability(targets[name], record.scores.get(name))
    measured = any(result.replicates for result in record.assays.values()) or experiment.outcome == Outcome.LAB_FAILURE
    row |= {
        "objective": reward.value if reward and measured else None,
        "objective_uncertainty": reward.uncertainty if reward and measured else None,
        "imputed": bool(reward and measured and reward.completeness < 1 and reward.value is not None),
        "completeness": reward.completeness if reward else None,
        "reward_status": reward.status if reward else None,
        "state": experiment.state,
        "outcome": experiment.outcome,
        "reason": experiment.reason,
    }
    moments = {
        "selected": experiment.selected_at,
        "dispatched": experiment.dispatched_at,
        "first_result": record.first_result_at,
        "ended": experiment.ended_at,
    }
    row |= {f"{name}_at": None if at is None else iso(at) for name, at in moments.items()}
    row |= {f"{name}_hours": None if at is None else (at - campaign.created_at) / HOUR for name, at in moments.items()}
    return row


@dataclass(frozen=True)
class Round:
    """One group of proposals."""

    number: int
    at: float
    proposals: int
    valid: int
    rewarded: int
    """Proposals whose reward has a value."""
    mean_reward: float | None
    """Mean of those values as they stand now: measured, estimated, or the floor."""


def rounds(session: Session, campaign_id: int) -> list[Round]:
    """Every group of a campaign, by number."""
    proposals = (
        select(
            GroupRow.number, GroupRow.created_at, func.count(), func.count().filter(col(ProposalRow.state) != "invalid")
        )
        .join(ProposalRow)
        .where(GroupRow.campaign_id == campaign_id)
        .group_by(col(GroupRow.id))
        .order_by(col(GroupRow.number))
    )
    rewards = (
        select(GroupRow.number, func.count(col(RewardRow.value)), func.avg(col(RewardRow.value)))
        .join(ProposalRow, col(ProposalRow.group_id) == GroupRow.id)
        .join(RewardRow, col(RewardRow.proposal_id) == ProposalRow.id)
        .where(col(RewardRow.id).in_(newest_rewards(campaign_id)))
        .group_by(col(GroupRow.id))
    )
    valued = {number: (count, mean) for number, count, mean in session.exec(rewards)}
    return [Round(*row, *valued.get(row[0], (0, None))) for row in session.exec(proposals)]


def summary(ledger: Ledger, campaign_id: int) -> dict[str, Any]:
    """The run in one JSON object.

    Raises:
        LookupError: the ledger has no such campaign.
    """
    now = progress(ledger, campaign_id).model_dump(mode="json")
    with ledger.read() as session:
        campaign, groups = campaign_row(session, campaign_id), rounds(session, campaign_id)
        disposed = dispositions(session, campaign_id)
    quarters = [list(part) for part in np.array_split(np.array(groups, dtype=object), 4)]
    return {
        "name": campaign.name,
        "state": campaign.state,
        "reason": campaign.reason,
        "seed": campaign.spec.get("seed"),
        "best": now["best"],
        "experiments": now["experiments"],
        "budget": {line.pop("unit"): line for line in now["budget"]},
        "proposals": now["proposals"],
        "validity_by_quarter": [_ratio(sum(g.valid for g in q), sum(g.proposals for g in q)) for q in quarters],
        "rewards": {
            "mean_by_quarter": [
                _ratio(sum(g.mean_reward * g.rewarded for g in q if g.rewarded), sum(g.rewarded for g in q))
                for q in quarters
            ],
            "mean_by_round": [g.mean_reward for g in groups],
        },
        "learning": {
            "policy_version": now["policy_version"],
            "steps": now["trainer_step"],
            "backlog": now["backlog"],
            "dispositions": [entry._asdict() for entry in disposed],
            "applied": sum(entry.applied for entry in disposed),
            "masked": sum(entry.masked for entry in disposed),
            "metrics": now["metrics"],
        },
        "versions": {name: _version(name) for name in ("aliquot", "torch", "rdkit")},
        "times": {
            "began_at": iso(campaign.created_at),
            "lab_clock": iso(campaign.clock),
            "lab_days": (campaign.clock - campaign.created_at) / DAY,
        },
    }


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Rows with equal keys as CSV, atomically; numbers to 8 significant digits, None as an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else ["number"], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: f"{value:.8g}" if isinstance(value, float) else value for key, value in row.items()})
    write_atomically(path, text.getvalue())


def write_atomically(path: Path, text: str) -> None:
    """The old file or the new one stands under `path` at any moment, never a part of one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    partial.write_text(text, encoding="utf-8", newline="")
    partial.replace(path)


def iso(at: float) -> str:
    """Unix seconds as ISO 8601 UTC, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
