"""The administrator's key: made at the first start, shown once, kept as its hash.

It is 256 random bits, so a plain SHA-256 keeps it: there is nothing to guess from.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from http import HTTPStatus
from pathlib import Path

from fastapi import HTTPException, Request

FILE = "admin.key"
PREFIX = "aliquot_admin_"


def create_key(data: Path) -> str | None:
    """The key of a data folder that has none yet; None: it has one, and only its holder knows it.

    To get another one, remove the file `admin.key` and start the server again.
    """
    key = PREFIX + secrets.token_urlsafe(32)
    try:
        descriptor = os.open(data / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return None
    with os.fdopen(descriptor, "w") as file:
        file.write(_hash(key))
    return key


def administrator(request: Request) -> None:
    """A dependency: the request carries the administrator's key.

    Raises:
        HTTPException: 401 without it.
    """
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    path = request.app.state.data / FILE
    held = path.read_text() if path.is_file() else ""
    if scheme.lower() != "bearer" or not held or not hmac.compare_digest(_hash(given.strip()), held):
        detail = "this takes the administrator's key: `Authorization: Bearer …`, shown when the server first started"
        raise HTTPException(HTTPStatus.UNAUTHORIZED, detail, headers={"WWW-Authenticate": "Bearer"})


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
