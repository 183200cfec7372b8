"""The page: it answers, in this order, is it all right, what is the best, what is it waiting for, does it need me.

Every card's title is a sentence with the number in it, and what stands below is its evidence.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from sqlmodel import Session

from aliquot.campaigns import results as leavings
from aliquot.campaigns.baseline import Band, best_so_far
from aliquot.campaigns.progress import WHOLE, Progress, campaign_row, progress
from aliquot.campaigns.report import charts, history, molecules
from aliquot.clock import DAY
from aliquot.domain import CampaignState, ExperimentState
from aliquot.ledger import CampaignRow, Ledger

TOP = 12
LEARNING: tuple[tuple[str, str, charts.Limits], ...] = (
    ("kl_k3", "Mismatch KL(μ‖π), nats per token", (0.0, None)),
    ("ess", "Effective sample size, share of the batch", (0.0, 1.02)),
    ("entropy", "Entropy of the policy, nats per token", (0.0, None)),
)
"""(metric of the trainer, title, limits)."""


def render(ledger: Ledger, campaign_id: int, folder: Path, baseline: np.ndarray | None = None) -> str:
    """The page of a campaign as one HTML document.

    Args:
        folder: where the run stands; the commands that go on with it name it.
        baseline: objective values of designs taken at random, [n], or None.

    Raises:
        LookupError: the ledger has no such campaign.
    """
    now = progress(ledger, campaign_id)
    with ledger.read() as session:
        campaign = campaign_row(session, campaign_id)
        found, objective = leavings.records(session, campaign_id), leavings.objective_of(session, campaign)
        units = {name: result.unit for record in found for name, result in record.assays.items() if result.unit}
        assays = list(dict.fromkeys([*objective.assays, *units]))
        troubles = history.troubles(session, campaign_id)
        whole = _whole(found)
        random = best_so_far(baseline, now.experiments.budget) if baseline is not None and len(baseline) else None
        page = {
            "now": now,
            "days": now.elapsed_seconds / DAY,
            "seed": campaign.spec.get("seed", 0),
            "headline": _headline(now, whole, random),
            "waiting": _waiting(now),
            "needs": _needs(now, found, troubles),
            "best": _best_charts(campaign, found, whole, random),
            "top": _top(whole, assays),
            "kind": campaign.spec["space"]["type"],
            "parameters": campaign.spec["space"].get("parameters", []),
            "assays": assays,
            "units": units,
            "learning": _learning(session, campaign_id),
            "delays": _delays(session, campaign_id, assays),
            "tiers": _tiers(session, campaign_id),
            "troubles": troubles,
            "unfinished": sum(ExperimentState(r.experiment.state).terminal for r in found) - len(whole),
            "commands": _commands(now, folder, campaign.spec.get("seed", 0)),
        }
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"number": number, "count": lambda n: f"{n:,.0f}", "iso": leavings.iso}
    return environment.get_template("report.html.j2").render(page)


def number(value: float | None, digits: int = 3) -> str:
    """For a reader: so many significant digits, a true minus sign, a dash for nothing."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.{digits}g}".replace("-", "−")


def _whole(found: Sequence[leavings.Record]) -> list[leavings.Record]:
    """Experiments with a complete reward, in order of completion."""
    done = [r for r in found if r.reward is not None and r.reward.status in WHOLE and r.reward.value is not None]
    return sorted(done, key=lambda r: (_completed_at(r), r.experiment.number))


def _completed_at(record: leavings.Record) -> float:
    last = max((result.last_at for result in record.assays.values()), default=record.experiment.selected_at)
    return record.experiment.ended_at or last


def _headline(now: Progress, whole: Sequence[leavings.Record], random: Band | None) -> str:
    if now.best is None or not whole:
        return f"No experiment is complete yet, of {now.experiments.budget:,}"
    text = f"Best {number(now.best.value)} after {len(whole):,} of {now.experiments.budget:,} experiments"
    if random is None:
        return text
    k = min(len(whole), len(random.mean))
    band = f"{number(random.low[k - 1])} to {number(random.high[k - 1])}"
    return f"{text}; {k:,} at random would give {number(random.mean[k - 1])} (90 %: {band})"


def _waiting(now: Progress) -> str:
    counts = now.experiments
    parts = [(counts.waiting, "to be sent"), (counts.out, "out"), (counts.partly_back, "partly back")]
    said = " · ".join(f"{n:,} {what}" for n, what in parts if n)
    return said or "nothing: every experiment has ended"


def _needs(now: Progress, found: Sequence[leavings.Record], troubles: Sequence[history.Trouble]) -> list[str]:
    needs = []
    if now.state in (CampaignState.BLOCKED, CampaignState.FAILED):
        needs.append(f"it is {now.state}: {now.reason or 'no reason was recorded'}")
    if n := sum(r.experiment.state == ExperimentState.AWAITING_APPROVAL for r in found):
        needs.append(f"{n:,} experiments wait for approval")
    if n := sum(r.experiment.state == ExperimentState.UNCERTAIN for r in found):
        needs.append(f"{n:,} experiments may or may not have reached the lab")
    words = {
        "delivery set aside": "deliveries were set aside",
        "lab error": "errors of the lab, the last",
        "proposal undecided": "proposals could not be judged",
    }
    return needs + [f"{t.number:,} {words[t.what]}: {t.why}" for t in troubles if t.what in words]


