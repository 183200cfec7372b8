"""What a trainer writes into the ledger: dispositions, reuse, freezes, versions, status. Each call is inside one
transaction of the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlmodel import Session, col, select

from aliquot.domain import CampaignState
from aliquot.ledger import (
    CampaignRow,
    DispositionRow,
    GroupUseRow,
    PolicyVersionRow,
    ReuseRow,
    TrainerStatusRow,
    move,
    record,
)
from aliquot.trainer.batch import Reused
from aliquot.trainer.learning.book import CoefficientBook
from aliquot.trainer.learning.members import Due
from aliquot.trainer.monitors import Action, Alarm
from aliquot.trainer.policies import Policy, write_weights
from aliquot.trainer.step import Learned

KEEP_WEIGHTS = 4
"""Published weight files kept; a rollout engine needs only the newest."""


class Records:
    """Writes for one lineage of one campaign, at one step after another."""

    def __init__(self, campaign_id: int, folder: Path):
        self.campaign_id, self.folder = campaign_id, folder
        self.lineage_id, self.step = 0, 0

    def now(self, session: Session) -> float:
        """The campaign's lab clock, seconds."""
        return session.get(CampaignRow, self.campaign_id, populate_existing=True).clock  # type: ignore[union-attr]

    def learned(self, session: Session, items: Sequence[Learned]) -> None:
        """A disposition of each, and an entry for what was taken back of reuse."""
        at = self.now(session)
        for item in items:
            session.add(
                DispositionRow(
                    proposal_id=item.due.member.proposal_id, reward_id=item.due.member.reward_id,
                    lineage_id=self.lineage_id, step=self.step, tier=item.tier, applied=item.applied,
                    masked=item.masked, weight=item.weight, reason=item.reason, created_at=at,
                )
            )  # fmt: skip
            if item.due.taken_back:
                self._reuse(session, item.due.member.proposal_id, "taken_back", item.due.taken_back, at)

    def set_aside(self, session: Session, items: Sequence[tuple[Due, str]], kind: str | None = None) -> None:
        """A disposition of each that masks all that is due, with its reason; an event each when `kind` names one."""
        at = self.now(session)
        for due, reason in items:
            session.add(
                DispositionRow(
                    proposal_id=due.member.proposal_id, reward_id=due.member.reward_id, lineage_id=self.lineage_id,
                    step=self.step, masked=due.coefficient, reason=reason, created_at=at,
                )
            )  # fmt: skip
            if kind is not None:
                told = {"proposal": due.member.proposal_id, "reason": reason}
                record(session, self.campaign_id, at, kind, **told)

    def reused(self, session: Session, items: Sequence[Reused]) -> None:
        at = self.now(session)
        for item in items:
            self._reuse(session, item.member.proposal_id, item.kind, item.coefficient, at)

    def frozen(self, session: Session, book: CoefficientBook, groups: set[int]) -> None:
        """Enter the scale and prior of groups that are used for the first time."""
        for group_id in sorted(groups):
            group = book.groups[group_id]
            if group.frozen_now and group.scale is not None:
                session.add(
                    GroupUseRow(
                        group_id=group_id, lineage_id=self.lineage_id, step=self.step, scale=group.scale,
                        baseline=group.baseline,
                    )
                )  # fmt: skip
                group.frozen_now = False

    def write_weights(self, policy: Policy) -> str:
        """Write a file that nobody knows of yet; returns its name."""
        name = f"lineage-{self.lineage_id}-step-{self.step}.safetensors"
        write_weights(self.folder / "weights" / name, policy.model)
        return name

    def holds(self, version: PolicyVersionRow | None) -> bool:
        """Whether the file of a published version is there."""
        return version is not None and (self.folder / "weights" / version.weights).is_file()

    def publish(self, session: Session, weights: str) -> None:
        """Make a written file the newest policy version; all but the newest few files go."""
        version = PolicyVersionRow(
            campaign_id=self.campaign_id, lineage_id=self.lineage_id, step=self.step, weights=weights,
            created_at=self.now(session),
        )  # fmt: skip
        session.add(version)
        session.flush()
        mine = select(PolicyVersionRow.weights).where(PolicyVersionRow.campaign_id == self.campaign_id)
        kept = set(session.exec(mine.order_by(col(PolicyVersionRow.id).desc()).limit(KEEP_WEIGHTS)))
        for file in (self.folder / "weights").glob("*.safetensors"):
            if file.name not in kept:
                file.unlink(missing_ok=True)

    def alarms(self, session: Session, alarms: Sequence[Alarm]) -> None:
        """An event of each; one that pauses moves the campaign."""
        at = self.now(session)
        for alarm in alarms:
            record(session, self.campaign_id, at, "alarm", **alarm.model_dump(mode="json"))
        campaign = session.get(CampaignRow, self.campaign_id)
        pausing = [alarm for alarm in alarms if alarm.action is Action.PAUSE]
        if pausing and campaign is not None and campaign.state == CampaignState.RUNNING:
            move(session, campaign, CampaignState.PAUSED, at, reason=pausing[0].message)

    def status(self, session: Session, book: CoefficientBook, metrics: dict[str, float] | None) -> None:
        """How far the trainer has come, for those who wait for it."""
        row = session.get(TrainerStatusRow, self.campaign_id)
        row = row or TrainerStatusRow(campaign_id=self.campaign_id, metrics={})
        row.reward_seen, row.backlog, row.step = book.reward_seen, book.backlog, self.step
        row.metrics = metrics or row.metrics
        session.add(row)

    def _reuse(self, session: Session, proposal_id: int, kind: str, coefficient: float, at: float) -> None:
        session.add(
            ReuseRow(
                proposal_id=proposal_id, lineage_id=self.lineage_id, step=self.step, kind=kind,
                coefficient=coefficient, created_at=at,
            )
        )  # fmt: skip
