"""What every test has: one thread a process, no model hub, and a campaign small enough to run in seconds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

# Before torch or numpy are imported: on shared cores two OpenMP threads are much slower than one.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the checkout."""
    return Path(__file__).parent.parent


@pytest.fixture
def small_campaign() -> dict[str, Any]:
    """Conditions, a fresh policy of two thousand parameters, a quick simulated lab, 12 experiments."""
    parameters = [
        {"type": "categorical", "name": "solvent", "choices": ["toluene", "dioxane", "DMF"]},
        {"type": "continuous", "name": "temperature", "unit": "degC", "low": 40, "high": 120},
        {"type": "continuous", "name": "time", "unit": "h", "low": 1, "high": 24, "levels": 24},
    ]
    yields = {
        "name": "yield",
        "unit": "%",
        "truth": {"type": "surface", "parameters": parameters, "seed": 1},
        "latency": {"type": "lognormal", "median_hours": 8},
        "noise": 1.0,
    }
    return {
        "name": "small",
        "space": {"type": "conditions", "parameters": parameters},
        "objective": {
            "targets": [{"assay": "yield", "desirability": {"type": "ramp", "low": 0, "high": 100}}],
        },
        "lab": {"type": "simulated", "assays": [yields]},
        "budget": {"experiments": 12},
        "policy": {
            "architecture": {
                "type": "dense", "hidden_size": 16, "layers": 1, "heads": 2, "key_value_heads": 1,
                "feed_forward_size": 16,
            },
        },
        "proposing": {"group_size": 8, "max_in_flight": 8},
        "selecting": {"per_round": 4, "minimum_observations": 4},
        "learning": {"batch_size": 8},
        "runtime": {"deterministic": True},
    }  # fmt: skip


@pytest.fixture
def small_file(small_campaign: dict[str, Any], tmp_path: Path) -> Path:
    """The same as a YAML file in a folder of its own."""
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small_campaign, sort_keys=False))
    return path
