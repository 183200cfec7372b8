"""A laboratory that answers late, in parts, revised or never, on the campaign's clock."""

from aliquot.lab_adapters.simulated.config import SimulatedAssay, SimulatedLabConfig
from aliquot.lab_adapters.simulated.lab import SimulatedLab
from aliquot.lab_adapters.simulated.latency import Empirical, LogNormal

__all__ = ["Empirical", "LogNormal", "SimulatedAssay", "SimulatedLab", "SimulatedLabConfig"]
