"""Listening: one server for a data folder, reachable from this machine alone."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from aliquot.api.admin import create_key
from aliquot.api.app import create_app
from aliquot.domain import ConfigError
from aliquot.verifiers.opening import DATA_FOLDERS

LOOPBACK = ("127.0.0.1", "localhost")


def serve(host: str, port: int, data: Path, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        port: 0 takes any free one.
        say: told the address once it listens.

    Raises:
        ConfigError: an address beyond this machine, a port in use, or a folder that another server has.
    """
    if host not in LOOPBACK:
        remedy = f"requests carry no identity yet, so only this machine may ask: {' or '.join(LOOPBACK)}"
        raise ConfigError("aliquot serve", [("--host", host, remedy)])
    data.mkdir(parents=True, exist_ok=True)
    with (data / "server.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            remedy = "another server has this folder: stop it, or choose another"
            raise ConfigError("aliquot serve", [("--data", str(data), remedy)]) from None
        try:
            listening = socket.create_server((host, port))
        except OSError as error:
            remedy = f"cannot listen there ({error.strerror}): choose another port, or 0 for any free one"
            raise ConfigError("aliquot serve", [("--port", port, remedy)]) from None
        with listening:
            address = f"http://{host}:{listening.getsockname()[1]}"
            # Strangers' campaigns may name files of this folder, and no others of this machine.
            os.environ.setdefault(DATA_FOLDERS, str((data / "files").resolve()))
            say(f"Campaigns at {address}/   API at {address}/api/v1   kept in {data}   Ctrl-C stops.")
            if key := create_key(data):
                say(f"The administrator's key, shown this once: {key}")
            uvicorn.Server(uvicorn.Config(create_app(data), log_level="warning")).run(sockets=[listening])
