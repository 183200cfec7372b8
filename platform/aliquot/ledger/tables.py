"""Every table of the ledger. The ledger is the truth: what is not here did not happen.

Rows are facts. Facts are appended (trajectories, verdicts, measurements, rewards, dispositions, events, budget entries,
deliveries) or moved by compare-and-set along `transitions.MOVES` (campaigns, experiments, proposals). Times are lab
clock, Unix seconds. Identifiers are integers in order of birth; designs are named by their canonical key, so that many
proposals and experiments may share one.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import JSON, Column, Index, LargeBinary, MetaData, UniqueConstraint
from sqlmodel import Field, SQLModel

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Row(SQLModel):
    metadata: ClassVar[MetaData] = METADATA


def _json(nullable: bool = False) -> Any:
    return Field(sa_column=Column(JSON(none_as_null=nullable), nullable=nullable))


class CampaignRow(Row, table=True):
    __tablename__ = "campaign"

    id: int = Field(default=None, primary_key=True)
    name: str
    spec: dict[str, Any] = _json()
    """The campaign as submitted, every default filled in."""
    state: str = "draft"
    version: int = 0
    """Counts moves; every move is a compare-and-set on (state, version)."""
    reason: str = ""
    """Why it is in this state, for a person."""
    objective_version: int = 1
    clock: float
    """Lab time up to which it has lived; a virtual clock goes on from here."""
    lab_cursor: str = ""
    """Where in the lab's deliveries it stands."""
    created_at: float


class ObjectiveRow(Row, table=True):
    __tablename__ = "objective"
    __table_args__ = (UniqueConstraint("campaign_id", "version"),)

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    version: int
    spec: dict[str, Any] = _json()
    created_at: float


class DesignRow(Row, table=True):
    __tablename__ = "design"

    key: str = Field(primary_key=True)
    kind: str
    value: Any = _json()


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
    details: dict[str, Any] = _json()
    controls: list[str] = _json()
    error: dict[str, Any] | None = _json(nullable=True)
    seconds: float
    cost: float
    created_at: float


class VerifierMemoryRow(Row, table=True):
    """What a set verifier remembers, saved with the verdicts it led to."""

    __tablename__ = "verifier_memory"

    campaign_id: int = Field(foreign_key="campaign.id", primary_key=True)
    verifier: str = Field(primary_key=True)
    memory: Any = _json(nullable=True)


class ExperimentRow(Row, table=True):
    __tablename__ = "experiment"
    __table_args__ = (
        Index("ix_experiment_campaign_id_state", "campaign_id", "state"),
        Index("ix_experiment_campaign_id_design_key", "campaign_id", "design_key"),
    )

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    number: int
    """1, 2, 3, … within the campaign."""
    design_key: str = Field(foreign_key="design.key")
    lab: str
    assays: list[str] = _json()
    state: str = "selected"
    version: int = 0
    outcome: str | None = None
    reason: str = ""
    selected_at: float
    dispatched_at: float | None = None
    ended_at: float | None = None
    expires_at: float | None = None
    """When the campaign stops waiting."""


class AttemptRow(Row, table=True):
    """One dispatch. Written before the lab is called, so a crash between the two is known."""

    __tablename__ = "attempt"
    __table_args__ = (UniqueConstraint("key"), UniqueConstraint("experiment_id", "number"))

    id: int = Field(default=None, primary_key=True)
    experiment_id: int = Field(foreign_key="experiment.id")
    number: int
    key: str
    """Idempotency key that the lab sees."""
    started_at: float
    outcome: str | None = None
    note: str = ""


class InboxRow(Row, table=True):
    """Every delivery of a lab, as it came. Stored in the transaction that applies it."""

    __tablename__ = "inbox"
    __table_args__ = (UniqueConstraint("campaign_id", "lab", "delivery_id"),)

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    lab: str
    delivery_id: str
    body: dict[str, Any] = _json()
    state: str
    """`applied` or `quarantined`."""
    note: str = ""
    received_at: float


class MeasurementRow(Row, table=True):
    __tablename__ = "measurement"
    __table_args__ = (UniqueConstraint("experiment_id", "assay", "replicate", "revision"),)

    id: int = Field(default=None, primary_key=True)
    experiment_id: int = Field(foreign_key="experiment.id")
    inbox_id: int = Field(foreign_key="inbox.id")
    assay: str
    replicate: int
    revision: int
    value: float | None = None
    unit: str
    standard_error: float | None = None
    quality: str
    retracted: bool = False
    late: bool = False
    """Came after its experiment had ended for the campaign."""
    measured_at: float
    received_at: float


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


class BudgetEntryRow(Row, table=True):
    """Reserve when selected, settle when dispatched, refund when it never was. Amounts are what moved."""

    __tablename__ = "budget_entry"
    __table_args__ = (UniqueConstraint("experiment_id", "unit", "kind"),)

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    experiment_id: int = Field(foreign_key="experiment.id")
    unit: str
    kind: str
    amount: float
    created_at: float


class BudgetRow(Row, table=True):
    """One line of a campaign's budget; reserved + spent never exceed the limit."""

    __tablename__ = "budget"

    campaign_id: int = Field(foreign_key="campaign.id", primary_key=True)
    unit: str = Field(primary_key=True)
    """`experiments`, `money`, `hours`, …"""
    limit: float
    reserved: float = 0.0
    spent: float = 0.0


class TrainerStatusRow(Row, table=True):
    """How far the trainer has come, for those who wait for it or watch it."""

    __tablename__ = "trainer_status"

    campaign_id: int = Field(foreign_key="campaign.id", primary_key=True)
    reward_seen: int = 0
    """Highest reward id whose consequences are in the trainer's queue."""
    backlog: int = 0
    """Proposals with a coefficient still to be learned."""
    step: int = 0
    metrics: dict[str, Any] = _json()
    """Metrics of the last step."""


class EventRow(Row, table=True):
    """What happened, gapless within a campaign."""

    __tablename__ = "event"
    __table_args__ = (UniqueConstraint("campaign_id", "sequence"),)

    id: int = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    sequence: int
    at: float
    kind: str
    data: dict[str, Any] = _json()
