"""What the tests of the adapters share: ladders of one verifier, a remote server, environments of real packages."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aliquot.domain import Design, Verdict
from aliquot.verifiers import environment
from aliquot.verifiers.ladder import VerifierLadder
from aliquot.verifiers.stage import VerifierRef

SERVER = Path(__file__).with_name("server.py")


@pytest.fixture(scope="session", autouse=True)
def operator():
    """An ordinary user is given no control groups here, so the operator accepts the watchdog; and opens the loopback,
    where the remote server of these tests is."""
    with pytest.MonkeyPatch.context() as patch:
        if os.geteuid() != 0:
            patch.setenv("ALIQUOT_SANDBOX_WITHOUT", "memory")
        patch.setenv("ALIQUOT_SANDBOX_PRIVATE", "127.0.0.0/8")
        yield


@pytest.fixture(scope="module")
def ladder() -> Iterator[Callable[..., VerifierLadder]]:
    """The ladder of one verifier; tests that ask for the same one share its worker."""
    opened: dict[str, VerifierLadder] = {}

    def open_ladder(type: str, base: Path | None = None, **config: Any) -> VerifierLadder:
        key = json.dumps([type, str(base), config], sort_keys=True)
        if key not in opened:
            opened[key] = VerifierLadder([VerifierRef(type=type, config=config)], base=base)
        return opened[key]

    yield open_ladder
    for one in opened.values():
        one.close()


@pytest.fixture
def verdicts(ladder) -> Callable[..., list[Verdict]]:
    """Verdicts of one verifier on molecules, in the sandbox, as a campaign would get them."""

    def judge(type: str, smiles: list[str], base: Path | None = None, **config: Any) -> list[Verdict]:
        designs = [Design(kind="molecule", value=text) for text in smiles]
        return [judgement.verdicts[type] for judgement in ladder(type, base, **config).verify(designs)]

    return judge


class Server:
    """The remote server of `server.py`, in a process of its own."""

    def __init__(self, url: str):
        self.url = url

    def behave(self, *how: Any) -> None:
        """What it does with the next requests, one after another; the last stays."""
        self._tell("/behave", list(how))

    def seen(self) -> list[dict[str, Any]]:
        """The requests since it was last told how to behave."""
        return self._tell("/seen", None)

    def _tell(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.loads(response.read())


@pytest.fixture(scope="session")
def remote() -> Iterator[Server]:
    process = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture(scope="session")
def environment_of(tmp_path_factory) -> Iterator[Callable[[tuple[str, ...]], None]]:
    """Builds the environment of an adapter from its package index, once for all workers of a test run.

    `ALIQUOT_TEST_ENVIRONMENTS` names a folder that keeps them from one run to the next.
    """
    shared = tmp_path_factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else None
    kept = os.environ.get("ALIQUOT_TEST_ENVIRONMENTS")
    home = Path(kept) if kept else (shared or tmp_path_factory.getbasetemp()) / "environments-of-adapters"
    home.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALIQUOT_PLUGINS", str(home))

        def build(pins: tuple[str, ...]) -> None:
            with (home / f"{environment.digest_of_pins(pins)}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                environment.build(pins)

        yield build
