"""Sees to it that what is wanted of each campaign is what happens, again and again, from what stands on disk.

A sweep compares `wanted` with the worker that is alive or not, and starts, stops or cancels. Nothing is remembered that
a restart would miss: a server that was killed finds the workers it left behind by their locks. Workers beyond the limit
wait their turn, oldest first.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

from aliquot.api.folders import CampaignFolder, Folders, Wanted
from aliquot.campaigns.run import ENDED
from aliquot.domain import CampaignState
from aliquot.ledger import move

logger = logging.getLogger(__name__)
SWEEP_EVERY = 0.5
"""Seconds."""
CRASHES = 3
"""A worker that is killed so often without finishing is not started again until a person says so."""
SHUTDOWN_WAIT = 60.0
"""Longest wait, in seconds, for workers to finish their round when the server stops."""


class Supervisor:
    """Keeps the workers of a server's campaigns.

    Args:
        limit: workers alive at once.
    """

    def __init__(self, folders: Folders, limit: int):
        self.folders, self.limit = folders, limit
        self._children: dict[str, subprocess.Popen] = {}
        self._crashes: Counter[str] = Counter()
        self._ended: set[str] = set()
        self._told: set[int] = set()
        self._stop = threading.Event()
        # One long-lived thread starts every worker: a child that dies with its parent dies with the thread.
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop sweeping, and let the workers finish their round; what is wanted of the campaigns stays as it is."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        deadline = time.monotonic() + SHUTDOWN_WAIT
        while time.monotonic() < deadline:
            told = [self._tell(folder) for folder in self.folders.all()]
            if not any(told) and all(child.poll() is not None for child in self._children.values()):
                return
            time.sleep(0.1)

    def sweep(self) -> None:
        """Look at every campaign once."""
        working, waiting = 0, []
        for folder in self.folders.all():
            if folder.id in self._ended:
                continue
            try:
                alive, starts = self._look_at(folder)
            except Exception:  # a damaged ledger, whatever it raises, is that campaign's affair alone
                logger.exception("campaign %s cannot be looked after; the others are", folder.id)
                continue
            working += alive
            if starts:
                waiting.append(folder)
        for folder in waiting[: max(0, self.limit - working)]:
            self._start(folder)

    def _look_at(self, folder: CampaignFolder) -> tuple[bool, bool]:
        """(whether a worker has it, whether it waits for one); does what else is wanted of it."""
        alive, wanted = self._alive(folder), folder.wanted
        if alive:
            if wanted is not Wanted.RUNNING:
                self._tell(folder)
        elif self._is_over(folder, wanted):
            self._ended.add(folder.id)
        elif wanted is Wanted.CANCELLED:
            self._cancel(folder)
        else:
            return False, wanted is Wanted.RUNNING
        return alive, False

    def _watch(self) -> None:
        while not self._stop.is_set():
            try:
                self.sweep()
            except Exception:  # one campaign's damaged folder must not end the watch over the others
                logger.exception("a sweep failed; trying again")
            self._stop.wait(SWEEP_EVERY)

    def _alive(self, folder: CampaignFolder) -> bool:
        """Whether a worker has it, ours or one that an earlier server left; notes how ours ended."""
        child = self._children.get(folder.id)
        if child is not None:
            code = child.poll()
            if code is None:
                return True
            del self._children[folder.id]
            self._crashes[folder.id] = self._crashes[folder.id] + 1 if code < 0 or code > 1 else 0
            if self._crashes[folder.id] >= CRASHES:
                del self._crashes[folder.id]
                folder.want(Wanted.PAUSED, f"its process ended {CRASHES} times with code {code}; see {folder.log}")
        return folder.worker() is not None

    def _is_over(self, folder: CampaignFolder, wanted: Wanted) -> bool:
        """Whether nothing is left to do: it has ended, and its results are written or nobody wants them."""
        state = self.folders.state(folder)
        written = folder.report.exists() or state is CampaignState.CANCELLED or wanted is not Wanted.RUNNING
        return state in ENDED and written

    def _start(self, folder: CampaignFolder) -> None:
        with folder.log.open("ab") as log:
            self._children[folder.id] = subprocess.Popen(
                [sys.executable, "-m", "aliquot.api.worker", str(folder.root)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _tell(self, folder: CampaignFolder) -> bool:
        """Ask its worker, once, to stop after the round; whether there is one."""
        worker = folder.worker()
        if worker is not None and worker not in self._told:
            self._told.add(worker)
            os.kill(worker, signal.SIGTERM)
        return worker is not None

    def _cancel(self, folder: CampaignFolder) -> None:
        """Nothing works on it any more: write the end into its ledger, where it has one."""
        ledger, campaign = self.folders.ledger(folder), self.folders.campaign(folder)
        if ledger is not None and campaign is not None:
            with ledger.write() as session:
                move(session, session.merge(campaign), "cancelled", campaign.clock, reason="cancelled by request")
