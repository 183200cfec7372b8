"""Who stands in the coefficient book: proposals in their groups, and what is due of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from aliquot.domain import RewardStatus
from aliquot.ledger import ProposalRow, RewardRow


@dataclass(slots=True)
class Member:
    """One proposal, as far as learning goes."""

    proposal_id: int
    trajectory_id: int | None
    """None: it was not drawn from a policy."""
    version: int | None
    """Oldest policy version among its tokens."""
    proposed_at: float
    """Lab clock, seconds; also when it was selected."""
    design_key: str | None = None
    """None: it names no design."""
    floor: bool = False
    """Invalid or refused: its value is the objective's floor, and says nothing of what a laboratory would find."""
    selected: bool = False
    probability: float | None = None
    predicted: float | None = None
    spread: float | None = None
    """The surrogate's mean and standard deviation before its own result."""
    reward_id: int = 0
    status: str = RewardStatus.PENDING
    value: float | None = None
    """Newest reward; None is missing."""
    uncertainty: float | None = None
    returned_at: float | None = None
    """Lab clock when the first part of its result was in."""
    applied: float = 0.0
    masked: float = 0.0
    reused: float = 0.0
    """Σ coefficients by which it was learned beside its own, by reuse."""
    reuses: int = 0
    weight: float | None = None
    """The mean importance weight under which it was learned last, in this process."""
    disposed: bool = False
    """Whether it has a disposition on the branch."""

    def read(self, reward: RewardRow, proposal: ProposalRow) -> None:
        """Take a newer reward."""
        self.design_key = proposal.design_key
        self.floor = proposal.state in ("invalid", "refused")
        self.selected = proposal.state in ("selected", "credited")
        self.probability = proposal.selection_probability
        self.predicted, self.spread = proposal.predicted_mean, proposal.predicted_sd
        self.reward_id, self.status = reward.id, reward.status
        self.value, self.uncertainty = reward.value, reward.uncertainty
        if self.selected and self.returned_at is None and reward.status != RewardStatus.PENDING:
            self.returned_at = reward.created_at


@dataclass(slots=True)
class Group:
    """Siblings of one prompt."""

    number: int
    members: dict[int, Member] = field(default_factory=dict)
    scale: float | None = None
    """Frozen at first use, with `baseline`."""
    baseline: float = 0.0
    own: list[tuple[int, float]] = field(default_factory=list)
    """Until it is frozen: what its members added to the running value, and as which value there."""
    frozen_now: bool = False
    """Frozen, but not yet written to the ledger."""


@dataclass(frozen=True, slots=True)
class Due:
    """A coefficient to be learned."""

    group_id: int
    member: Member
    coefficient: float
    taken_back: float = 0.0
    """What was learned by reuse and no longer holds, with the opposite sign."""
