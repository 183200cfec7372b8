"""The coefficient book: what each proposal's advantage is now, what was learned of it, and what is due.

Always true here: for every proposal, due = A* − applied − masked, where A* is computed from the newest reward of each
sibling, and applied and masked are the sums of its dispositions on the branch. What was learned beside that, by reuse,
is counted apart, and is due to be taken back when the result it was for is retracted. The book is a view: it is rebuilt
from the ledger at any time, and follows it by reward id.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Set
from dataclasses import asdict
from typing import Any

import numpy as np
from sqlmodel import Session, col, select

from aliquot.domain import RewardStatus
from aliquot.ledger import GroupRow, PolicyVersionRow, ProposalRow, RewardRow, TrajectoryRow
from aliquot.ledger import lineages as branches
from aliquot.trainer.config import LearningConfig
from aliquot.trainer.learning.completion import Latency, completion_metrics
from aliquot.trainer.learning.members import Due, Group, Member
from aliquot.trainer.learning.samplers import Candidate, Windowed
from aliquot.trainer.learning.values import RunningValue, advantages, doubly_robust, shrunk

LEAST_SCALE, FIRST_SCALE = 0.05, 0.2
"""Advantages are never divided by less than the one, and by the other while too few values are known to say better:
rewards lie in [0, 1]."""
ENOUGH = 50
"""Values after which their running mean and spread are taken for a group's prior and scale."""
LAST = (RewardStatus.FINAL, RewardStatus.REVISED, RewardStatus.RETRACTED)
"""Reward states after which nothing more is expected, as far as one knows."""
SLOWEST = 0.999
"""The share of results after whose latency a proposal counts as never to come back."""


