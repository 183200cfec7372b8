"""What a simulated lab is: its assays, how late and how noisy they are, and how often things go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from aliquot.lab_adapters.sdk import LabConfig
from aliquot.lab_adapters.simulated.latency import Latency
from aliquot.lab_adapters.simulated.presets import PRESETS
from aliquot.lab_adapters.simulated.truths import Truth


class SimulatedAssay(LabConfig):
    """One thing the lab measures."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    unit: str
    description: str = ""
    truth: Truth
    """What the noise-free value of a design is."""
    latency: Latency
    replicates: int = Field(default=1, ge=1, le=1000)
    """Values for one experiment, evenly spaced over the latency: replicate i of n comes at (i + 1) / n of it."""
    noise: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Standard deviation of one replicate, in `unit`."""
    batch_effect: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Standard deviation of a shift that all replicates of one experiment share, in `unit`."""
    dropout: float = Field(default=0.0, ge=0, le=1)
    """Probability that this assay never answers, so that the experiment never ends by itself."""
    failure: float = Field(default=0.0, ge=0, le=1)
    """Probability that this assay fails and the lab says so."""
    revision: float = Field(default=0.0, ge=0, le=1)
    """Probability that a replicate carries a gross error, which the lab corrects one more latency later."""
    gross_error: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Standard deviation of that error, in `unit`."""
    cost: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Money for all replicates of one experiment."""


class SimulatedLabConfig(LabConfig):
    """A whole lab. A `preset` fills in what is not written; what is written wins."""

    preset: Literal["druglike"] | None = None
    """`druglike`: potency, solubility and permeability of a molecule."""
    seed: int = Field(default=0, ge=0)
    """With the design and the attempt key it decides everything about an execution, except how long it queues."""
    path: Path | None = None
    """The lab's own memory, an SQLite file that outlives the campaign's process; None: gone when closed."""
    assays: tuple[SimulatedAssay, ...] = Field(min_length=1)
    capacity: int | None = Field(default=None, ge=1)
    """Experiments worked on at once; the others queue, first come, first served. None: no limit."""
    dropout: float = Field(default=0.0, ge=0, le=1)
    """Probability that an experiment is never heard of again."""
    failure: float = Field(default=0.0, ge=0, le=1)
    """Probability that the chemistry fails and the lab says so instead of measuring."""

    @model_validator(mode="before")
    @classmethod
    def _filled_from_preset(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        preset = data.get("preset")
        if preset is None and "assays" not in data:
            raise ValueError(f"give `assays`, or a `preset`: {', '.join(PRESETS)}")
        return {**PRESETS.get(preset, {}), **data} if isinstance(preset, str) else data

    @model_validator(mode="after")
    def _consistent(self) -> SimulatedLabConfig:
        names = [assay.name for assay in self.assays]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"assays must have different names; twice: {', '.join(twice)}")
        if not self.kinds:
            takes = "; ".join(f"{a.name} takes {', '.join(a.truth.kinds)}" for a in self.assays)
            raise ValueError(f"no kind of design suits every assay: {takes}")
        return self

    @property
    def kinds(self) -> tuple[str, ...]:
        """Design kinds that every assay can take, sorted."""
        return tuple(sorted(set.intersection(*(set(assay.truth.kinds) for assay in self.assays))))
