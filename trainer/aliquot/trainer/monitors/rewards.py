"""Monitors of the reward: does it still mean what it is taken for?

Honestly: signals such as these tell afterwards that a reward was hacked, and are not known to foretell it at a rate of
false alarms that one could live with ("Audit or Early Warning?", the finding of https://github.com/verl-project/verl
issue 7004). So by default they warn, and leave the rest to a person.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from aliquot.trainer.monitors.base import DriftMonitor, Judgement, Monitor, Reading, above, below, known, worst
from aliquot.trainer.monitors.memory import Memory


class ProxyGap(DriftMonitor):
    """The surrogate promises more than the laboratory finds, and ever more so.

    What is selected for its prediction is always promised too much; only the growth of the gap says that designs have
    found what the surrogate gets wrong (optimisation against control scores: Renz et al., Drug Discov. Today Technol.
    32, 55, 2019; over-optimised proxies: Gao et al. 2022, https://arxiv.org/abs/2210.10760).
    """

    meaning: ClassVar[str] = (
        "predictions of the designs that were sent exceed their measurements more than they did: the policy may be "
        "exploiting the surrogate. Raise `selecting.exploration`, and look at the newest designs."
    )
    breaches: int = 2
    out_of: int = 3
    first: int = Field(default=4, ge=4)
    rise: float = Field(default=0.3, gt=0)
    """Of `proxy_gap`, in units of the reward."""

    def judge(self, reading: Reading, memory: Memory) -> Judgement | None:
        seen = self.drift("proxy_gap", reading, memory)
        return above("proxy_gap", seen, self.rise) if seen else None


class ComponentDominance(DriftMonitor):
    """The reward is earned by one target at the expense of another: one's desirability rises, another's falls."""

    meaning: ClassVar[str] = (
        "this target falls while another one rises: the reward is earned by a part of the objective. Change the "
        "targets' weights, or join them by `combine: geometric`."
    )
    breaches: int = 2
    out_of: int = 3
    first: int = Field(default=4, ge=4)
    rise: float = Field(default=0.2, gt=0, le=1)
    """Of the mean desirability of the one."""
    fall: float = Field(default=0.5, gt=0, lt=1)
    """Of the mean desirability of the other, as a part of what it was."""

    def judge(self, reading: Reading, memory: Memory) -> Judgement | None:
        names = [name for name in reading if name.startswith("component/")]
        found = {name: seen for name in names if (seen := self.drift(name, reading, memory))}
        if len(found) < 2:
            return None
        risen = any(above(name, seen, self.rise).breach for name, seen in found.items())
        fallen = worst([below(name, seen, self.fall * seen.centre) for name, seen in found.items()])
        return fallen and replace(fallen, breach=risen and fallen.breach)


class ReplicateDisagreement(Monitor):
    """Replicates scatter more than the laboratory says they do.

    The Birge ratio is 1 by definition, so the limit is absolute. Eight experiments in two replicates exceed 2 once in
    10,000 times (χ² of 8 degrees of freedom beyond 32).
    """

    meaning: ClassVar[str] = (
        "replicates of one design differ by more than the laboratory's standard error: the reward is noisier than it "
        "is taken for, or the assay has gone wrong. Ask the laboratory before more is sent."
    )
    breaches: int = 2
    out_of: int = 3
    limit: float = Field(default=2.0, gt=1)

    def judge(self, reading: Reading, memory: Memory) -> Judgement | None:
        found = known(reading, "replicate_disagreement")
        return (
            None if found is None else Judgement("replicate_disagreement", found[0], self.limit, found[0] > self.limit)
        )
