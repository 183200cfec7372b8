"""The coefficient book: what each proposal's advantage is now, what was learned of it, and what is due.

Always true here: for every proposal, due = A* − applied − masked, where A* is computed from the newest reward of each
sibling, and applied and masked are the sums of its dispositions on the branch. The book is a view: it is rebuilt from
the ledger at any time, and follows it by reward id.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from sqlmodel import Session, col, select

from aliquot.ledger import GroupRow, ProposalRow, RewardRow
from aliquot.ledger import lineages as branches
from aliquot.trainer.config import LearningConfig
from aliquot.trainer.learning.advantage import advantages, doubly_robust

LEAST_SCALE, FIRST_SCALE = 0.05, 0.2
"""Advantages are never divided by less than the one, and by the other while too few values are known to say better:
rewards lie in [0, 1]."""
ENOUGH = 50
"""Values after which their running mean and spread are taken for a group's prior and scale."""


@dataclass(slots=True)
class Member:
    """One proposal, as far as learning goes."""

    proposal_id: int
    trajectory_id: int | None
    floor: bool
    """Invalid or refused: its value is the objective's floor, and says nothing of what a laboratory would find."""
    selected: bool
    probability: float | None
    predicted: float | None
    reward_id: int
    value: float | None
    """Newest reward; None is missing."""
    applied: float = 0.0
    masked: float = 0.0
    disposed: bool = False
    """Whether it has a disposition on the branch."""


@dataclass(slots=True)
class Group:
    number: int
    members: dict[int, Member] = field(default_factory=dict)
    scale: float | None = None
    """Frozen at first use, with `baseline`."""
    baseline: float = 0.0
    frozen_now: bool = False
    """Frozen, but not yet written to the ledger."""


@dataclass(frozen=True, slots=True)
class Due:
    """A coefficient to be learned."""

    group_id: int
    member: Member
    coefficient: float


@dataclass
class RunningValue:
    """Mean and spread of values over the last few hundred, from which a group's scale and prior are frozen."""

    mean: float = 0.0
    square: float = 0.0
    weight: float = 0.0
    count: int = 0
    decay: float = 0.995

    def add(self, value: float) -> None:
        self.mean = self.decay * self.mean + (1 - self.decay) * value
        self.square = self.decay * self.square + (1 - self.decay) * value * value
        self.weight = self.decay * self.weight + (1 - self.decay)
        self.count += 1

    @property
    def average(self) -> float:
        return self.mean / self.weight if self.weight else 0.0

    @property
    def deviation(self) -> float:
        return math.sqrt(max(0.0, self.square / self.weight - self.average**2)) if self.weight else 0.0