class CoefficientBook:
    """What is due on one branch of one campaign."""

    def __init__(self, campaign_id: int, config: LearningConfig):
        self.campaign_id, self.config = campaign_id, config
        self.groups: dict[int, Group] = {}
        self.reward_seen, self.now = 0, 0.0
        self.running = RunningValue()
        self._latency: Latency | None = None
        self._versions: dict[int, int] = {}
        self._changed: set[int] = set()
        self._due: dict[int, Due] = {}
        self._consumed: dict[int, tuple[float, float]] = {}
        self._reused: dict[int, tuple[float, int]] = {}
        self._frozen: dict[int, tuple[float, float]] = {}
        self._unused: set[int] = set()
        self._own: dict[int, list[tuple[int, float]]] = {}
        self._counted = 0
        """Rewards up to this id are in the running value already."""

    def open(self, session: Session, branch: branches.Branch) -> None:
        """Take what the branch has consumed; rewards follow with `follow`."""
        self._consumed = {p: (applied, masked) for p, applied, masked, _ in branches.consumed(session, branch)}
        self._reused = branches.reused(session, branch)
        self._frozen |= branches.frozen(session, branch)

    def state(self) -> dict[str, Any]:
        """What the ledger does not hold: the running value with who added what, and freezes not used yet."""
        unused = {i: (group.scale, group.baseline) for i, group in self.groups.items() if group.frozen_now}
        own = {i: group.own for i, group in self.groups.items() if group.own}
        return {"running": asdict(self.running), "counted": self.reward_seen, "unused": unused, "own": own}

    def restore(self, state: dict[str, Any]) -> None:
        """Take what `state` gave, before `open`."""
        self.running, self._counted = RunningValue(**state["running"]), state["counted"]
        self._unused = set(state["unused"])
        self._frozen, self._own = dict(state["unused"]), dict(state["own"])

    def follow(self, session: Session, now: float) -> int:
        """Read the rewards that are new since the last call; returns how many.

        Args:
            now: lab clock, seconds.
        """
        self.now = now
        self._read_versions(session)
        query = (
            select(RewardRow, ProposalRow, GroupRow.number, TrajectoryRow.policy_version)
            .where(RewardRow.campaign_id == self.campaign_id, col(RewardRow.id) > self.reward_seen)
            .join(ProposalRow, col(ProposalRow.id) == RewardRow.proposal_id)
            .join(GroupRow, col(GroupRow.id) == ProposalRow.group_id)
            .join(TrajectoryRow, col(TrajectoryRow.id) == ProposalRow.trajectory_id, isouter=True)
            .order_by(col(RewardRow.id))
        )
        return self.hear(session.exec(query))

    def hear(self, facts: Iterable[tuple[RewardRow, ProposalRow, int, int | None]]) -> int:
        """Take rewards, oldest first, and find what is due of their groups; returns how many were new.

        Args:
            facts: (reward, its proposal, number of the proposal's group, policy version of its oldest token).
        """
        news = 0
        for reward, proposal, number, version in facts:
            if reward.id <= self.reward_seen:
                continue
            group = self._group(proposal.group_id, number)
            member = group.members.get(proposal.id) or self._join(group, proposal, version)
            ended = reward.status in LAST and member.status not in LAST
            if ended and reward.value is not None and reward.id > self._counted:
                self.running.add(reward.value)
                if group.scale is None:
                    group.own.append((self.running.count, reward.value))
            member.read(reward, proposal)
            self.reward_seen = reward.id
            self._changed.add(proposal.group_id)
            news += 1
        self._latency = None if news else self._latency
        for group_id in sorted(self._changed):
            self._settle(group_id)
        self._changed.clear()
        return news

    def value(self, member: Member) -> float:
        """V of one proposal; NaN when nothing is known of it, or when the campaign waits for its last word."""
        config = self.config
        waits = config.revisions == "wait" and member.selected and member.status not in LAST
        if member.value is None or waits:
            return math.nan
        value, probability = member.value, 1.0
        if config.shrinkage == "posterior" and member.returned_at is not None and member.status in LAST:
            value = shrunk(value, member.uncertainty, member.predicted, member.spread)
        if not member.selected or member.predicted is None:
            return value
        if config.selection == "doubly_robust" and member.probability is not None:
            probability *= member.probability
        if config.censoring == "inverse_propensity" and member.returned_at is not None:
            took = member.returned_at - member.proposed_at
            probability *= max(self.latency.within(max(took, self.now - member.proposed_at)), 1e-6)
        return doubly_robust(value, member.predicted, probability, config.max_inverse_probability)

    def measured(self, member: Member) -> float:
        """The newest reward of one proposal, if a laboratory said it; else NaN."""
        known = member.value is not None and member.returned_at is not None and member.status in LAST
        return member.value if known else math.nan  # type: ignore[return-value]

    def advantages(self, group_id: int) -> np.ndarray:
        """A* of each member of a group, in its order; 0 while nothing is known or the group has no scale yet."""
        return self._advantages(self.groups[group_id])

    def take(self, last: Set[int] = frozenset()) -> tuple[list[Due], list[tuple[Due, str]]]:
        """The next batch of what is due, in the sampler's order, and what the sampler gives up, with the reason.

        Both stay due until `learned` is told.

        Args:
            last: proposals that are taken only when no other is due.
        """
        evicted = []
        for due in self._due.values():
            if self._untouched(due) and (reason := self.config.sampler.evict(self._candidate(due))):
                evicted.append((due, reason))
        given_up = {due.member.proposal_id for due, _ in evicted}
        admitted = [one for one in self._admitted() if one.proposal_id not in given_up]
        first = [one for one in admitted if one.proposal_id not in last]
        chosen = self.config.sampler.select(first or admitted, self.config.batch_size)
        return [self._due[one.proposal_id] for one in chosen], evicted

    def learned(self, due: Due, applied: float, masked: float, weight: float | None = None) -> None:
        """What became of a due coefficient; what was reused and had to be taken back is."""
        member = due.member
        member.applied += applied
        member.masked += masked
        member.reused += due.taken_back
        member.weight, member.disposed = weight, True
        self._due.pop(member.proposal_id, None)

    def reused(self, member: Member, coefficient: float) -> None:
        """A proposal was learned from once more, beside its own coefficient."""
        member.reused += coefficient
        member.reuses += 1

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
        """Coefficients that a step would take now."""
        return len(self._admitted())

    @property
    def latency(self) -> Latency:
        """How long results take, by what is back and what is still out."""
        if self._latency is None:
            out = [member for _, member in self.members() if member.selected]
            back = np.array([member.returned_at is not None for member in out], dtype=bool)
            took = np.array([(member.returned_at or self.now) - member.proposed_at for member in out], dtype=float)
            self._latency = Latency.of(took, back)
        return self._latency

    def age(self, member: Member) -> int:
        """Policy versions published since its oldest token; 0 when it was not drawn from a policy."""
        return len(self._versions) - 1 - self._versions.get(member.version or 0, len(self._versions) - 1)

    def completion(self) -> dict[str, float]:
        """Whether slow results were learned like fast ones, among proposals older than the slowest latency."""
        slowest = self.latency.quantile(SLOWEST)
        old = [
            member
            for _, member in self.members()
            if member.selected and member.returned_at is not None and self.now - member.proposed_at >= slowest
        ]
        rest = [abs(due.coefficient) if (due := self._due.get(m.proposal_id)) else 0.0 for m in old]
        times = np.array([(m.returned_at or 0.0) - m.proposed_at for m in old])
        learned = np.array([abs(m.applied) for m in old])
        owed = learned + np.array([abs(m.masked) for m in old]) + np.array(rest)
        return completion_metrics(times, learned, owed)

    def members(self) -> Iterator[tuple[int, Member]]:
        """(group id, member) of all."""
        return ((group_id, member) for group_id, group in self.groups.items() for member in group.members.values())

    def _candidate(self, due: Due) -> Candidate:
        return Candidate(due.member.proposal_id, self.groups[due.group_id].number, self.age(due.member))

    def _untouched(self, due: Due) -> bool:
        """Whether nothing was ever learned of it, so that nothing has to be un-learned."""
        return due.member.applied == 0 and due.member.reused == 0

    def _admitted(self) -> list[Candidate]:
        """What may be learned now: un-learning always, the rest as the sampler says."""
        oldest, sampler = self._oldest_open(), self.config.sampler
        found = ((due, self._candidate(due)) for due in self._due.values())
        return [one for due, one in found if not self._untouched(due) or sampler.admit(one, oldest)]

    def _group(self, group_id: int, number: int) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(number, own=self._own.pop(group_id, []))
            if group_id in self._frozen:
                group.scale, group.baseline = self._frozen.pop(group_id)
                group.frozen_now = group_id in self._unused
        return group

    def _join(self, group: Group, proposal: ProposalRow, version: int | None) -> Member:
        disposed = proposal.id in self._consumed
        applied, masked = self._consumed.pop(proposal.id, (0.0, 0.0))
        reused, reuses = self._reused.pop(proposal.id, (0.0, 0))
        member = group.members[proposal.id] = Member(
            proposal.id, proposal.trajectory_id, version, proposal.created_at,
            applied=applied, masked=masked, reused=reused, reuses=reuses, disposed=disposed,
        )  # fmt: skip
        return member

    def _read_versions(self, session: Session) -> None:
        last = max(self._versions, default=0)
        query = select(PolicyVersionRow.id).where(
            PolicyVersionRow.campaign_id == self.campaign_id, col(PolicyVersionRow.id) > last
        )
        for version in session.exec(query.order_by(col(PolicyVersionRow.id))):
            self._versions[version] = len(self._versions)

    def _oldest_open(self) -> int:
        """The earliest round with something due or still to come back, for a sampler that asks; else 0."""
        if not isinstance(self.config.sampler, Windowed):
            return 0
        slowest = self.latency.quantile(SLOWEST)
        due = {due.group_id for due in self._due.values()}
        for group_id, group in self.groups.items():
            waiting = any(
                member.selected and member.returned_at is None and self.now - member.proposed_at <= slowest
                for member in group.members.values()
            )
            if waiting or group_id in due:
                return group.number
        return max((group.number for group in self.groups.values()), default=0)

    def _advantages(self, group: Group) -> np.ndarray:
        if group.scale is None:
            return np.zeros(len(group.members))
        values = np.array([self.value(member) for member in group.members.values()])
        return advantages(values, group.baseline, group.scale, self.config.baseline.kappa)

    def _settle(self, group_id: int) -> None:
        group = self.groups[group_id]
        if group.scale is None:
            self._freeze(group)
        for member, advantage in zip(group.members.values(), self._advantages(group), strict=True):
            rest = float(advantage) - member.applied - member.masked
            unknown = math.isnan(self.value(member))
            back = -member.reused if unknown else 0.0
            gone = unknown and abs(rest) > 1e-12
            if abs(rest) > self.config.tolerance or gone or back:
                self._due[member.proposal_id] = Due(group_id, member, rest, back)
            else:
                self._due.pop(member.proposal_id, None)

    def _freeze(self, group: Group) -> None:
        """Fix scale and prior from the other groups, once two siblings have values that a laboratory could have given:
        what they are divided by and compared with must not depend on what came of them."""
        values = [self.value(member) for member in group.members.values() if not member.floor]
        informed = [value for value in values if not math.isnan(value)]
        kind = self.config.baseline.scale
        if len(informed) < (len(values) if kind == "group_std" else 2) or len(informed) < 2:
            return
        enough = self.running.count - len(group.own) >= ENOUGH
        mean, spread = self.running.without(group.own)
        if kind == "none":
            group.scale = 1.0
        elif kind == "group_std":
            group.scale = max(LEAST_SCALE, float(np.std(informed)))
        else:
            group.scale = max(LEAST_SCALE, spread) if enough else FIRST_SCALE
        group.baseline, group.own, group.frozen_now = mean if enough else 0.0, [], True
