"""The `monitors` section: every monitor under its own name; `null` turns one off, and each has an `action`."""

from __future__ import annotations

from pydantic import Field

from aliquot.domain import Noun
from aliquot.trainer.monitors.base import Monitor
from aliquot.trainer.monitors.designs import ModeCollapse, SizeDrift, ValidityDrift
from aliquot.trainer.monitors.numerics import GradientSpike, NonFinite, Precision
from aliquot.trainer.monitors.policy import DeadExperts, Divergence, EntropyCollapse
from aliquot.trainer.monitors.rewards import ComponentDominance, ProxyGap, ReplicateDisagreement


class MonitorsConfig(Noun):
    """What is watched while a policy learns, and what an alarm does."""

    non_finite: NonFinite | None = NonFinite()
    gradient_spike: GradientSpike | None = GradientSpike()
    precision: Precision | None = Precision()
    divergence: Divergence | None = Divergence()
    entropy_collapse: EntropyCollapse | None = EntropyCollapse()
    dead_experts: DeadExperts | None = DeadExperts()
    mode_collapse: ModeCollapse | None = ModeCollapse()
    validity_drift: ValidityDrift | None = ValidityDrift()
    size_drift: SizeDrift | None = SizeDrift()
    proxy_gap: ProxyGap | None = ProxyGap()
    component_dominance: ComponentDominance | None = ComponentDominance()
    replicate_disagreement: ReplicateDisagreement | None = ReplicateDisagreement()

    most_skips: int = Field(default=3, ge=1)
    """Steps skipped in a row; at one more the monitor asks for what it wants `then`."""
    settle: int = Field(default=50, ge=0)
    """Steps beyond the one that asked for a roll-back, up to which another one becomes a pause."""
    lowering: float = Field(default=0.5, gt=0, lt=1)
    """What the learning rate is multiplied by when an alarm lowers it or rolls back."""
    least_rate: float = Field(default=1 / 16, gt=0, le=1)
    """Part of the learning rate that is always left."""
    recovery: int = Field(default=50, ge=1)
    """Quiet steps in which a lowered learning rate doubles."""

    @property
    def monitors(self) -> dict[str, Monitor]:
        """Those that are on, by name."""
        return {name: monitor for name, monitor in self if isinstance(monitor, Monitor)}
