"""What a loss and a correction may not do together.

The ratio π/μ is to stand in a gradient once. A loss that divides by μ has it already; a correction's weight would put
it in again, which squares it: a bias that grows with the age of the samples. The other combinations are choices: no
correction with a loss that has no ratio, or whose ratio is π/π_old, learns from stale samples as if they were fresh.
"""

from __future__ import annotations

from typing import Protocol

from aliquot.trainer.losses.base import Loss


class Correction(Protocol):
    """The part of a correction's config that is read here."""

    @property
    def type(self) -> str: ...


def conflicts(loss: Loss, correction: Correction) -> list[str]:
    """Why the two cannot stand in one config, each with its remedy; empty when they can."""
    if loss.anchored_at != "behaviour" or correction.type == "none":
        return []
    instead = ", or give the loss `ratio: old`" if "ratio" in type(loss).model_fields else ""
    return [
        f"the loss `{loss.type}` has the ratio π/μ in it, and the correction `{correction.type}` would put it in a "
        f"second time: set `correction: {{type: none}}`{instead}"
    ]
