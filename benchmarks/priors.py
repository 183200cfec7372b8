"""How good are the shipped priors? Samples at temperature 1 without truncation, as the model cards count them."""

from __future__ import annotations

from collections.abc import Callable

from aliquot.domain import MoleculeSpace
from aliquot.trainer.policies import load_policy, shipped_policies
from aliquot.trainer.pretraining.evaluate import evaluate
from benchmarks.harness import Goal, Report

SAMPLES, SEED = 10_000, 1
"""Not the seed of the model cards: these are other samples."""


def run(full: bool, say: Callable[[str], None]) -> Report:
    report = Report("priors", seeds=[SEED])
    samples = SAMPLES * (3 if full else 1)
    for name in shipped_policies():
        policy = load_policy(name, MoleculeSpace(), None, SEED)
        found = evaluate(policy, set(), samples, SEED)
        report.metrics |= {f"{name}.validity": found.validity, f"{name}.uniqueness": found.uniqueness}
        report.goals += [Goal(f"{name}.validity", ">=", 0.95), Goal(f"{name}.uniqueness", ">=", 0.99)]
        if found.experts:
            report.metrics[f"{name}.dead_experts"] = float(sum(len(layer.dead) for layer in found.experts))
            report.metrics[f"{name}.largest_imbalance"] = max(layer.imbalance for layer in found.experts)
            report.goals.append(Goal(f"{name}.dead_experts", "<=", 0.0))
        say(f"{name}: {found.validity:.2%} valid, {found.uniqueness:.2%} unique of {samples:,}")
    return report
