"""What every benchmark prints: one object with metrics, goals, seeds, machine and versions.

An interval over seeds is Student's t at 95 %. A goal is met when its metric satisfies it; nothing here rounds in its
favour.
"""

from __future__ import annotations

import math
import operator
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

import numpy as np

OPERATORS = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True)
class Goal:
    """A metric, and what was promised of it."""

    metric: str
    op: str
    goal: float


@dataclass
class Report:
    """One benchmark's result."""

    name: str
    metrics: dict[str, float] = field(default_factory=dict)
    """Flat, dotted names."""
    goals: list[Goal] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    def as_json(self) -> dict:
        return {
            "name": self.name,
            "metrics": self.metrics,
            "goals": [
                {
                    "metric": g.metric,
                    "op": g.op,
                    "goal": g.goal,
                    "value": self.metrics[g.metric],
                    "met": bool(OPERATORS[g.op](self.metrics[g.metric], g.goal)),
                }
                for g in self.goals
            ],
            "seeds": self.seeds,
            "machine": machine(),
            "versions": versions(),
        }


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """(mean, low, high): Student's t interval at 95 % over seeds; at least two values."""
    from scipy.stats import t

    array = np.asarray(values, dtype=float)
    half = t.ppf(0.975, len(array) - 1) * array.std(ddof=1) / math.sqrt(len(array))
    return float(array.mean()), float(array.mean() - half), float(array.mean() + half)


def machine() -> dict[str, str | int]:
    return {"cores": os.cpu_count() or 0, "processor": platform.machine(), "system": platform.system()}


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("aliquot", "torch", "transformers", "rdkit", "numpy", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found
