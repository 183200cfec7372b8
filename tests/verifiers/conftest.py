"""The activity models, really fetched."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from aliquot.verifiers.builtin.molecules.fetch_bioactivity import KINDS, fetch, path_of


@pytest.fixture(scope="session")
def activity_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the three models; its parent can be `$ALIQUOT_CACHE`.

    The archive is downloaded once in a session, however many processes share it.
    """
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache" / "bioactivity"
    shared.mkdir(parents=True, exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all(path_of(model, shared).is_file() for model in KINDS):
            fetch(shared)
    return shared
