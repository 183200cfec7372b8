"""How long an assay takes, in hours of lab clock, from the start of the work to its last replicate."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from aliquot.lab_adapters.sdk import LabConfig


class LogNormal(LabConfig):
    """exp(N(ln median, sigma²)): the usual shape of a turnaround time, with its long right tail."""

    type: Literal["lognormal"] = "lognormal"
    median_hours: float = Field(gt=0, allow_inf_nan=False)
    sigma: float = Field(default=0.5, ge=0, le=5)
    """Standard deviation of the logarithm; 0 makes it constant."""

    def draw(self, rng: np.random.Generator) -> float:
        return self.median_hours * math.exp(self.sigma * rng.standard_normal())


class Empirical(LabConfig):
    """One of the turnaround times that were observed, each as likely as the other."""

    type: Literal["empirical"] = "empirical"
    hours: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] = Field(min_length=1)

    @property
    def median_hours(self) -> float:
        return float(np.median(self.hours))

    def draw(self, rng: np.random.Generator) -> float:
        return self.hours[int(rng.integers(len(self.hours)))]


Latency = Annotated[LogNormal | Empirical, Field(discriminator="type")]
