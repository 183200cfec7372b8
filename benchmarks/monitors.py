"""Do the monitors raise when they should, and only then?

40 sound campaigns are run, short and real: reaction conditions and every fourth time peptides, a small policy made
fresh for them, dense or a mixture of experts, a simulated laboratory, a trainer that learns to the end. Every step's
metrics, and what is new in the ledger, go through the default monitors; a campaign with any alarm in its event log is a
false alarm. Then each campaign's readings are repeated with one trouble in them, and the monitor that the trouble is
for must raise. Last, campaigns are run that are not sound: thirty times the learning rate, and nothing that holds the
policy to the prior. Each must raise something.

Quick: 72 experiments a campaign. Full: 200.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import torch
from sqlmodel import col, select

from aliquot.campaigns.load import parse
from aliquot.campaigns.run import CampaignRun
from aliquot.ledger import EventRow
from aliquot.trainer.monitors import Alarm, MonitorsConfig, NewestDesigns, Watch
from benchmarks.harness import Goal, Report

CAMPAIGNS = 40
QUICK, FULL = 72, 200
"""Experiments of a campaign."""
RECKLESS = (0, 4)
"""Seeds of the campaigns that are not sound: peptides."""
SOUND_LEARNING = {"learning_rate": 1e-3, "batch_size": 16, "routing": {"balance": 0.05}}
"""With the loss that keeps experts in use: without it such small mixtures do lose some, and the monitor says so."""
RECKLESS_LEARNING = SOUND_LEARNING | {"learning_rate": 3e-2, "anchor": {"type": "none"}}
SHAPES = (
    {"type": "dense", "hidden_size": 32, "layers": 2, "feed_forward_size": 64},
    {"type": "moe", "hidden_size": 32, "layers": 2, "experts": 4, "experts_per_token": 2, "feed_forward_size": 32},
)
PEPTIDES = {"type": "sequence", "alphabet": "protein", "min_length": 8, "max_length": 16}
PEPTIDE_ASSAYS = {
    "binding": {"type": "motif", "motifs": ["RGD", "W..K"], "charge": 2.0},
    "expression": {"type": "motif", "motifs": ["AA", "L.L"]},
}
PARAMETERS = {
    "parameters": [
        {"type": "categorical", "name": "solvent", "choices": ["toluene", "dioxane", "DMF", "ethanol"]},
        {"type": "categorical", "name": "base", "choices": ["K2CO3", "Cs2CO3", "K3PO4", "DIPEA"]},
        {"type": "continuous", "name": "temperature", "unit": "degC", "low": 40, "high": 120, "levels": 17},
        {"type": "discrete", "name": "catalyst", "unit": "mol%", "values": [0.5, 1, 2, 5, 10]},
    ]
}
FORBIDDEN = {"forbidden": [{"solvent": "ethanol", "base": "DIPEA"}]}

Trouble = dict[str, Callable[[float], float]]
"""What becomes of a reading's numbers, by name."""
TROUBLES: dict[str, Trouble] = {
    "non_finite": {"gradient_norm": lambda _: math.nan},
    "gradient_spike": {"gradient_norm": lambda norm: 1000 * norm},
    "precision": {"kl_fresh": lambda _: 0.05},
    "divergence": {"ess_token": lambda _: 0.1},
    "entropy_collapse": {"entropy": lambda entropy: 0.05 * entropy},
    "dead_experts": {"router/layer0/dead_experts": lambda _: 1.0},
    "mode_collapse": {"duplicate_share": lambda _: 0.9},
    "validity_drift": {"validity": lambda _: 0.4},
    "size_drift": {"size": lambda size: 2 * size},
    "proxy_gap": {"proxy_gap": lambda _: 0.7},
    "component_dominance": {"component/binding": lambda _: 1.0, "component/expression": lambda _: 0.0},
    "replicate_disagreement": {"replicate_disagreement": lambda _: 4.0},
}
"""By the monitor that each is for."""
UNSAID = {"kl_fresh": 0.0, "router/layer0/dead_experts": 0.0}
"""What a dense policy, or a step without samples of the newest version, does not say of itself."""


def run(full: bool, say: Callable[[str], None]) -> Report:
    report = Report("monitors", seeds=list(range(CAMPAIGNS)))
    experiments = FULL if full else QUICK
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as p:
        runs = _runs(p, experiments, SOUND_LEARNING, report.seeds, say)
        reckless = _runs(p, QUICK, RECKLESS_LEARNING, RECKLESS, say)

    report.metrics["steps"] = sum(len(readings) for readings, _ in runs) / len(runs)
    report.metrics["false_alarm_share"] = sum(bool(alarms) for _, alarms in runs) / len(runs)
    for name, trouble in TROUBLES.items():
        detected = [found for readings, _ in runs if (found := _detects(name, trouble, readings)) is not None]
        report.metrics[f"{name}.false_alarm_share"] = sum(name in alarms for _, alarms in runs) / len(runs)
        report.metrics[f"{name}.detected_share"] = sum(detected) / len(detected)
    report.metrics["detected_share"] = min(report.metrics[f"{name}.detected_share"] for name in TROUBLES)
    report.metrics["reckless.detected_share"] = sum(bool(alarms) for _, alarms in reckless) / len(reckless)
    report.goals = [
        Goal("false_alarm_share", "<=", 0.05),
        Goal("detected_share", ">=", 1.0),
        Goal("reckless.detected_share", ">=", 1.0),
    ]
    return report


