"""What a ladder has cost so far, stage by stage, and what another order would have cost.

The advice rests on a known result: independent filters cost least in the order of (cost of one look) / (share refused);
Hellerstein & Stonebraker, SIGMOD 1993, where it is the rank of an expensive predicate. Cost is seconds here, and the
shares are those that each stage saw after the ones before it, so the advice is a hint, and says on how many designs it
rests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aliquot.domain import Noun

ENOUGH = 30
"""Designs that both stages must have judged before an order is advised."""
WORTH = 0.05
"""Least share of the ladder's time that must be saved."""


class StageReport(Noun):
    """One stage of a ladder, as it went so far."""

    name: str
    required: bool
    weight: float
    style: str
    judged: int = 0
    """Designs that the verifier looked at."""
    cached: int = 0
    """Designs whose verdict was known."""
    refused: int = 0
    failed: int = 0
    """Designs that got a typed error instead of a verdict."""
    waiting: int = 0
    """Tickets that are not answered yet."""
    seconds: float = 0.0
    """Time that the looks took, all together."""
    money: float = 0.0

    @property
    def latency(self) -> float:
        """Seconds a design, on average."""
        return self.seconds / self.judged if self.judged else 0.0

    @property
    def share_refused(self) -> float:
        return self.refused / self.judged if self.judged else 0.0


@dataclass
class Tally:
    """Counts of one stage; only its stage writes here."""

    judged: int = 0
    cached: int = 0
    refused: int = 0
    failed: int = 0
    waiting: int = 0
    seconds: float = 0.0
    money: float = 0.0


def advice(reports: Sequence[StageReport]) -> list[str]:
    """Orders that would cost less, each with what it would save, in words.

    None: the order is good, or too little is known.

    A set verifier keeps its place, for what it remembers depends on what comes to it; so does the first stage, which
    is there to refuse what the others cannot read.
    """
    found = []
    for i in range(1, len(reports)):
        for j in range(i + 1, len(reports)):
            early, late = reports[i], reports[j]
            if any(report.style == "set" for report in reports[i : j + 1]):
                continue
            if min(early.judged, late.judged) < ENOUGH or not (late.required and late.refused):
                continue
            saved = late.share_refused * early.latency - (early.share_refused if early.required else 0) * late.latency
            if saved > WORTH * sum(report.latency for report in reports):
                found.append(
                    f"put {late.name} before {early.name}: it refuses {late.share_refused:.0%} at "
                    f"{late.latency:.3g} s a design, {early.name} {early.share_refused:.0%} at {early.latency:.3g} s; "
                    f"about {saved:.3g} s a design less (on {min(early.judged, late.judged)} designs)"
                )
    return found
