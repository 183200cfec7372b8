"""What was worth what, what the trainer did with it, and which weights that gave."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Index, UniqueConstraint
from sqlmodel import Field

from aliquot.ledger.tables.base import Row, json_column


class RewardRow(Row, table=True):
    """Append-only. The trainer follows `id` as news; a proposal's highest revision is what holds."""

    __tablename__ = "reward"
    __table_args__ = (
        UniqueConstraint("proposal_id", "objective_version", "revision"),
        Index("ix_reward_campaign_id_id", "campaign_id", "id"),
    )

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    proposal_id: int = Field(foreign_key="proposal.id")
    objective_version: int
    revision: int
    status: str
    value: float | None = None
    uncertainty: float | None = None
    completeness: float
    created_at: float


class LineageRow(Row, table=True):
    """A branch of the tree of checkpoints. A roll-back, and a crash, fork it."""

    __tablename__ = "lineage"

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id", index=True)
    parent_id: int | None = Field(default=None, foreign_key="lineage.id")
    fork_step: int = 0
    """The last step of the parent that this branch keeps."""
    reason: str = ""
    created_at: float


class PolicyVersionRow(Row, table=True):
    """One set of published weights; its id is the policy version in every trajectory."""

    __tablename__ = "policy_version"

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id", index=True)
    lineage_id: int = Field(foreign_key="lineage.id")
    step: int
    weights: str
    """File name under the campaign's `weights` folder."""
    created_at: float


class CheckpointRow(Row, table=True):
    __tablename__ = "checkpoint"

    id: int = Field(default=None, primary_key=True)
    lineage_id: int = Field(foreign_key="lineage.id", index=True)
    step: int
    path: str
    """File name under the campaign's `checkpoints` folder."""
    digest: str
    created_at: float


class DispositionRow(Row, table=True):
    __tablename__ = "disposition"
    __table_args__ = (
        Index("ix_disposition_lineage_id_step", "lineage_id", "step"),
        Index("ix_disposition_proposal_id", "proposal_id"),
    )

    id: int = Field(default=None, primary_key=True)
    proposal_id: int = Field(foreign_key="proposal.id")
    reward_id: int = Field(foreign_key="reward.id")
    lineage_id: int = Field(foreign_key="lineage.id")
    step: int
    tier: str | None = None
    applied: float = 0.0
    masked: float = 0.0
    weight: float | None = None
    reason: str = ""
    created_at: float


class ReuseRow(Row, table=True):
    """A proposal was learned from once more, beside its own coefficient: counted apart, under a declared budget."""

    __tablename__ = "reuse"
    __table_args__ = (Index("ix_reuse_lineage_id_step", "lineage_id", "step"),)

    id: int = Field(default=None, primary_key=True)
    proposal_id: int = Field(foreign_key="proposal.id")
    lineage_id: int = Field(foreign_key="lineage.id")
    step: int
    kind: str
    """`clipped`, `augmented`, `imitation`, or `taken_back`."""
    coefficient: float
    created_at: float


class GroupUseRow(Row, table=True):
    """Frozen at a group's first use on a lineage: the scale of its advantages and the prior of its baseline."""

    __tablename__ = "group_use"

    group_id: int = Field(foreign_key="proposal_group.id", primary_key=True)
    lineage_id: int = Field(foreign_key="lineage.id", primary_key=True)
    step: int
    scale: float
    baseline: float


class TrainerStatusRow(Row, table=True):
    """How far the trainer has come, for those who wait for it or watch it."""

    __tablename__ = "trainer_status"

    campaign_id: int = Field(foreign_key="campaign.id", primary_key=True)
    reward_seen: int = 0
    """Highest reward id whose consequences are in the trainer's queue."""
    backlog: int = 0
    """Proposals with a coefficient still to be learned."""
    step: int = 0
    metrics: dict[str, Any] = json_column()
    """Metrics of the last step."""
