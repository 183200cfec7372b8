"""A whole campaign, small enough for a test: DNA against one noisy assay."""

import yaml

from aliquot.campaigns.load import parse

SPEC = {
    "name": "tiny",
    "space": {"type": "sequence", "alphabet": "dna", "min_length": 3, "max_length": 8},
    "objective": {"targets": [{"assay": "binding", "desirability": {"type": "ramp", "low": 0.0, "high": 1.0}}]},
    "lab": {
        "type": "simulated",
        "failure": 0.05,
        "assays": [
            {
                "name": "binding", "unit": "fraction", "truth": {"type": "motif", "motifs": ["GAT", "C.C"]},
                "latency": {"type": "lognormal", "median_hours": 12, "sigma": 0.5}, "replicates": 2, "noise": 0.05,
                "dropout": 0.05, "revision": 0.1,
            }
        ],
    },
    "budget": {"experiments": 20},
    "proposing": {"group_size": 12, "max_in_flight": 12},
    "selecting": {"per_round": 4, "minimum_observations": 6},
    "learning": {"batch_size": 12, "checkpoint_every": 3},
    "runtime": {"deterministic": True, "round_hours": 4, "timeout_hours": 100},
}  # fmt: skip


def spec(**sections):
    """The tiny campaign with sections changed, validated."""
    data = yaml.safe_load(yaml.safe_dump(SPEC))
    for name, change in sections.items():
        data[name] = data[name] | change if isinstance(change, dict) and isinstance(data.get(name), dict) else change
    return parse(data, "test")