def _best_charts(
    campaign: CampaignRow, found: Sequence[leavings.Record], whole: Sequence[leavings.Record], random: Band | None
) -> list[Markup]:
    """By experiments wide, the same narrow, by lab days narrow."""
    values = [float(r.reward.value) for r in whole]  # type: ignore[arg-type,union-attr]
    spreads = [r.reward.uncertainty for r in whole]  # type: ignore[union-attr]
    out = [
        (r.reward.value, r.reward.uncertainty or 0.0)
        for r in found
        if not ExperimentState(r.experiment.state).terminal and r.reward is not None and r.reward.value is not None
        if r not in whole
    ]  # fmt: skip
    after = [(len(whole) + i, *estimate) for i, estimate in enumerate(out, start=1)]
    count = [float(i) for i in range(1, len(whole) + 1)]
    days = [(_completed_at(r) - campaign.created_at) / DAY for r in whole]
    shapes: list[tuple[list[float], list, str, float]] = [
        (count, after, "experiments, in order of completion", charts.WIDE),
        (count, after, "experiments completed", charts.NARROW),
        (days, [], "lab days", charts.NARROW),
    ]
    return [Markup(charts.best_so_far(x, values, spreads, random, p, label, w)) for x, p, label, w in shapes]


def _top(whole: Sequence[leavings.Record], assays: Sequence[str]) -> list[dict[str, Any]]:
    ranked = sorted(whole, key=lambda r: (-r.reward.value, r.experiment.number))  # type: ignore[operator,union-attr]
    distinct: dict[str, leavings.Record] = {}
    for record in ranked:
        distinct.setdefault(record.design.key, record)
    best = list(distinct.values())[:TOP]
    drawings = molecules.draw([r.design.text for r in best if r.design.kind == "molecule"])
    return [
        {
            "design": r.design,
            "drawing": Markup(drawings[i]) if drawings else None,
            "value": r.reward.value,  # type: ignore[union-attr]
            "uncertainty": r.reward.uncertainty,  # type: ignore[union-attr]
            "results": {assay: r.assays.get(assay) for assay in assays},
            "number": r.experiment.number,
        }
        for i, r in enumerate(best)
    ]


def _learning(session: Session, campaign_id: int) -> dict[str, Any] | None:
    groups, metrics = leavings.rounds(session, campaign_id), history.trained(session, campaign_id)
    if len(groups) < 2:
        return None
    rewards = [math.nan if g.mean_reward is None else g.mean_reward for g in groups]
    quarter = math.ceil(len(groups) / 4)
    drawn = [
        charts.series("Mean reward of all proposals", rewards, "round", (0.0, None)),
        charts.series("Valid proposals, %", [100 * g.valid / g.proposals for g in groups], "round", (None, 101)),
    ]
    for name, title, limits in LEARNING:
        if name in metrics:
            drawn.append(charts.series(title, metrics[name], "training step", limits))
    last = groups[-quarter:]
    return {
        "charts": [Markup(svg) for svg in drawn],
        "rounds": len(groups),
        "first": _known_mean(rewards[:quarter]),
        "last": _known_mean(rewards[-quarter:]),
        "valid": 100 * sum(g.valid for g in last) / sum(g.proposals for g in last),
    }


def _known_mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else None


def _delays(session: Session, campaign_id: int, assays: Sequence[str]) -> dict[str, Any] | None:
    hours = history.delays(session, campaign_id)
    every = [h for values in hours.values() for h in values]
    if not every:
        return None
    chart = Markup(charts.delay_histogram(hours, assays))
    return {"chart": chart, "median": float(np.median(every)), "most": max(every)}


def _tiers(session: Session, campaign_id: int) -> dict[str, Any] | None:
    steps, counts = history.tiers(session, campaign_id)
    if not steps:
        return None
    totals = {tier: sum(values) for tier, values in counts.items()}
    return {"chart": Markup(charts.staleness(steps, counts)), "totals": totals, "all": sum(totals.values())}


def _commands(now: Progress, folder: Path, seed: int) -> list[tuple[str, str]]:
    """(what for, the exact command)."""
    here = shlex.quote(str(folder))
    commands = [
        ("Do the same again with another seed", f"aliquot run {here}/config.yaml --set seed={seed + 1}"),
        ("Look at every training metric", f"tensorboard --logdir {here}/tensorboard"),
    ]
    if now.state in (CampaignState.PAUSED, CampaignState.RUNNING, CampaignState.FAILED, CampaignState.BLOCKED):
        commands.insert(0, ("Go on from exactly here", f"aliquot run --resume {here}"))
    return commands
