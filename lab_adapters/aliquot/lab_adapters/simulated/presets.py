"""Whole labs by name, as the plain values a person could write in the campaign instead.

`druglike`: what a medicinal chemist waits for. Potency is similarity to erlotinib (an EGFR inhibitor), put on a pIC50
scale on which 2,000 random ZINC molecules give 5.0 ± 0.42 (none above 6.5) and erlotinib itself 9.
"""

from __future__ import annotations

from typing import Any

ERLOTINIB = "C#Cc1cccc(Nc2ncnc3cc(OCCOC)c(OCCOC)cc23)c1"

PRESETS: dict[str, dict[str, Any]] = {
    "druglike": {
        "failure": 0.03,
        "assays": [
            {
                "name": "potency",
                "unit": "pIC50",
                "description": "Inhibition of the target, negative decadic logarithm of the molar IC50",
                "truth": {"type": "similarity", "reference": ERLOTINIB, "low": 3.1, "high": 9.0, "power": 0.75},
                "latency": {"type": "lognormal", "median_hours": 72.0, "sigma": 0.5},
                "replicates": 2,
                "noise": 0.3,
                "dropout": 0.05,
                "revision": 0.03,
                "gross_error": 1.5,
                "cost": 50.0,
            },
            {
                "name": "solubility",
                "unit": "logS",
                "description": "Solubility in water, decadic logarithm of mol/l",
                "truth": {"type": "esol"},
                "latency": {"type": "lognormal", "median_hours": 24.0, "sigma": 0.5},
                "replicates": 2,
                "noise": 0.3,
                "dropout": 0.05,
                "revision": 0.03,
                "gross_error": 1.5,
                "cost": 10.0,
            },
            {
                "name": "permeability",
                "unit": "logBB",
                "description": "Blood-brain partition, decadic logarithm of the concentration ratio",
                "truth": {"type": "clark_bbb"},
                "latency": {"type": "lognormal", "median_hours": 8.0, "sigma": 0.5},
                "replicates": 1,
                "noise": 0.15,
                "dropout": 0.05,
                "revision": 0.03,
                "gross_error": 0.75,
                "cost": 5.0,
            },
        ],
    }
}
