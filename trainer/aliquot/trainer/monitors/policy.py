"""Monitors of the policy: has it left its samples behind, and does it still explore?"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from aliquot.trainer.monitors.base import Action, DriftMonitor, Judgement, Monitor, Reading, above, below, known, worst
from aliquot.trainer.monitors.memory import Memory


class Divergence(Monitor):
    """The policy has gone so far from the one that drew its samples that few of them still say anything.

    The limits are absolute, since nothing of the sort is normal at any age: an effective sample size of 0.3 per token
    is where others call importance weights unhealthy (verl, `rollout_corr` documentation), and a fall of it foretells
    collapse (VCPO, 2026, https://arxiv.org/abs/2602.17616). Old results bring single steps near the limits, which is
    why most of the last ones must be beyond.
    """

    meaning: ClassVar[str] = (
        "the policy moves on faster than its experiments come back. Lower the learning rate, or hold it more firmly to "
        "the prior (`learning.anchor`)."
    )
    action: Action = Action.LOWER_LEARNING_RATE
    breaches: int = 5
    out_of: int = 8
    least_ess: float = Field(default=0.3, ge=0, le=1)
    """Of `ess_token`."""
    most_kl: float = Field(default=0.6, gt=0)
    """Of `kl_k3`, nats per token."""

    def judge(self, reading: Reading, memory: Memory) -> Judgement | None:
        found = []
        if ess := known(reading, "ess_token"):
            found.append(Judgement("ess_token", ess[0], self.least_ess, ess[0] < self.least_ess))
        if kl := known(reading, "kl_k3"):
            found.append(Judgement("kl_k3", kl[0], self.most_kl, kl[0] > self.most_kl))
        return worst(found)


class EntropyCollapse(DriftMonitor):
    """The policy has become almost sure of every token.

    Entropy falls wherever a policy learns, and the reward is bought with it (Cui et al. 2025,
    https://arxiv.org/abs/2505.22617), so only what is left counts: `fraction` of that at the beginning.
    """

    meaning: ClassVar[str] = (
        "the policy hardly explores any more, and what it has not tried by now it will not find. Lower the learning "
        "rate, hold it to the prior (`learning.anchor`), or roll back."
    )
    action: Action = Action.LOWER_LEARNING_RATE
    fraction: float = Field(default=0.2, gt=0, lt=1)

    def judge(self, reading: Reading, memory: Memory) -> Judgement | None:
        seen = self.drift("entropy", reading, memory)
        return below("entropy", seen, (1 - self.fraction) * seen.centre) if seen else None


class DeadExperts(DriftMonitor):
    """Experts of a layer that hardly any token reaches, more than there were at the beginning."""

    meaning: ClassVar[str] = (
        "experts of this layer get no tokens, so they learn nothing, and the policy is smaller than it looks. Set "
        "`learning.routing.balance`, or let dead ones be revived (`learning.routing.revive`)."
    )
    breaches: int = 5
    out_of: int = 8
    rise: float = Field(default=0.5, gt=0)
    """Of the number of dead experts in a layer."""
    least_due: int = Field(default=8, ge=1)
    """Sequences in a batch that is judged: in a small one experts go without by chance."""

    def judge(self, reading: Reading, memory: Memory) -> Judgement | None:
        if reading.get("due", 0) < self.least_due:
            return None
        layers = [name for name in reading if name.startswith("router/layer") and name.endswith("/dead_experts")]
        found = [(name, seen) for name in layers if (seen := self.drift(name, reading, memory))]
        return worst([above(name, seen, self.rise) for name, seen in found])
