"""A contained service around the hostile plugin. Without bubblewrap these tests fail; they never skip."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.isolation.attacks import contained

HOSTILE = Path(__file__).with_name("hostile.py")


@pytest.fixture(scope="session", autouse=True)
def operator():
    """An ordinary user is given no control groups here, so the operator accepts the watchdog."""
    patch = pytest.MonkeyPatch()
    if os.geteuid() != 0:
        patch.setenv("ALIQUOT_SANDBOX_WITHOUT", "memory")
    yield
    patch.undo()


@pytest.fixture(scope="session")
def plugin(tmp_path_factory) -> str:
    """The hostile plugin as an author's file, outside of the checkout."""
    folder = tmp_path_factory.mktemp("plugin")
    for above in (folder, *folder.parents[:-1]):
        if above.stat().st_uid == os.geteuid() and above != Path("/tmp"):
            above.chmod(0o755)
    path = folder / "hostile.py"
    path.write_bytes(HOSTILE.read_bytes())
    path.chmod(0o644)
    return f"{path}:factory"


@pytest.fixture(scope="module")
def worker(plugin):
    """A contained service, shared by the attacks that leave it alive."""
    service = contained(plugin)
    yield service
    service.close()


@pytest.fixture
def fresh(plugin):
    """A contained service of a test's own."""
    service = contained(plugin)
    yield service
    service.close()
