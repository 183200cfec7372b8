"""What an anchor is given: what the policy and the frozen reference say of the same tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from aliquot.domain import Noun


@dataclass(frozen=True)
class AnchorInputs:
    """One batch, or a part of one: what is divided by B adds up over the parts."""

    vocabulary_logp: Tensor
    """log π over the vocabulary with gradient, float32 [batch, time, vocabulary]; −inf where a token is not legal."""
    reference_vocabulary_logp: Tensor
    """The same of the reference, no gradient."""
    logp: Tensor
    """log π of the chosen tokens with gradient, float32 [batch, time]; 0 outside the mask."""
    reference_logp: Tensor
    """The same of the reference, no gradient."""
    mask: Tensor
    """bool [batch, time], true where a token was generated."""
    values: Tensor
    """Reward of each row in [0, 1], float32 [batch]; NaN where there is none."""
    batch_size: int
    """B of a full batch, as in the loss that is held back."""


class Anchor(Noun, ABC):
    """Base of the anchors. One that gives `type` a default can be named in a config."""

    type: str

    revisable: ClassVar[bool] = True
    """False for an anchor that learns from rewards by itself: what it learned stands in no disposition, and a
    retraction does not take it back."""

    @abstractmethod
    def __call__(self, inputs: AnchorInputs) -> tuple[Tensor, dict[str, float]]:
        """The scalar to be added to the loss, its own coefficient in it, and metrics without the coefficient."""
