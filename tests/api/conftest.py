"""A server of its own for each test that needs one, as a process; and an application without workers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from aliquot.api.app import create_app


@pytest.fixture
def client(tmp_path) -> TestClient:
    """The application alone: its lifespan, and so its supervisor, is not started."""
    return TestClient(create_app(tmp_path / "data"), base_url="http://127.0.0.1")


@pytest.fixture
def start_server(tmp_path) -> Iterator[Callable[[], tuple[subprocess.Popen, str]]]:
    """Starts `aliquot serve` on the test's data folder; returns the process and its address."""
    started: list[subprocess.Popen] = []

    def start() -> tuple[subprocess.Popen, str]:
        data: Path = tmp_path / "data"
        command = [sys.executable, "-m", "aliquot.cli", "serve", "--port", "0", "--data", str(data)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert address is not None
        return process, address[0]

    yield start
    for process in started:
        process.terminate()
        process.wait()
