"""What a simulated lab remembers: an SQLite file of its own, as a real lab across the street would have.

It knows nothing of the campaign's ledger and outlives the campaign's process: a submission is on disk when `add`
returns (write-ahead log; a crash of the process loses nothing, a power cut may lose the last writes).

Slots. Starts are planned at submission: an experiment starts when it comes, or once fewer than `capacity` experiments
hold a slot, that is at the `capacity`-th latest of the times at which those before it leave theirs. A cancellation
plans anew for all that have not started. Every delivery's time is thereby known, and always after the present.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from aliquot.domain import Outcome
from aliquot.lab_adapters.sdk import LabError, LabStatus, Submission
from aliquot.lab_adapters.simulated.execution import Execution

FORMAT = 1
SCHEMA = """
CREATE TABLE executions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, design TEXT NOT NULL, assays TEXT NOT NULL,
    busy REAL NOT NULL, ends REAL, outcome TEXT, started_at REAL, free_at REAL, ended_at REAL
);
CREATE INDEX executions_free ON executions (free_at);
CREATE INDEX executions_started ON executions (started_at);
CREATE TABLE deliveries (
    number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, name TEXT NOT NULL, after REAL NOT NULL,
    sent_at REAL NOT NULL, assay TEXT, replicate INTEGER NOT NULL, revision INTEGER NOT NULL, value REAL, unit TEXT,
    standard_error REAL, outcome TEXT, UNIQUE (key, name)
);
CREATE INDEX deliveries_sent ON deliveries (sent_at, number);
"""


class Store:
    """Executions and deliveries. Any failure of the file is a `LabError`."""

    def __init__(self, path: Path | None, capacity: int | None):
        """Opens nothing yet: the file is made by the first call that needs it."""
        self.path, self.capacity = path, capacity
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or none of it, one writer at a time."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open()
                connection = self._connection
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
            except (sqlite3.Error, OSError) as error:
                where = self.path or "(in memory)"
                raise LabError(f"the simulated lab's file {where} failed ({error}); give a `path` to write") from error

    def find(self, connection: sqlite3.Connection, key: str) -> sqlite3.Row | None:
        return connection.execute("SELECT * FROM executions WHERE key = ?", (key,)).fetchone()

    def add(self, connection: sqlite3.Connection, submission: Submission, execution: Execution, now: float) -> None:
        connection.execute(
            "INSERT INTO executions (key, design, assays, busy, ends, outcome) VALUES (?, ?, ?, ?, ?, ?)",
            (
                submission.key,
                submission.design.key,
                json.dumps(submission.assays),
                execution.busy,
                execution.ends,
                execution.outcome,
            ),
        )
        connection.executemany(
            "INSERT INTO deliveries (key, name, after, sent_at, assay, replicate, revision, value, unit,"
            " standard_error, outcome) VALUES (:key, :name, :after, 0, :assay, :replicate, :revision, :value, :unit,"
            " :standard_error, :outcome)",
            [{"key": submission.key, **asdict(message)} for message in execution.messages],
        )
        self._plan(connection, submission.key, now)

    def cancel(self, connection: sqlite3.Connection, key: str, now: float) -> None:
        """End it now. Corrections of what was already said still come; nothing else does."""
        connection.execute(
            "UPDATE executions SET outcome = ?, ended_at = ?,"
            " free_at = CASE WHEN started_at <= ? THEN min(free_at, ?) END,"
            " started_at = CASE WHEN started_at <= ? THEN started_at END WHERE key = ?",
            (Outcome.CANCELLED, now, now, now, now, key),
        )
        connection.execute(
            "DELETE FROM deliveries WHERE key = :key AND sent_at > :now AND NOT (revision > 0 AND EXISTS ("
            " SELECT 1 FROM deliveries AS first WHERE first.key = :key AND first.assay = deliveries.assay"
            " AND first.replicate = deliveries.replicate AND first.revision = 0 AND first.sent_at <= :now))",
            {"key": key, "now": now},
        )
        connection.execute(
            "INSERT INTO deliveries (key, name, after, sent_at, replicate, revision, outcome)"
            " VALUES (?, 'cancelled', 0, ?, 0, 0, ?)",
            (key, now, Outcome.CANCELLED),
        )
        waiting = connection.execute(
            "SELECT key FROM executions WHERE started_at > ? ORDER BY number", (now,)
        ).fetchall()
        connection.execute("UPDATE executions SET started_at = NULL, free_at = NULL WHERE started_at > ?", (now,))
        for row in waiting:
            self._plan(connection, row["key"], now)

    def deliveries(self, after: tuple[float, int], now: float) -> Sequence[sqlite3.Row]:
        """Those sent by now, after a (sent_at, number), in that order."""
        with self.transaction() as connection:
            return connection.execute(
                "SELECT * FROM deliveries WHERE (sent_at, number) > (?, ?) AND sent_at <= ? ORDER BY sent_at, number",
                (*after, now),
            ).fetchall()

    def next_delivery_at(self, now: float) -> float | None:
        with self.transaction() as connection:
            query = "SELECT min(sent_at) AS moment FROM deliveries WHERE sent_at > ?"
            return connection.execute(query, (now,)).fetchone()["moment"]

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _plan(self, connection: sqlite3.Connection, key: str, now: float) -> None:
        """Give it the first free slot after those before it."""
        start = now
        if self.capacity is not None:
            row = connection.execute(
                "SELECT free_at FROM executions WHERE free_at > ? ORDER BY free_at DESC LIMIT 1 OFFSET ?",
                (now, self.capacity - 1),
            ).fetchone()
            start = row["free_at"] if row else now
        connection.execute(
            "UPDATE executions SET started_at = :start, free_at = :start + busy, ended_at = :start + ends"
            " WHERE key = :key",
            {"start": start, "key": key},
        )
        connection.execute("UPDATE deliveries SET sent_at = ? + after WHERE key = ?", (start, key))

    def _open(self) -> sqlite3.Connection:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path or ":memory:", isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN IMMEDIATE")
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if found != FORMAT and (found or tables):
            connection.close()
            raise LabError(f"{self.path} is not a simulated lab's file of format {FORMAT}; give another `path`")
        if found != FORMAT:
            for statement in SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection


def status_of(row: sqlite3.Row | None, now: float) -> LabStatus:
    """Where an execution stands."""
    if row is None:
        return LabStatus.UNKNOWN
    if row["outcome"] == Outcome.CANCELLED:
        return LabStatus.CANCELLED
    if row["ended_at"] is not None and row["ended_at"] <= now:
        return LabStatus.DONE if row["outcome"] == Outcome.MEASURED else LabStatus.FAILED
    return LabStatus.QUEUED if row["started_at"] > now else LabStatus.RUNNING
