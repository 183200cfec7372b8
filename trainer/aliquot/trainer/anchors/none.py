"""No anchor: for spaces where nothing is to be kept, and to measure what an anchor is worth.

A policy over molecules without one forgets what a molecule looks like.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from aliquot.trainer.anchors.base import Anchor, AnchorInputs


class NoAnchor(Anchor):
    """Nothing is added to the loss."""

    type: Literal["none"] = "none"

    def __call__(self, inputs: AnchorInputs) -> tuple[Tensor, dict[str, float]]:
        return inputs.logp.new_zeros(()), {}
