"""Losses, one a file: what the optimiser descends, given coefficients and importance weights.

A config names one by its `type`. A new file in this folder with a subclass of `Loss` is a new loss; so is a class that
an installed package announces under the entry point group `aliquot.losses`.
"""

from typing import Annotated

from pydantic import SerializeAsAny

from aliquot.trainer.discovery import Family
from aliquot.trainer.losses.aggregation import Aggregation, aggregate
from aliquot.trainer.losses.base import Loss, LossInputs
from aliquot.trainer.losses.conflicts import conflicts
from aliquot.trainer.losses.policy_gradient import Reinforce

LOSSES = Family("loss", Loss, "aliquot.trainer.losses", "aliquot.losses")
LossConfig = Annotated[SerializeAsAny[Loss], LOSSES]
"""A loss in a config."""

__all__ = ["LOSSES", "Aggregation", "Loss", "LossConfig", "LossInputs", "Reinforce", "aggregate", "conflicts"]
