"""What was proposed, and what verifiers said of it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Index, LargeBinary, UniqueConstraint
from sqlmodel import Field

from aliquot.ledger.tables.base import Row, json_column


class DesignRow(Row, table=True):
    __tablename__ = "design"

    key: str = Field(primary_key=True)
    kind: str
    value: Any = json_column()


class GroupRow(Row, table=True):
    """Siblings of one prompt: a baseline is taken among them."""

    __tablename__ = "proposal_group"
    __table_args__ = (UniqueConstraint("campaign_id", "number"),)

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    number: int
    """1, 2, … within the campaign, 0 for known designs: with the campaign's seed it fixes the random stream."""
    source: str
    """Which policy or person proposed."""
    created_at: float


class TrajectoryRow(Row, table=True):
    __tablename__ = "trajectory"

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id", index=True)
    digest: str
    """sha256 of the sealed record; checked at every reading."""
    policy_version: int = Field(foreign_key="policy_version.id")
    """Oldest version among its tokens."""
    tokens: int
    sealed: bytes | None = Field(default=None, sa_column=Column(LargeBinary))
    """The record itself, when small."""
    artifact: str | None = None
    """Hash of the record in the artifact store, when large."""


class ProposalRow(Row, table=True):
    """One trajectory (or none) joined to one design, inside one group."""

    __tablename__ = "proposal"
    __table_args__ = (
        UniqueConstraint("group_id", "position"),
        Index("ix_proposal_campaign_id_state", "campaign_id", "state"),
        Index("ix_proposal_campaign_id_design_key", "campaign_id", "design_key"),
    )

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    group_id: int = Field(foreign_key="proposal_group.id")
    position: int
    trajectory_id: int | None = Field(default=None, foreign_key="trajectory.id")
    design_key: str | None = Field(default=None, foreign_key="design.key")
    """None: the text did not name a design."""
    text: str
    """What was proposed, as written."""
    state: str = "proposed"
    version: int = 0
    outcome: str | None = None
    """Set when it never reaches the lab, or when its experiment ended."""
    reason: str = ""
    selection_probability: float | None = None
    """Chance with which the lab would see it, as selection was designed; 1 when its design was measured already."""
    predicted_mean: float | None = None
    """The surrogate's mean of the objective when it was selected or passed over, before its own result."""
    predicted_sd: float | None = None
    experiment_id: int | None = Field(default=None, foreign_key="experiment.id", index=True)
    """The experiment whose measurements credit it."""
    off_policy: bool = False
    """Edited by a person, or from a proposer without log-probabilities."""
    created_at: float


class VerdictRow(Row, table=True):
    __tablename__ = "verdict"
    __table_args__ = (Index("ix_verdict_campaign_id_design_key", "campaign_id", "design_key"),)

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    design_key: str = Field(foreign_key="design.key")
    verifier: str
    plugin_version: str
    digest: str
    score: float | None = None
    accepted: bool | None = None
    reason: str = ""
    details: dict[str, Any] = json_column()
    controls: list[str] = json_column()
    error: dict[str, Any] | None = json_column(nullable=True)
    seconds: float
    cost: float
    created_at: float


class JudgementRow(Row, table=True):
    """What a ladder has said so far of a design of which a slow verifier has not spoken yet; gone once it has."""

    __tablename__ = "judgement"

    campaign_id: int = Field(foreign_key="campaign.id", primary_key=True)
    design_key: str = Field(foreign_key="design.key", primary_key=True)
    board: dict[str, Any] = json_column()
    """The judgement whole, with the tickets that were given."""
    asked_at: float
    """Wall clock, Unix seconds: verifiers work in real time, whatever clock the lab has."""


class VerifierMemoryRow(Row, table=True):
    """What a set verifier remembers, saved with the verdicts it led to."""

    __tablename__ = "verifier_memory"

    campaign_id: int = Field(foreign_key="campaign.id", primary_key=True)
    verifier: str = Field(primary_key=True)
    memory: Any = json_column(nullable=True)
