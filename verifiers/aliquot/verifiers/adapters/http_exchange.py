"""One exchange with a remote verifier: JSON out, JSON in, within a time and a size.

Always true: a redirect is not followed (a token would go with it), an answer longer than `max_bytes` is not read to its
end, and no message holds the token. What may pass (429, 5xx, a lost connection) is tried again, after a pause that
doubles and is varied by chance, or that the server asks for; everything else fails at once.
"""

from __future__ import annotations

import http.client
import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Status codes after which the same request may succeed."""
PAUSE = 0.25
"""First pause, seconds; each further one is twice as long."""
LONGEST_PAUSE = 10.0
TOLD = 300
"""Characters of an answer that a message shows."""
CHUNK = 64 * 1024


class RemoteFailed(Exception):
    """The server gave no usable answer.

    Args:
        timed_out: it did not answer in time.
        about_items: what was asked may be the reason, not the server.
        may_pass: the same request may succeed later.
    """

    def __init__(self, message: str, *, timed_out: bool = False, about_items: bool = False, may_pass: bool = False):
        super().__init__(message)
        self.timed_out, self.about_items, self.may_pass = timed_out, about_items, may_pass or timed_out


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    status: int
    body: Any
    headers: Mapping[str, str]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Remote:
    """A server. Its proxy, if one is needed, stands in the environment, as the sandbox sets it.

    Args:
        token: sent as a bearer token.
        retries: how often a request is tried again.
        pause: sleeps; given by tests.
    """

    def __init__(
        self, token: str = "", *, retries: int = 3, max_bytes: int = 2**22, pause: Callable[[float], None] = time.sleep
    ):
        self._token, self._retries, self._max_bytes, self._pause = token, retries, max_bytes, pause
        self._opener = urllib.request.build_opener(_NoRedirects())

    def post(self, url: str, body: Any, seconds: float) -> Answer:
        """Send a JSON body. Raises `RemoteFailed`."""
        return self._persist(url, json.dumps(body, allow_nan=False).encode(), seconds)

    def get(self, url: str, seconds: float) -> Answer:
        """Ask for a URL. Raises `RemoteFailed`."""
        return self._persist(url, None, seconds)

    def _persist(self, url: str, data: bytes | None, seconds: float) -> Answer:
        until = time.monotonic() + seconds
        for attempt in range(self._retries + 1):
            wait = min(LONGEST_PAUSE, PAUSE * 2**attempt) * random.uniform(0.5, 1.0)
            try:
                return self._once(url, data, until)
            except urllib.error.HTTPError as error:
                said = self._told(error)
                if error.code not in AGAIN:
                    about = error.code in (400, 413, 422)
                    raise RemoteFailed(self._hide(_refusal(url, error, said)), about_items=about) from None
                wait = max(wait, _asked_wait(error.headers.get("Retry-After")))
                problem = RemoteFailed(self._hide(f"{_where(url)} answered {error.code}{said}"))
            except TimeoutError:
                raise RemoteFailed(f"{_where(url)} did not answer within {seconds:g} s", timed_out=True) from None
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", error)
                if isinstance(reason, TimeoutError):
                    message = f"{_where(url)} did not answer within {seconds:g} s"
                    raise RemoteFailed(message, timed_out=True) from None
                problem = RemoteFailed(self._hide(f"{_where(url)} cannot be reached: {reason or type(error).__name__}"))
            if attempt == self._retries or time.monotonic() + wait >= until:
                raise RemoteFailed(f"{problem} (tried {attempt + 1} times)", may_pass=True)
            self._pause(wait)
        raise AssertionError("unreachable")

    def _once(self, url: str, data: bytes | None, until: float) -> Answer:
        headers = {"Accept": "application/json", "User-Agent": "aliquot"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(url, data, headers)
        with self._opener.open(request, timeout=_left(until)) as response:
            text = self._read(response, url, until)
            return Answer(response.status, _parsed(text, url, self._hide), dict(response.headers.items()))

    def _read(self, response: Any, url: str, until: float) -> bytes:
        parts, size = [], 0
        while part := response.read1(CHUNK):
            size += len(part)
            if size > self._max_bytes:
                raise RemoteFailed(f"{_where(url)} answered with more than {self._max_bytes} bytes")
            parts.append(part)
            _left(until)
        if response.length:  # fewer bytes than it announced
            raise http.client.IncompleteRead(b"", response.length)
        return b"".join(parts)

    def _told(self, error: urllib.error.HTTPError) -> str:
        try:
            text = error.read(TOLD).decode(errors="replace").strip()
        except (OSError, http.client.HTTPException):
            text = ""
        return f": {text}" if text else ""

    def _hide(self, text: str) -> str:
        return text.replace(self._token, "[token]") if self._token else text


def host_of(url: str) -> str:
    """`host:port`, as an allow-list of the sandbox names it."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
    return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def same_place(url: str, other: str) -> str:
    """A URL as seen from another.

    Raises:
        ValueError: it leads to another scheme, host or port.
    """
    found = urljoin(url, other)
    if (urlsplit(found).scheme, host_of(found)) != (urlsplit(url).scheme, host_of(url)):
        raise ValueError(f"it leads to {_where(found)}; only addresses at {_where(url)} are followed")
    return found


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _parsed(text: bytes, url: str, hide: Callable[[str], str]) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        about = text[:TOLD].decode(errors="replace")
        raise RemoteFailed(hide(f"{_where(url)} answered with something that is no JSON: {about!r}")) from None


def _refusal(url: str, error: urllib.error.HTTPError, said: str) -> str:
    if error.code in (401, 403):
        said += "; is its token right, and its host among those that may be reached?"
    if 300 <= error.code < 400:
        said = f": it redirects to {error.headers.get('Location')}, and redirects are not followed; name that address"
    return f"{_where(url)} answered {error.code}{said}"


def _asked_wait(text: str | None) -> float:
    try:
        return min(LONGEST_PAUSE, max(0.0, float(text or 0)))
    except ValueError:  # a date
        return 0.0


def _where(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{host_of(url)}{parts.path}"
