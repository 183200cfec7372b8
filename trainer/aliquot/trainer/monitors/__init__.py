"""Monitors: what is watched while a policy learns, and what an alarm does. Everything said stands in the event log."""

from aliquot.trainer.monitors.base import Action, Alarm, Reading
from aliquot.trainer.monitors.config import MonitorsConfig
from aliquot.trainer.monitors.facts import NewestDesigns
from aliquot.trainer.monitors.watch import Watch, strongest

__all__ = ["Action", "Alarm", "MonitorsConfig", "NewestDesigns", "Reading", "Watch", "strongest"]
