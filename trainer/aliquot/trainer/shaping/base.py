"""Costs of the trajectory itself, as additions to its tokens' coefficients.

A shaping is a pure function of the tokens: no result of a laboratory, no verdict and no policy enters it, so it is
known when the trajectory is sealed and nothing can revise it. It belongs to the first application of a proposal's
coefficient, once: a revised reward is learned without it, and reuse of the trajectory is not shaped again.

A cost r at token s is owed by every token that led there, so a token's addition is what is still to come from it on,

    additionₜ = Σ_{s ≥ t} r_s

(rewards to go: Sutton et al. 1999, policy gradient theorem). This is not a detail: the same cost for every token, added
to each token's coefficient as it stands, is a baseline, and its expected gradient is zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from aliquot.domain import Noun


class Shaping(Noun, ABC):
    """Base of the shapings. One that gives `type` a default can be named in a config."""

    type: str

    @abstractmethod
    def rewards(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """What each token is worth by itself, in units of the advantage.

        Args:
            tokens: generated token ids, int64 [batch, time]; anything outside the mask.
            mask: bool [batch, time], true where a token was generated; the true ones of a row stand together.

        Returns:
            float32 [batch, time]; anything outside the mask.
        """

    def __call__(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Additions to the coefficients, float32 [batch, time], 0 outside the mask; arguments as in `rewards`."""
        return to_go(self.rewards(tokens, mask), mask)


def to_go(rewards: Tensor, mask: Tensor) -> Tensor:
    """Σ_{s ≥ t} r_s over the tokens in the mask, float32 [batch, time]; 0 outside it."""
    counted = torch.where(mask, rewards, 0.0)
    return torch.where(mask, counted.flip(-1).cumsum(-1).flip(-1), 0.0)
