"""Losses, one a file: what the optimiser descends, given coefficients and importance weights."""

from aliquot.trainer.losses.anchor import kl_to_reference
from aliquot.trainer.losses.policy_gradient import policy_gradient

__all__ = ["kl_to_reference", "policy_gradient"]
