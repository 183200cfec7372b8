"""What a remote verifier is asked and what it answers; shared by `http` and `http_job`.

    POST {"version": 1, "request": "…", "designs": [{"id": "…", "kind": "molecule", "value": "CCO"}, …]}
    200  {"verdicts": [{"id": "…", "score": 0.5, "accepted": true, "reason": "", "values": {}},
                       {"id": "…", "error": "no conformer"}, …]}

Always true: an id is drawn at random for one design in one request, so that a late, repeated or shifted answer fits no
other design. An answer that holds an id of somewhere else is not believed at all; an id that is answered twice or not
at all has no score. A request that is tried again is the same to the byte, `request` included, so that a server can
tell that it has seen it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from aliquot.domain import Design
from aliquot.verifiers.adapters.foreign import AdapterConfig, needs_of, scored, shown
from aliquot.verifiers.adapters.http_exchange import Remote, RemoteFailed, host_of
from aliquot.verifiers.adapters.tokens import TokenPlace
from aliquot.verifiers.sdk import Needs, NoScore, Score

VERSION = 1
OF_ITS_TIME = 0.85
"""Share of a batch's time that a request may take, all attempts together."""
REASON = 1000
"""Characters of a remote reason that are kept."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class HttpConfig(AdapterConfig):
    url: str
    """Where designs are posted; the worker can reach this host and port, and no other. An address that is not public
    must be opened by the operator (`ALIQUOT_SANDBOX_PRIVATE`)."""
    token: TokenPlace | None = None
    """Where its bearer token is found; never the token itself."""
    retries: int = Field(default=3, ge=0, le=10)
    """How often a request is tried again after 429, 5xx, or a connection that failed."""
    batch: int = Field(default=64, ge=1, le=4096)
    """Most designs in one request."""
    max_bytes: int = Field(default=4 * 2**20, ge=1024, le=256 * 2**20)
    """Longest answer that is read."""
    memory_mb: int = Field(default=1024, ge=64)
    """Memory of its worker, MiB."""

    @field_validator("url")
    @classmethod
    def _proper(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("write it as https://host/path")
        if "@" in parts.netloc:
            raise ValueError("a password does not belong into a campaign; name the place of a token as `token`")
        parts.port  # noqa: B018 - a port that is no number raises here
        return url

    @model_validator(mode="after")
    def _hidden(self) -> Self:
        parts = urlsplit(self.url)
        if self.token is not None and parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise ValueError("url: a token is sent by https only, for anybody on the way could read it")
        return self


class Asking:
    """One request: designs under ids of their own, and what is made of the answer."""

    def __init__(self, designs: Sequence[Design]):
        self.ids = [secrets.token_hex(12) for _ in designs]
        self.body = {
            "version": VERSION,
            "request": secrets.token_hex(12),
            "designs": [
                {"id": own, "kind": design.kind, "value": design.value}
                for own, design in zip(self.ids, designs, strict=True)
            ],
        }


def verdicts_in(body: Any, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The entries of an answer by id; one that was answered twice is an entry with an `error`.

    Raises:
        RemoteFailed: it is no such answer, or holds an id that was not asked about.
    """
    entries = body.get("verdicts") if isinstance(body, dict) else None
    if not isinstance(entries, list):
        wanted = '{"verdicts": [{"id": …, "score": …, "accepted": …}]}'
        raise RemoteFailed(f"it answered {shown(body)}; wanted is {wanted}")
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        own = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(own, str) or own not in ids:
            raise RemoteFailed(f"it answered about {shown(own)}, an id that was not asked; nothing in it is believed")
        found[own] = {"error": "it was answered twice"} if own in found else entry
    return found


def judged(entry: Mapping[str, Any] | None, config: AdapterConfig) -> Score | NoScore:
    """One entry as a score, or what is wrong with it."""
    if entry is None:
        return NoScore("the server said nothing of it")
    if entry.get("error") is not None:
        return NoScore(f"the server has none: {str(entry['error'])[:REASON]}")
    accepted, reason, values = entry.get("accepted", True), entry.get("reason", ""), entry.get("values", {})
    if not isinstance(accepted, bool):
        return NoScore(f"`accepted` is {shown(accepted)}; it is true or false")
    if not isinstance(reason, str) or not isinstance(values, dict):
        return NoScore("`reason` is a text and `values` an object, in what a server says of a design")
    score = scored(entry.get("score"), config, values=values, reason=reason[:REASON])
    if isinstance(score, Score) and not accepted:
        return Score(score.score, False, score.reason, score.values)
    return score


def remote_of(config: HttpConfig, secret: Mapping[str, str]) -> Remote:
    return Remote(secret.get("token", ""), retries=config.retries, max_bytes=config.max_bytes)


def network_needs(config: HttpConfig) -> Needs:
    return needs_of(config, network=(host_of(config.url),))


def without(problem: RemoteFailed) -> NoScore:
    return NoScore(str(problem), timed_out=problem.timed_out)