def _runs(
    pool: ProcessPoolExecutor, experiments: int, learning: dict, seeds: Sequence[int], say: Callable[[str], None]
) -> list[tuple[list[dict[str, float]], set[str]]]:
    """Campaigns side by side: of each what `_run` says."""
    found = []
    for seed, (readings, alarms) in zip(seeds, pool.map(partial(_run, experiments, learning), seeds), strict=True):
        found.append((readings, alarms))
        say(f"campaign {seed}: {len(readings)} steps, {', '.join(sorted(alarms)) or 'silent'}")
    return found


def _run(experiments: int, learning: dict, seed: int) -> tuple[list[dict[str, float]], set[str]]:
    """One campaign: what its monitors have seen, step by step, and which of them raised."""
    readings: list[dict[str, float]] = []
    spec = parse(_spec(experiments, learning, seed), "benchmarks.monitors")
    with tempfile.TemporaryDirectory() as folder, CampaignRun.create(spec, Path(folder) / "run") as campaign:
        newest, seen = NewestDesigns(campaign.campaign_id), 0

        def look(_) -> None:
            nonlocal seen
            with campaign.ledger.read() as session:
                if events := session.exec(_events("trained").where(col(EventRow.sequence) > seen)).all():
                    readings.extend(dict(event.data) for event in events)
                    readings[-1] |= newest.follow(session)
                    seen = events[-1].sequence

        campaign.run(look, threading.Event())
        with campaign.ledger.read() as session:
            return readings, {event.data["monitor"] for event in session.exec(_events("alarm"))}


def _events(kind: str):
    return select(EventRow).where(EventRow.kind == kind).order_by(col(EventRow.sequence))


def _spec(experiments: int, learning: dict, seed: int) -> dict:
    """Peptides that bind and are expressed, or the conditions of a reaction; a dense policy, or one of experts."""
    peptides = seed % 4 == 0
    assays = PEPTIDE_ASSAYS if peptides else {"yield": {"type": "surface", "seed": seed, **PARAMETERS}}
    assay = {
        "unit": "fraction", "latency": {"type": "lognormal", "median_hours": 24, "sigma": 0.4}, "replicates": 2,
        "noise": 0.03, "dropout": 0.02,
    }  # fmt: skip
    wanted = {"direction": "maximise", "desirability": {"type": "ramp", "low": 0.0, "high": 1.0}}
    return {
        "name": "monitors",
        "seed": seed,
        "space": PEPTIDES if peptides else {"type": "conditions", **PARAMETERS, **FORBIDDEN},
        "objective": {"targets": [{"assay": name} | wanted for name in assays]},
        "lab": {
            "type": "simulated", "seed": seed, "failure": 0.02,
            "assays": [{"name": name, "truth": truth} | assay for name, truth in assays.items()],
        },
        "budget": {"experiments": experiments},
        "policy": {"init": "fresh", "architecture": SHAPES[seed // 4 % 2]},
        "proposing": {"group_size": 16, "max_in_flight": 48},
        "selecting": {"per_round": 5, "acquisition": "ucb", "exploration": 0.25, "minimum_observations": 8},
        "learning": learning,
        "runtime": {"deterministic": True, "round_hours": 8},
    }  # fmt: skip


def _alarms(readings: list[dict[str, float]]) -> list[Alarm]:
    watch, found = Watch(MonitorsConfig()), []
    for step, reading in enumerate(readings, 1):
        found += watch.before(step, reading) + watch.after(step, reading)
    return found


def _detects(name: str, trouble: Trouble, readings: list[dict[str, float]]) -> bool | None:
    """Whether the monitor raises when the run is repeated twice with the trouble in it, and not in the run itself; None
    when the run has no such numbers: conditions have no size, and a single target dominates nothing."""
    sound = [UNSAID | reading for reading in readings]
    if not all(any(metric in reading for reading in sound) for metric in trouble):
        return None
    troubled = [r | {name: change(r[name]) for name, change in trouble.items() if name in r} for r in sound]
    steps = [alarm.step for alarm in _alarms(sound + 2 * troubled) if alarm.monitor == name]
    return bool(steps) and min(steps) > len(readings)
