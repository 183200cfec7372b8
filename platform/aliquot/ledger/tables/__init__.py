"""Every table of the ledger. The ledger is the truth: what is not here did not happen.

Rows are facts. Facts are appended (trajectories, verdicts, measurements, rewards, dispositions, events, budget entries,
deliveries) or moved by compare-and-set along `transitions.MOVES` (campaigns, experiments, proposals). Times are lab
clock, Unix seconds. Identifiers are integers in order of birth; designs are named by their canonical key, so that many
proposals and experiments may share one.
"""

from aliquot.ledger.tables.base import METADATA, Row
from aliquot.ledger.tables.campaigns import (
    BudgetEntryRow,
    BudgetRow,
    CampaignRow,
    EventRow,
    ObjectiveRow,
)
from aliquot.ledger.tables.experiments import (
    AttemptRow,
    ExperimentRow,
    InboxRow,
    MeasurementRow,
)
from aliquot.ledger.tables.learning import (
    CheckpointRow,
    DispositionRow,
    GroupUseRow,
    LineageRow,
    PolicyVersionRow,
    ReuseRow,
    RewardRow,
    TrainerStatusRow,
)
from aliquot.ledger.tables.proposals import (
    DesignRow,
    GroupRow,
    JudgementRow,
    ProposalRow,
    TrajectoryRow,
    VerdictRow,
    VerifierMemoryRow,
)

__all__ = [
    "AttemptRow",
    "BudgetEntryRow",
    "BudgetRow",
    "CampaignRow",
    "CheckpointRow",
    "DesignRow",
    "DispositionRow",
    "EventRow",
    "ExperimentRow",
    "GroupRow",
    "GroupUseRow",
    "InboxRow",
    "JudgementRow",
    "LineageRow",
    "METADATA",
    "MeasurementRow",
    "ObjectiveRow",
    "PolicyVersionRow",
    "ProposalRow",
    "ReuseRow",
    "RewardRow",
    "Row",
    "TrainerStatusRow",
    "TrajectoryRow",
    "VerdictRow",
    "VerifierMemoryRow",
]
