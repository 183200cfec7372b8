"""The `learning` section of a campaign: what the trainer does with the rewards it finds."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from aliquot.domain import DesignSpace, Noun
from aliquot.trainer.correction import CorrectionConfig
from aliquot.trainer.learning.advantage import BaselineConfig
from aliquot.trainer.learning.tiers import TierConfig
from aliquot.trainer.policies.architecture import Architecture


class AnchorConfig(Noun):
    """KL(π‖prior), summed over tokens, mean over sequences, times `coefficient`."""

    type: Literal["kl"] = "kl"
    coefficient: float = Field(default=0.02, ge=0)


class RoutingConfig(Noun):
    """Router replay (R3) of mixture-of-experts policies."""

    replay: bool = True
    """Send each token through the experts that the sampler used."""
    least_overlap: float = Field(default=0.5, ge=0, le=1)
    """A sequence whose recorded and live experts overlap less than this, on average, falls back to native routing."""


class LearningConfig(Noun):
    """How rewards become gradients."""

    enabled: bool = True
    """Off: the policy stays the prior, and the campaign only selects."""
    learning_rate: float = Field(default=5e-4, gt=0)
    batch_size: int = Field(default=64, ge=1)
    """Sequences a step."""
    max_gradient_norm: float = Field(default=1.0, gt=0)
    correction: CorrectionConfig = CorrectionConfig()
    baseline: BaselineConfig = BaselineConfig()
    anchor: AnchorConfig = AnchorConfig()
    tiers: TierConfig = TierConfig()
    routing: RoutingConfig = RoutingConfig()
    selection: Literal["doubly_robust", "none"] = "doubly_robust"
    """Whether what the lab was shown is corrected for how it was chosen."""
    max_inverse_probability: float = Field(default=5.0, ge=1)
    """Bound of 1/s in the doubly-robust value."""
    order: Literal["freshest_first", "oldest_first"] = "freshest_first"
    """Which due coefficients a step takes when more are due than it holds."""
    tolerance: float = Field(default=0.05, ge=0)
    """A coefficient smaller than this waits for company; what still waits at the end is recorded as masked."""
    checkpoint_every: int = Field(default=20, ge=1)
    """Steps between checkpoints."""
    keep_checkpoints: int = Field(default=3, ge=1)


class PolicyConfig(Noun):
    """Which language model proposes."""

    init: str = Field(default="fresh", min_length=1)
    """`fresh` (made new for the design space), a shipped prior (`zinc-dense`, `zinc-moe`), or a folder with a Hugging
    Face causal LM whose tokenizer fits the space."""
    architecture: Architecture | None = None
    """Shape of a fresh policy; the default is a small dense one."""


class TrainingSpec(BaseModel):
    """The part of a campaign that the trainer reads; it does not look at the rest."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    seed: int
    space: DesignSpace
    policy: PolicyConfig
    learning: LearningConfig
