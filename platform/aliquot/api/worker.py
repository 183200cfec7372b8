"""`python -m aliquot.api.worker FOLDER`: the process that works on one campaign of the server.

It holds the folder's lock for life, so that there is never a second. SIGTERM ends it after the round under way, with
everything saved. What goes wrong inside becomes the campaign's state `failed` with its reason; the traceback is in the
log, and the campaign waits for a person to mend the cause and resume it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aliquot.api.folders import CampaignFolder, Wanted, campaign_in
from aliquot.campaigns.run import ENDED, CampaignRun
from aliquot.domain import CampaignState
from aliquot.ledger import Ledger, move

logger = logging.getLogger(__name__)
LOCK_WAIT = 5.0
"""Seconds to try for the lock: whoever asks whether a worker is alive holds it for a moment."""


def work(folder: CampaignFolder) -> int:
    """Run a campaign until it ends, or until a SIGTERM. Returns the exit code."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with _locked(folder) as mine:
        if not mine or folder.wanted is not Wanted.RUNNING:
            return 0
        try:
            with _opened(folder) as run:
                state = run.run(lambda _: None, stop)
                if state in ENDED:
                    run.write_results()
                elif not stop.is_set():  # it cannot go on by itself, so it must not be started again at once
                    folder.want(Wanted.PAUSED, f"{state}: {run.progress().reason}")
        except Exception as error:  # the process boundary: it becomes the campaign's state
            logger.exception("campaign %s failed", folder.id)
            reason = f"{type(error).__name__}: {error}"[:2000]
            _fail(folder, reason)
            folder.want(Wanted.PAUSED, reason)
            return 1
    return 0


@contextmanager
def _locked(folder: CampaignFolder) -> Iterator[bool]:
    """Whether this process now is the campaign's worker."""
    with (folder.root / "worker.lock").open("a+") as file:
        deadline = time.monotonic() + LOCK_WAIT
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    yield False
                    return
                time.sleep(0.05)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield True


def _opened(folder: CampaignFolder) -> CampaignRun:
    """The run to go on with, or a new one. What was left of a run that never began is put away."""
    if folder.ledger.exists():
        ledger = Ledger(folder.ledger)
        begun = campaign_in(ledger) is not None
        ledger.close()
        if begun:
            return CampaignRun.open(folder.run)
        shutil.rmtree(folder.run)
    return CampaignRun.create(folder.spec, folder.run)


def _fail(folder: CampaignFolder, reason: str) -> None:
    if not folder.ledger.exists():
        return
    ledger = Ledger(folder.ledger)
    campaign = campaign_in(ledger)
    if campaign is not None and campaign.state in (CampaignState.DRAFT, CampaignState.RUNNING):
        with ledger.write() as session:
            move(session, session.merge(campaign), "failed", campaign.clock, reason=reason)
    ledger.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    sys.exit(work(CampaignFolder(Path(sys.argv[1]))))
