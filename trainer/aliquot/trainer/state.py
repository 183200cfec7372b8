"""What a trainer is made of, and what a checkpoint holds of it.

Always true here: `load` after `save` gives a trainer that goes on bit for bit. What was consumed is not in it: that is
the dispositions on the branch, which the book reads anew.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from sqlmodel import Session
from torch import Tensor

from aliquot.ledger import LineageRow
from aliquot.ledger import lineages as branches
from aliquot.trainer.config import TrainingSpec
from aliquot.trainer.learning import DivergenceGauge
from aliquot.trainer.learning.book import CoefficientBook
from aliquot.trainer.monitors import Watch
from aliquot.trainer.policies import load_policy
from aliquot.trainer.policies.adapters import restore_trained, trained_state, with_lora
from aliquot.trainer.policies.precision import use_precision


class TrainingState:
    """Policy, optimiser and running statistics of one campaign's trainer.

    Args:
        spec: of the campaign.
        campaign_id: whose facts the book follows.
    """

    def __init__(self, spec: TrainingSpec, campaign_id: int):
        self.spec, self.config, self.campaign_id = spec, spec.learning, campaign_id
        prior = load_policy(spec.policy.init, spec.space, spec.policy.architecture, spec.seed)
        self.reference = copy.deepcopy(prior)
        self.reference.model.requires_grad_(False)
        self.policy = with_lora(prior, self.config.lora, spec.seed) if self.config.lora else prior
        for one in (self.policy, self.reference):
            use_precision(one.model, self.config.precision)
        self._untrained = copy.deepcopy(trained_state(self.policy))
        self.watch = Watch(self.config.monitors)
        self._begin()

    def _begin(self) -> None:
        learned = [one for one in self.policy.model.parameters() if one.requires_grad]
        self.optimiser = torch.optim.AdamW(learned, lr=self.config.learning_rate, betas=(0.9, 0.99), weight_decay=0.0)
        self.gauge, self.book = DivergenceGauge(), CoefficientBook(self.campaign_id, self.config)
        self.loads: Tensor | None = None

    def save(self) -> dict[str, Any]:
        """Tensors and plain values, for a checkpoint."""
        return {
            "policy": trained_state(self.policy),
            "optimiser": self.optimiser.state_dict(),
            "gauge": self.gauge.readings,
            "book": self.book.state(),
            "watch": self.watch.state(),
            "loads": self.loads,
        }

    def load(self, saved: dict[str, Any] | None) -> None:
        """Take what `save` gave; None: as it was before the first step. Monitors keep what a roll-back taught them."""
        self._begin()
        restore_trained(self.policy, saved["policy"] if saved else self._untrained)
        self.watch.restore(saved["watch"] if saved else None)
        if saved is not None:
            self.optimiser.load_state_dict(saved["optimiser"])
            self.gauge.readings = saved["gauge"]
            self.book.restore(saved["book"])
            self.loads = saved["loads"]

    def follow(self, session: Session, lineage: LineageRow) -> None:
        """Read what the branch has consumed; what is due follows from the rewards."""
        self.book.open(session, branches.branch(session, lineage))
