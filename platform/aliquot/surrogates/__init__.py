"""Surrogates: what the lab would probably say, and how sure that is. Numbers in, numbers out; nothing is stored."""

from aliquot.surrogates.forest import RandomForestSurrogate
from aliquot.surrogates.objective import ObjectiveSurrogate, Observation
from aliquot.surrogates.protocol import Prediction, Surrogate, SurrogateError, SurrogateNotReady

__all__ = [
    "ObjectiveSurrogate", "Observation", "Prediction", "RandomForestSurrogate", "Surrogate", "SurrogateError",
    "SurrogateNotReady",
]  # fmt: skip
