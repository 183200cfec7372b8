"""From what is due to sequences that can be trained on; what cannot be is set apart, with the reason.

Always true here: whatever a row or a file holds, no error leaves this module. A record that is damaged, that does not
fit the policy, or that was drawn otherwise than the trainer counts probabilities becomes a reason in a disposition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlmodel import Session, col, select

from aliquot.domain import Design, InvalidDesign, Sampling, StopReason, Trajectory, VersionSpan
from aliquot.domain.spaces import BOS
from aliquot.ledger import DamagedArtifact, DesignRow, Ledger, ProposalRow, TrajectoryRow, unseal
from aliquot.trainer.learning.book import CoefficientBook
from aliquot.trainer.learning.members import Due, Member
from aliquot.trainer.learning.reuse import Augmented, Clipped, ReuseConfig, randomised
from aliquot.trainer.losses import Loss
from aliquot.trainer.policies import Policy
from aliquot.trainer.routing import RoutingError, RoutingRecord


@dataclass(frozen=True)
class Reused:
    """One sequence that is learned from beside its own coefficient."""

    kind: str
    group_id: int
    member: Member
    trajectory: Trajectory
    coefficient: float
    loss: Loss | None
    """None: the plain likelihood, for what no policy drew."""


class BatchReader:
    """Reads sequences for one campaign's policy."""

    def __init__(self, ledger: Ledger, policy: Policy, sampling: Sampling):
        self.ledger, self.policy, self.sampling = ledger, policy, sampling

    def due(self, session: Session, dues: Sequence[Due]) -> tuple[list[tuple[Due, Trajectory]], list[tuple[Due, str]]]:
        """(what can be learned, what cannot and why). What no policy drew comes as its design would be written, and
        only when what was reused of it is to be taken back."""
        found = self._trajectories(session, [due.member for due in dues])
        undrawn = [due.member for due in dues if due.taken_back and due.member.trajectory_id is None]
        found |= self._written(session, undrawn, None)
        batch, unusable = [], []
        for due in dues:
            read = found[due.member.proposal_id]
            if isinstance(read, Trajectory):
                batch.append((due, read))
            else:
                unusable.append((due, read))
        return batch, unusable

    def reuse(
        self, session: Session, book: CoefficientBook, config: ReuseConfig, random: np.random.Generator
    ) -> list[Reused]:
        """What one kind of reuse takes in this step; whatever cannot be read is left out."""
        chosen = config.choose(book, random)
        members = [member for _, member, _ in chosen]
        found: Mapping[int, Trajectory | str]
        if isinstance(config, Clipped):
            found = self._trajectories(session, members)
        else:
            found = self._written(session, members, random if isinstance(config, Augmented) else None)
        loss = config.loss if isinstance(config, Clipped) else None
        return [
            Reused(config.type, group_id, member, read, coefficient, loss)
            for group_id, member, coefficient in chosen
            if isinstance(read := found.get(member.proposal_id), Trajectory)
        ]

    def _trajectories(self, session: Session, members: Sequence[Member]) -> dict[int, Trajectory | str]:
        """By proposal id: the sealed trajectory, or why it cannot be trained on."""
        ids = [member.trajectory_id for member in members if member.trajectory_id is not None]
        rows = {row.id: row for row in session.exec(select(TrajectoryRow).where(col(TrajectoryRow.id).in_(ids)))}
        found: dict[int, Trajectory | str] = {}
        for member in members:
            row = rows.get(member.trajectory_id or 0)
            if row is None:
                found[member.proposal_id] = "no trajectory: nothing to weigh it by"
                continue
            try:
                data = row.sealed if row.sealed is not None else self.ledger.artifacts.get(str(row.artifact))
                found[member.proposal_id] = self._checked(unseal(data, row.digest))
            except (DamagedArtifact, RoutingError, FileNotFoundError) as error:
                found[member.proposal_id] = f"quarantined: {error}"
        return found

    def _checked(self, trajectory: Trajectory) -> Trajectory | str:
        policy, length = self.policy, len(trajectory.prompt) + len(trajectory.tokens)
        tokens = np.concatenate([trajectory.prompt, trajectory.tokens])
        if tokens.min() < 0 or tokens.max() >= len(policy.codec.vocabulary):
            return f"quarantined: token {int(tokens.max())} is not in the vocabulary of {len(policy.codec.vocabulary)}"
        if length > policy.context:
            return f"quarantined: {length} tokens; the policy's context holds {policy.context}"
        if trajectory.sampling.truncated:
            return "quarantined: drawn with top-p, top-k or min-p, whose cut biases the importance ratio"
        if trajectory.sampling.temperature != self.sampling.temperature:
            drawn, wanted = trajectory.sampling.temperature, self.sampling.temperature
            return f"quarantined: drawn at temperature {drawn}, while the campaign's policy has {wanted}"
        if trajectory.experts is not None and policy.routing is not None:
            RoutingRecord.of(trajectory, policy.routing)
        elif trajectory.experts is not None:
            return f"quarantined: it records routed experts, and policy {policy.name} has none"
        return trajectory

    def _written(
        self, session: Session, members: Sequence[Member], random: np.random.Generator | None
    ) -> dict[int, Trajectory]:
        """By proposal id: its design as the policy would have to write it, in a random order when `random` is given."""
        query = select(ProposalRow.id, DesignRow).join(DesignRow, col(DesignRow.key) == ProposalRow.design_key)
        rows = session.exec(query.where(col(ProposalRow.id).in_([member.proposal_id for member in members])))
        codec, found = self.policy.codec, {}
        for proposal_id, row in sorted(rows, key=lambda one: one[0]):
            design = Design(kind=row.kind, value=row.value)  # type: ignore[arg-type]
            if random is not None:
                design = Design(kind="molecule", value=randomised(str(design.value), random))
            try:
                found[proposal_id] = self._undrawn(codec.encode(design))
            except InvalidDesign:
                continue  # longer than the space allows in this writing
        return found

    def _undrawn(self, ids: list[int]) -> Trajectory:
        """A sequence that no policy drew, in the form of one that was; its log-probs mean nothing."""
        return Trajectory(
            prompt=np.array([BOS], dtype=np.int32), tokens=np.array(ids, dtype=np.int32),
            logprobs=np.zeros(len(ids), dtype=np.float32), versions=(VersionSpan(version=0, start=0, end=len(ids)),),
            sampling=self.sampling, engine="none", dtype="float32", stop=StopReason.EOS,
        )  # fmt: skip