class CoefficientBook:
    """What is due on one branch of one campaign."""

    def __init__(self, campaign_id: int, config: LearningConfig):
        self.campaign_id, self.config = campaign_id, config
        self.groups: dict[int, Group] = {}
        self.reward_seen = 0
        self.running = RunningValue()
        self._changed: set[int] = set()
        self._due: dict[int, Due] = {}
        self._consumed: dict[int, tuple[float, float]] = {}
        self._frozen: dict[int, tuple[float, float]] = {}
        self._unused: set[int] = set()
        self._counted = 0
        """Rewards up to this id are in the running value already."""

    def open(self, session: Session, branch: branches.Branch) -> None:
        """Take what the branch has consumed; rewards follow with `follow`."""
        self._consumed = {p: (applied, masked) for p, applied, masked, _ in branches.consumed(session, branch)}
        self._frozen |= branches.frozen(session, branch)

    def state(self) -> dict[str, Any]:
        """What the ledger does not hold: the running value, and freezes that no step has used yet."""
        unused = {i: (group.scale, group.baseline) for i, group in self.groups.items() if group.frozen_now}
        return {"running": asdict(self.running), "counted": self.reward_seen, "unused": unused}

    def restore(self, state: dict[str, Any]) -> None:
        """Take what `state` gave, before `open`."""
        self.running, self._counted = RunningValue(**state["running"]), state["counted"]
        self._unused = set(state["unused"])
        self._frozen = dict(state["unused"])

    def follow(self, session: Session) -> int:
        """Read the rewards that are new since the last call; returns how many."""
        query = (
            select(RewardRow, ProposalRow, GroupRow.number)
            .where(RewardRow.campaign_id == self.campaign_id, col(RewardRow.id) > self.reward_seen)
            .join(ProposalRow, col(ProposalRow.id) == RewardRow.proposal_id)
            .join(GroupRow, col(GroupRow.id) == ProposalRow.group_id)
            .order_by(col(RewardRow.id))
        )
        news = 0
        for reward, proposal, number in session.exec(query):
            group = self.groups.get(proposal.group_id)
            if group is None:
                group = self.groups[proposal.group_id] = Group(number)
                if proposal.group_id in self._frozen:
                    group.scale, group.baseline = self._frozen.pop(proposal.group_id)
                    group.frozen_now = proposal.group_id in self._unused
            member = group.members.get(proposal.id)
            if member is None:
                disposed = proposal.id in self._consumed
                applied, masked = self._consumed.pop(proposal.id, (0.0, 0.0))
                member = group.members[proposal.id] = Member(
                    proposal.id,
                    proposal.trajectory_id,
                    False,
                    False,
                    None,
                    None,
                    reward.id,
                    None,
                    applied,
                    masked,
                    disposed,
                )
            if reward.value is not None and member.value is None and reward.id > self._counted:
                self.running.add(reward.value)
            member.floor = proposal.state in ("invalid", "refused")
            member.selected = proposal.state in ("selected", "credited")
            member.probability, member.predicted = proposal.selection_probability, proposal.predicted_mean
            member.reward_id, member.value = reward.id, reward.value
            self.reward_seen = reward.id
            self._changed.add(proposal.group_id)
            news += 1
        for group_id in sorted(self._changed):
            self._settle(group_id)
        self._changed.clear()
        return news

    def value(self, member: Member) -> float:
        """V of one proposal: its reward, corrected for how it was selected; NaN when nothing is known."""
        if member.value is None:
            return math.nan
        corrected = self.config.selection == "doubly_robust" and member.selected
        if not corrected or member.predicted is None or member.probability is None:
            return member.value
        return doubly_robust(member.value, member.predicted, member.probability, self.config.max_inverse_probability)

    def take(self) -> list[Due]:
        """The next batch of what is due, in the declared order. It stays due until `learned` is told."""
        freshest = self.config.order == "freshest_first"
        queue = sorted(
            self._due.values(),
            key=lambda due: (self.groups[due.group_id].number * (-1 if freshest else 1), due.member.proposal_id),
        )
        return queue[: self.config.batch_size]

    def learned(self, due: Due, applied: float, masked: float) -> None:
        """What became of a due coefficient."""
        due.member.applied += applied
        due.member.masked += masked
        due.member.disposed = True
        self._due.pop(due.member.proposal_id, None)

    def residue(self) -> list[tuple[Due, str]]:
        """What no step took: coefficients too small to be due, and proposals that never had one; with the reason."""
        left = []
        for group_id, group in self.groups.items():
            for member, advantage in zip(group.members.values(), self._advantages(group), strict=True):
                rest = float(advantage) - member.applied - member.masked
                if member.proposal_id in self._due:
                    continue
                if abs(rest) > 1e-12:
                    left.append((Due(group_id, member, rest), "below tolerance at the end"))
                elif not member.disposed:
                    known = not math.isnan(self.value(member))
                    left.append((Due(group_id, member, 0.0), "no advantage" if known else "no value was ever known"))
        return left

    @property
    def backlog(self) -> int:
        return len(self._due)

    def _advantages(self, group: Group) -> np.ndarray:
        if group.scale is None:
            return np.zeros(len(group.members))
        values = np.array([self.value(member) for member in group.members.values()])
        return advantages(values, group.baseline, group.scale, self.config.baseline.kappa)

    def _settle(self, group_id: int) -> None:
        group = self.groups[group_id]
        informed = sum(not m.floor and not math.isnan(self.value(m)) for m in group.members.values())
        if group.scale is None and informed >= 2:
            enough = self.running.count >= ENOUGH
            group.scale = max(LEAST_SCALE, self.running.deviation) if enough else FIRST_SCALE
            group.baseline, group.frozen_now = self.running.average if enough else 0.0, True
        for member, advantage in zip(group.members.values(), self._advantages(group), strict=True):
            rest = float(advantage) - member.applied - member.masked
            if abs(rest) > self.config.tolerance or (math.isnan(self.value(member)) and abs(rest) > 1e-12):
                self._due[member.proposal_id] = Due(group_id, member, rest)
            else:
                self._due.pop(member.proposal_id, None)
