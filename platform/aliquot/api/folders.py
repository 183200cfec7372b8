"""What the server keeps: one folder a campaign.

    DIR/campaigns/ID/campaign.json   as submitted, validated, every default filled in, and when
                     wanted          what a person wants of it: running, paused or cancelled
                     note            why it stopped, when it did so by itself
                     worker.lock     held by its process for life; holds the process's number
                     worker.log      what that process said
                     run/            the run itself, as `aliquot run` makes it

A folder appears whole or not at all, and every file in it is replaced in one step.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import secrets
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sqlmodel import select

from aliquot.campaigns.context import RunFolder
from aliquot.campaigns.spec import CampaignSpec
from aliquot.domain import CampaignState
from aliquot.ledger import CampaignRow, Ledger

logger = logging.getLogger(__name__)


class Wanted(StrEnum):
    """What a person wants of a campaign. What it is stands in its ledger."""

    RUNNING = "running"
    PAUSED = "paused"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class CampaignFolder:
    """One campaign on disk."""

    root: Path

    @property
    def id(self) -> str:
        return self.root.name

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def ledger(self) -> Path:
        return RunFolder(self.run).ledger

    @property
    def report(self) -> Path:
        return self.run / "report.html"

    @property
    def log(self) -> Path:
        return self.root / "worker.log"

    @property
    def spec(self) -> CampaignSpec:
        return CampaignSpec.model_validate(self._record["spec"])

    @property
    def name(self) -> str:
        return self._record["spec"]["name"]

    @property
    def submitted_at(self) -> float:
        """Wall clock, Unix seconds."""
        return self._record["submitted_at"]

    @property
    def wanted(self) -> Wanted:
        return Wanted((self.root / "wanted").read_text())

    @property
    def note(self) -> str:
        path = self.root / "note"
        return path.read_text() if path.exists() else ""

    def want(self, wanted: Wanted, note: str = "") -> None:
        """Write down what is wanted; the supervisor sees to it."""
        _replace(self.root / "note", note)
        _replace(self.root / "wanted", wanted)

    def worker(self) -> int | None:
        """Number of the process that works on it; None: there is none."""
        path = self.root / "worker.lock"
        if not path.exists():
            return None
        with path.open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read()
                return int(text) if text else None
            return None

    @property
    def _record(self) -> dict:
        return json.loads((self.root / "campaign.json").read_text())


def campaign_in(ledger: Ledger) -> CampaignRow | None:
    """The one campaign of a run's ledger; None while the run is still being made."""
    with ledger.read() as session:
        return session.exec(select(CampaignRow)).first()


class Folders:
    """All campaigns of a server."""

    def __init__(self, data: Path):
        self.root = data / "campaigns"
        self.root.mkdir(parents=True, exist_ok=True)
        self._ledgers: dict[str, Ledger] = {}
        self._lock = threading.Lock()

    def create(self, spec: CampaignSpec) -> CampaignFolder:
        """A new campaign that is wanted to run."""
        name = secrets.token_hex(6)
        making = self.root / f".{name}"
        making.mkdir()
        record = {"spec": spec.model_dump(mode="json"), "submitted_at": time.time()}
        for file, text in (("campaign.json", json.dumps(record, indent=2)), ("wanted", Wanted.RUNNING)):
            with (making / file).open("w") as written:
                written.write(text)
                written.flush()
                os.fsync(written.fileno())
        return CampaignFolder(making.rename(self.root / name))

    def get(self, name: str) -> CampaignFolder:
        """Raises `KeyError` when there is none."""
        folder = CampaignFolder(self.root / name)
        if not re.fullmatch(r"[0-9a-f]{12}", name) or not folder.root.is_dir():
            raise KeyError(name)
        return folder

    def all(self) -> list[CampaignFolder]:
        """Oldest first; what cannot be read is left out."""
        found = []
        for path in self.root.iterdir():
            if path.is_dir() and not path.name.startswith("."):
                folder = CampaignFolder(path)
                try:
                    found.append((folder.submitted_at, folder.id, folder.wanted, folder))
                except (OSError, ValueError, KeyError, TypeError) as error:  # one bad folder is not the others' affair
                    logger.warning("%s is no campaign's folder, and is left alone: %s", path, error)
        return [folder for *_, folder in sorted(found, key=lambda one: one[:2])]

    def ledger(self, folder: CampaignFolder) -> Ledger | None:
        """The ledger of a campaign that has begun, kept open until `close`; None before."""
        with self._lock:
            if folder.id not in self._ledgers and folder.ledger.exists():
                ledger = Ledger(folder.ledger)
                if campaign_in(ledger) is None:
                    ledger.close()
                else:
                    self._ledgers[folder.id] = ledger
            return self._ledgers.get(folder.id)

    def campaign(self, folder: CampaignFolder) -> CampaignRow | None:
        """What the ledger says of it; None: it has not begun."""
        ledger = self.ledger(folder)
        return None if ledger is None else campaign_in(ledger)

    def state(self, folder: CampaignFolder) -> CampaignState:
        """What its ledger says; before there is one, `draft`, or `cancelled` when it is not wanted any more."""
        campaign = self.campaign(folder)
        if campaign is not None:
            return CampaignState(campaign.state)
        return CampaignState.CANCELLED if folder.wanted is Wanted.CANCELLED else CampaignState.DRAFT

    def close(self) -> None:
        with self._lock:
            for ledger in self._ledgers.values():
                ledger.close()
            self._ledgers.clear()


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    partial.write_text(text)
    partial.replace(path)
