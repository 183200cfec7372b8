"""What every phase of a campaign's round is given."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sqlmodel import Session

from aliquot.campaigns.guard import GuardedLab
from aliquot.campaigns.spec import CampaignSpec
from aliquot.clock import Clock
from aliquot.domain import Codec, Design
from aliquot.lab_adapters.sdk import LabDescription
from aliquot.ledger import CampaignRow, DesignRow, Ledger
from aliquot.surrogates import ObjectiveSurrogate
from aliquot.trainer.rollout import RolloutEngine
from aliquot.verifiers.ladder import VerifierLadder


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps what it makes."""

    root: Path

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.db"

    @property
    def weights(self) -> Path:
        return self.root / "weights"

    @property
    def lab(self) -> Path:
        """The simulated lab's own records, apart from ours as a real lab's would be."""
        return self.root / "lab.db"


@dataclass
class Context:
    """One running campaign."""

    ledger: Ledger
    campaign_id: int
    spec: CampaignSpec
    folder: RunFolder
    clock: Clock
    lab: GuardedLab
    description: LabDescription
    ladder: VerifierLadder
    rollouts: RolloutEngine
    codec: Codec
    surrogate: ObjectiveSurrogate

    @property
    def objective(self):
        return self.spec.objective

    def campaign(self, session: Session) -> CampaignRow:
        row = session.get(CampaignRow, self.campaign_id)
        assert row is not None
        return row

    def random(self, purpose: str, number: int) -> np.random.Generator:
        """A random stream fixed by the campaign's seed, what it is for, and a number."""
        return np.random.default_rng(self.seed(purpose, number))

    def seed(self, purpose: str, number: int) -> int:
        """63 bits from the campaign's seed, a purpose and a number."""
        text = f"{self.spec.seed}/{purpose}/{number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def design_of(row: DesignRow) -> Design:
    return Design(kind=row.kind, value=row.value)
