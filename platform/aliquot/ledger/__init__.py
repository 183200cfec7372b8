"""The durable record: tables, allowed moves, budget, lineages, events, artifacts. No policy and no HTTP here."""

from aliquot.ledger.artifacts import INLINE_LIMIT, ArtifactStore, DamagedArtifact, seal, unseal
from aliquot.ledger.events import record
from aliquot.ledger.store import Ledger
from aliquot.ledger.tables import (
    AttemptRow,
    BudgetEntryRow,
    BudgetRow,
    CampaignRow,
    CheckpointRow,
    DesignRow,
    DispositionRow,
    EventRow,
    ExperimentRow,
    GroupRow,
    GroupUseRow,
    InboxRow,
    JudgementRow,
    LineageRow,
    MeasurementRow,
    ObjectiveRow,
    PolicyVersionRow,
    ProposalRow,
    ReuseRow,
    RewardRow,
    TrainerStatusRow,
    TrajectoryRow,
    VerdictRow,
    VerifierMemoryRow,
)
from aliquot.ledger.transitions import MOVES, StaleTransition, move

__all__ = [
    "INLINE_LIMIT", "MOVES", "ArtifactStore", "AttemptRow", "BudgetEntryRow", "BudgetRow", "CampaignRow",
    "CheckpointRow", "DamagedArtifact", "DesignRow", "DispositionRow", "EventRow", "ExperimentRow", "GroupRow",
    "GroupUseRow", "InboxRow", "JudgementRow", "Ledger", "LineageRow", "MeasurementRow", "ObjectiveRow",
    "PolicyVersionRow",
    "ProposalRow", "ReuseRow", "RewardRow", "StaleTransition", "TrainerStatusRow", "TrajectoryRow", "VerdictRow",
    "VerifierMemoryRow", "move", "record", "seal", "unseal",
]  # fmt: skip
