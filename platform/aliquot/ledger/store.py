"""Opening a ledger: SQLite with full durability, migrated to the newest schema, one writer at a time.

WAL with `synchronous=FULL`: a committed fact survives a power cut. Write transactions begin IMMEDIATE, so that two
processes never deadlock on an upgrade of their locks.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, event
from sqlmodel import Session

from aliquot.ledger.artifacts import ArtifactStore

MIGRATIONS = Path(__file__).parent / "migrations"


class Ledger:
    """The durable record of every campaign in one database.

    Args:
        path: the SQLite file; its folder is made when missing, and holds the artifact store beside it.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.artifacts = ArtifactStore(self.path.parent / "artifacts")
        url = f"sqlite:///{self.path}"
        with _migration_lock(self.path):
            migrate(url)
        self._engine = create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})
        event.listen(self._engine, "connect", _configure)
        event.listen(self._engine, "begin", _begin)

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A write transaction: commits at the end, rolls back whole on any exception."""
        connection = self._engine.connect().execution_options(immediate=True)
        with connection, connection.begin(), Session(bind=connection, expire_on_commit=False) as session:
            yield session
            session.flush()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A consistent view that writes nothing."""
        with self._engine.connect() as connection, Session(bind=connection, expire_on_commit=False) as session:
            yield session

    def close(self) -> None:
        self._engine.dispose()


def migrate(url: str, revision: str = "head") -> None:
    """Bring the schema at `url` to a revision with Alembic."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    command.upgrade(config, revision)


@contextmanager
def _migration_lock(path: Path) -> Iterator[None]:
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _configure(connection, _record) -> None:
    connection.isolation_level = None  # transactions are begun by `_begin`, not by the driver
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection) -> None:
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
