"""Who learns beside a campaign: the trainer in this process, in one of its own, or nobody.

Campaign and trainer speak through the ledger alone. On a virtual clock, which could outrun any trainer, a campaign
begins a round only when all that was known at the end of the last one has been learned; what the lab says in the round
is learned while the campaign proposes, verifies and selects.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Protocol

from aliquot.campaigns.context import RunFolder
from aliquot.domain import AliquotError, CampaignState
from aliquot.ledger import CampaignRow, Ledger, TrainerStatusRow
from aliquot.trainer.loop import Trainer


class TrainerDied(AliquotError):
    """The trainer's process ended by itself."""


class Learner(Protocol):
    def advance(self, rewards: int) -> None:
        """Let it learn; return when all that follows from rewards up to id `rewards` has been learned (0: at once), or
        when a monitor of the trainer has paused the campaign."""
        ...

    def finish(self) -> None:
        """Learn what is due, account for the rest, save, and end."""
        ...

    def stop(self) -> None:
        """Save and end; it will go on when the campaign is resumed."""
        ...

    def close(self) -> None:
        """Give up what is held, however the campaign ended; nothing is saved."""
        ...


class InlineLearner:
    """The trainer in this process: deterministic."""

    def __init__(self, ledger: Ledger, folder: RunFolder, campaign_id: int):
        self.trainer = Trainer(ledger, folder.root, campaign_id)

    def advance(self, rewards: int) -> None:
        self.trainer.run_pending()

    def finish(self) -> None:
        self.trainer.finish()

    def stop(self) -> None:
        self.trainer.save()

    def close(self) -> None:
        self.trainer.close()


class ProcessLearner:
    """The trainer in a process of its own.

    Raises:
        TrainerDied: from any method, with the end of what the process said.
    """

    def __init__(self, ledger: Ledger, folder: RunFolder, campaign_id: int):
        self.ledger, self.campaign_id = ledger, campaign_id
        self.log = (folder.root / "trainer.log").open("ab")
        command = [sys.executable, "-m", "aliquot.trainer.worker", str(folder.root), str(ledger.path), str(campaign_id)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=environment,
            start_new_session=True,  # a signal to the group is this process's to handle; the end of its input tells it
        )  # fmt: skip
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != b"ready":
            self._died()

    def advance(self, rewards: int) -> None:
        while self.process.poll() is None:
            with self.ledger.read() as session:
                status = session.get(TrainerStatusRow, self.campaign_id)
                campaign = session.get(CampaignRow, self.campaign_id)
            if campaign is not None and campaign.state != CampaignState.RUNNING:
                return
            if rewards == 0 or (status is not None and status.reward_seen >= rewards and status.backlog == 0):
                return
            time.sleep(0.01)
        self._died()

    def finish(self) -> None:
        self._end(b"finish\n")

    def stop(self) -> None:
        self._end(b"")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.log.close()

    def _end(self, order: bytes) -> None:
        if self.process.poll() == 0:
            return  # it was told before
        if self.process.returncode is not None:
            self._died()
        self.process.communicate(order)
        if self.process.returncode != 0:
            self._died()

    def _died(self) -> None:
        self.process.wait()
        tail = open(self.log.name, "rb").read()[-2000:].decode(errors="replace")  # noqa: SIM115
        raise TrainerDied(
            f"the trainer's process ended with code {self.process.returncode}; nothing is lost, resume the run. "
            f"It said last:\n{tail}"
        )


class NoLearner:
    """Learning is off: the policy stays the prior. One trainer opens the lineage, so that version 1 is published."""

    def __init__(self, ledger: Ledger, folder: RunFolder, campaign_id: int):
        Trainer(ledger, folder.root, campaign_id).close()

    def advance(self, rewards: int) -> None:
        return None

    def finish(self) -> None:
        return None

    def stop(self) -> None:
        return None

    def close(self) -> None:
        return None
