"""Bearer tokens: where the supervisor finds them, and to whom they may be sent.

Always true: a campaign names the place of a token, never the token; only the supervisor reads it, and only the worker
that sends it is told. It stands in no description, digest of a configuration, reason, or log.

A variable must be called `ALIQUOT_TOKEN_…`, so that a campaign cannot ask for any other. Where strangers submit
campaigns, the operator also says to which hosts it may go, `ALIQUOT_TOKEN_…_HOSTS=host,host:port`, and limits files
with `ALIQUOT_DATA_FOLDERS`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from aliquot.domain import ConfigError
from aliquot.verifiers.sdk import DataFile, VerifierConfig

TOKEN = re.compile(r"[\x21-\x7e]{1,8192}")
"""What may stand in a header, without a space."""


class TokenPlace(VerifierConfig):
    """Where a bearer token is found: one of the two."""

    variable: str | None = Field(default=None, pattern=r"^ALIQUOT_TOKEN_[A-Z0-9_]+$")
    """An environment variable of the program that runs campaigns, called `ALIQUOT_TOKEN_…`."""
    file: DataFile | None = None
    """A file that holds the token and nothing else."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.variable is None) == (self.file is None):
            raise ValueError("say where the token is: either `variable` or `file`")
        return self


def secrets_of(config: dict[str, Any]) -> dict[str, str]:
    """What the worker of an adapter is told beside its configuration; empty where that names no token.

    Args:
        config: as it was checked, files under their absolute paths.

    Raises:
        ConfigError: there is no token in that place, or it may not be sent to this host.
    """
    place = config.get("token")
    if not place:
        return {}
    variable = place.get("variable")
    if variable is not None:
        token, where = os.environ.get(variable, ""), f"the environment variable {variable}"
        _check_host(variable, str(config.get("url", "")))
    else:
        token, where = _read(Path(place["file"])), f"the file {place['file']}"
    token = token.strip()
    if not TOKEN.fullmatch(token):
        said = "holds no token" if token else "is empty or not set"
        raise ConfigError("verifier", [("config.token", place, f"{where} {said}")])
    return {"token": token}


def _read(path: Path) -> str:
    try:
        with path.open() as stream:
            return stream.read(10_000)
    except (OSError, UnicodeDecodeError) as error:
        remedy = f"{path} cannot be read: {type(error).__name__}"
        raise ConfigError("verifier", [("config.token.file", str(path), remedy)]) from None


def _check_host(variable: str, url: str) -> None:
    allowed = os.environ.get(f"{variable}_HOSTS")
    parts = urlsplit(url)
    if allowed is None:
        return
    named = {name.strip().lower() for name in allowed.split(",")}
    if not {parts.hostname, parts.netloc.rpartition("@")[2].lower()} & named:
        remedy = f"the operator lets {variable} be sent to {allowed} only ({variable}_HOSTS)"
        raise ConfigError("verifier", [("config.url", url, remedy)])
