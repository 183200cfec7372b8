"""Anchors, one a file: what holds the policy near the prior that it started from.

A config names one by its `type`. A new file in this folder with a subclass of `Anchor` is a new anchor; so is a class
that an installed package announces under the entry point group `aliquot.anchors`.
"""

from typing import Annotated

from pydantic import SerializeAsAny

from aliquot.trainer.anchors.base import Anchor, AnchorInputs
from aliquot.trainer.anchors.kl import KLAnchor, kl_to_reference
from aliquot.trainer.discovery import Family

ANCHORS = Family("anchor", Anchor, "aliquot.trainer.anchors", "aliquot.anchors")
AnchorConfig = Annotated[SerializeAsAny[Anchor], ANCHORS]
"""An anchor in a config."""

__all__ = ["ANCHORS", "Anchor", "AnchorConfig", "AnchorInputs", "KLAnchor", "kl_to_reference"]
