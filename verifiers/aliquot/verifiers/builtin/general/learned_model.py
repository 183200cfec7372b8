"""A model that somebody trained, with the range in which it may be believed.

Features (`features`), model (`models`) and domain of applicability (`applicability`) are each declared in the campaign;
files are read in the worker. Outside the domain a design is refused or marked, as the campaign says: a policy drifts to
where a model is wrong as soon as being wrong pays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pydantic import FiniteFloat, model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.general.applicability import ApplicabilityDomain, Measure
from aliquot.verifiers.builtin.general.features import Features
from aliquot.verifiers.builtin.general.models import Model
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class LearnedModelConfig(VerifierConfig):
    features: Features
    """What the model reads of a design."""
    model: Model
    """The model itself."""
    domain: ApplicabilityDomain | None = None
    """None: the model is believed everywhere. Say it only of a formula that holds everywhere."""
    unit: str = ""
    """Of the prediction, for messages."""
    minimum: FiniteFloat | None = None
    """Refuse designs below it; None: no limit."""
    maximum: FiniteFloat | None = None
    """Refuse designs above it; None: no limit."""

    @model_validator(mode="after")
    def _possible(self) -> LearnedModelConfig:
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum={self.minimum:g} is above maximum={self.maximum:g}: nothing can pass")
        return self


class LearnedModel(PointwiseVerifier):
    """What the model predicts, in the unit of its training. `values`: `distance`, its `limit`, and whether `inside`."""

    name, version = "learned_model", "1"
    unit = "the model's"
    needs = Needs(seconds=5, memory_mb=8192, startup_seconds=120)
    Config = LearnedModelConfig
    example = {
        "features": {
            "type": "parameters",
            "columns": [{"parameter": "temperature"}, {"parameter": "solvent", "choices": ["DMF", "THF"]}],
        },
        "model": {"type": "linear", "coefficients": [0.5, 10.0, 0.0], "intercept": 5.0},
        "domain": {
            "points": [[t, d, 1 - d] for t in (20.0, 40.0, 60.0, 80.0, 100.0) for d in (0.0, 1.0)],
            "neighbours": 3,
        },
    }
    fixtures = (
        Fixture.full("conditions", {"temperature": 80.0, "solvent": "DMF"}, 55.0, at_most=55.0, accepted=True),
        Fixture.zero("conditions", {"temperature": -300.0, "solvent": "THF"}, -145.0, accepted=False),
        Fixture.malformed("conditions", {"temperature": 80.0, "solvent": "water"}),
        Fixture.malformed("conditions", {"solvent": "DMF"}),
        Fixture.seeded("conditions", {"temperature": 50.0, "solvent": "THF"}, at_least=30.0, at_most=30.0),
    )

    def __init__(self, config: LearnedModelConfig):
        super().__init__(config)
        self._predict = config.model.load(config.features.size)
        self._far: Measure | None = None
        self._limit = math.inf
        if config.domain is not None:
            self._far, self._limit = config.domain.measure(config.features.size)

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        config = self.config
        for design in designs:
            row = config.features.vector(design)[None, :]
            score, values, reasons = float(self._predict(row)[0]), {}, []
            if self._far is not None:
                distance = float(self._far(row)[0])
                inside = distance <= self._limit * (1 + 1e-9)
                values = {"distance": distance, "limit": self._limit, "inside": inside}
                if not inside and config.domain.outside == "refuse":
                    reasons.append(
                        f"{config.domain.method}: {distance:.3g}, beyond {self._limit:.3g}; it was not trained here"
                    )
            if config.minimum is not None and score < config.minimum:
                reasons.append(f"{score:g} {config.unit}".strip() + f" is below {config.minimum:g}")
            if config.maximum is not None and score > config.maximum:
                reasons.append(f"{score:g} {config.unit}".strip() + f" is above {config.maximum:g}")
            yield Score(score, not reasons, "; ".join(reasons), values)
