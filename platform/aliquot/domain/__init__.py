"""The nouns of Aliquot: pydantic models without I/O. This room imports nothing else of the project."""

from aliquot.domain.base import Noun
from aliquot.domain.design import Design
from aliquot.domain.errors import AliquotError, ConfigError, InvalidDesign
from aliquot.domain.experiment import Attempt, CampaignState, ExperimentState, Measurement, Quality
from aliquot.domain.objective import Desirability, Objective, Ramp, Target, Window
from aliquot.domain.reward import Disposition, Reward, RewardStatus, Tier
from aliquot.domain.spaces import Codec, ConditionsSpace, DesignSpace, MoleculeSpace, SequenceSpace
from aliquot.domain.trajectory import Sampling, StopReason, Trajectory, VersionSpan
from aliquot.domain.verdict import RULES, Outcome, RewardRule, Verdict, VerdictError

__all__ = [
    "RULES", "AliquotError", "Attempt", "CampaignState", "Codec", "ConditionsSpace", "ConfigError", "Design",
    "DesignSpace", "Desirability", "Disposition", "ExperimentState", "InvalidDesign", "Measurement", "MoleculeSpace",
    "Noun", "Objective", "Outcome", "Quality", "Ramp", "Reward", "RewardRule", "RewardStatus", "Sampling",
    "SequenceSpace", "StopReason", "Target", "Tier", "Trajectory", "Verdict", "VerdictError", "VersionSpan", "Window",
]  # fmt: skip
