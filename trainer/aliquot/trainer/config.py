"""The `learning` section of a campaign: what the trainer does with the rewards it finds."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from aliquot.domain import DesignSpace, Noun, Sampling
from aliquot.trainer.anchors import AnchorConfig, KLAnchor
from aliquot.trainer.correction import CorrectionConfig, MaskConfig, Truncated
from aliquot.trainer.learning.reuse import ReuseConfig
from aliquot.trainer.learning.samplers import FreshestFirst, SamplerConfig
from aliquot.trainer.learning.tiers import TierConfig
from aliquot.trainer.learning.values import BaselineConfig
from aliquot.trainer.losses import LossConfig, Reinforce, conflicts
from aliquot.trainer.monitors import MonitorsConfig
from aliquot.trainer.policies.adapters import LoraConfig
from aliquot.trainer.policies.architecture import Architecture
from aliquot.trainer.shaping import ShapingConfig


class RoutingConfig(Noun):
    """Router replay (R3) of mixture-of-experts policies."""

    replay: bool = True
    """Send each token through the experts that the sampler used."""
    least_overlap: float = Field(default=0.5, ge=0, le=1)
    """A sequence whose recorded and live experts overlap less than this, on average, falls back to native routing."""
    balance: float = Field(default=0.01, ge=0)
    """Weight of the load-balancing loss of native routing, and its usual value (Fedus et al. 2021, eq. 4); 0: none."""
    revive: bool = True
    """Give an expert that dies the weights of the busiest of its layer, with a little noise."""


class LearningConfig(Noun):
    """How rewards become gradients."""

    enabled: bool = True
    """Off: the policy stays the prior, and the campaign only selects."""
    learning_rate: float = Field(default=5e-4, gt=0)
    batch_size: int = Field(default=64, ge=1)
    """Sequences a step."""
    micro_batch_tokens: int = Field(default=16_384, ge=1)
    """Tokens, padding included, that one backward pass holds; a larger batch is accumulated, exactly."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the trainer's forward pass; weights, logits and gradients stay float32."""
    max_gradient_norm: float = Field(default=1.0, gt=0)
    loss: LossConfig = Reinforce()
    """How a coefficient is learned for the first time. What is taken back is always learned by `reinforce`."""
    correction: CorrectionConfig = Truncated()
    masks: tuple[MaskConfig, ...] = ()
    """What is held back of first coefficients, beside what the tiers hold back."""
    revisions: Literal["difference", "replace", "wait"] = "difference"
    """`difference`: a changed advantage is learned as its difference. `replace`: what was learned is taken back whole
    and the new one learned whole, so that masks see all of it. `wait`: nothing is learned before the last word."""
    shrinkage: Literal["posterior", "none"] = "none"
    """Whether a noisy result is shrunk toward what the surrogate expected. That takes the surrogate's spread for a
    belief, and a forest is often surer than it should be."""
    selection: Literal["doubly_robust", "none"] = "doubly_robust"
    """Whether what the lab was shown is corrected for how it was chosen."""
    censoring: Literal["inverse_propensity", "none"] = "none"
    """Whether what is back is corrected for what is still out, by how long results take."""
    max_inverse_probability: float = Field(default=5.0, ge=1)
    """Bound of the inverse probability in the doubly-robust value."""
    baseline: BaselineConfig = BaselineConfig()
    anchor: AnchorConfig = KLAnchor()
    shaping: tuple[ShapingConfig, ...] = ()
    """Per-token rewards that follow from the sequence alone; given once, never revised."""
    tiers: TierConfig = TierConfig()
    routing: RoutingConfig = RoutingConfig()
    sampler: SamplerConfig = FreshestFirst()
    """Which due coefficients a step takes when more are due than it holds."""
    reuse: tuple[ReuseConfig, ...] = ()
    """What is learned from more than once."""
    monitors: MonitorsConfig = MonitorsConfig()
    """What is watched while the policy learns, and what an alarm does."""
    lora: LoraConfig | None = None
    """Low-rank adapters in place of the whole model; none by default."""
    tolerance: float = Field(default=0.05, ge=0)
    """A coefficient smaller than this waits for company; what still waits at the end is recorded as masked."""
    checkpoint_every: int = Field(default=20, ge=1)
    """Steps between checkpoints."""
    keep_checkpoints: int = Field(default=3, ge=1)
    """The newest so many are kept, and the best."""

    @model_validator(mode="after")
    def _sound(self):
        problems = conflicts(self.loss, self.correction)
        if not self.loss.revisable and self.revisions != "wait":
            problems.append(
                f"loss {self.loss.type!r} cannot learn a revised reward as a difference: use `revisions: wait`, or "
                "`loss: {type: reinforce}` and this one under `reuse: [{type: clipped, loss: …}]`"
            )
        if self.baseline.scale == "group_std" and self.revisions != "wait":
            problems.append(
                "`baseline.scale: group_std` moves with every sibling's result, so what was learned could not be "
                "taken back: use `scale: running`, or `revisions: wait`"
            )
        if not self.anchor.revisable and self.revisions != "wait":
            problems.append(
                f"anchor {self.anchor.type!r} learns from rewards by itself, and what it learned of a revised one "
                "would stay: use `revisions: wait`, or `anchor: {type: kl}`"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self


class PolicyConfig(Noun):
    """Which language model proposes."""

    init: str = Field(default="fresh", min_length=1)
    """`fresh` (made new for the design space), a shipped prior (`zinc-dense`, `zinc-moe`), or a folder with a Hugging
    Face causal LM whose tokenizer fits the space."""
    architecture: Architecture | None = None
    """Shape of a fresh policy; the default is a small dense one."""
    temperature: float = Field(default=1.0, gt=0)
    """Of every proposal, and of the trainer's probabilities. Nothing is truncated: top-p, top-k and min-p would cut
    probability away behind the importance ratio's back."""

    @property
    def sampling(self) -> Sampling:
        return Sampling(temperature=self.temperature)


class TrainingSpec(BaseModel):
    """The part of a campaign that the trainer reads; it does not look at the rest."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    seed: int
    space: DesignSpace
    policy: PolicyConfig
    learning: LearningConfig
