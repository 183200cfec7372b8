"""Shapings, one a file: costs of the trajectory itself, paid once with its first coefficient and never revised.

A config names each by its `type`. A new file in this folder with a subclass of `Shaping` is a new shaping; so is a
class that an installed package announces under the entry point group `aliquot.shaping`.
"""

from typing import Annotated

from pydantic import SerializeAsAny

from aliquot.trainer.discovery import Family
from aliquot.trainer.shaping.base import Shaping, to_go

SHAPINGS = Family("shaping", Shaping, "aliquot.trainer.shaping", "aliquot.shaping")
ShapingConfig = Annotated[SerializeAsAny[Shaping], SHAPINGS]
"""One shaping in a config; a section of several is a list of them."""

__all__ = ["SHAPINGS", "Shaping", "ShapingConfig", "to_go"]
