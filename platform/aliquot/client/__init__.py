"""The Python client of the HTTP API: submit a campaign, wait for it, take its results.

from aliquot.client import Client

with Client("http://127.0.0.1:8000") as client:
    campaign = client.submit(spec)      # the same document as the YAML, as a dict
    campaign.wait()
    rows = campaign.results()
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

import httpx

from aliquot.domain import AliquotError

ENDED = ("completed", "exhausted", "cancelled")
UNDER_WAY = ("draft", "running")


class Refused(AliquotError):
    """The server said no, and why.

    Attributes:
        status: HTTP status.
        problems: of a campaign that cannot run, dicts of `path`, `value` and `remedy`.
    """

    def __init__(self, status: int, detail: str, problems: list[dict[str, Any]]):
        self.status, self.problems = status, problems
        lines = [f"  {p['path'] or '(top level)'}: {p['remedy']} (got {p['value']!r})" for p in problems]
        super().__init__("\n".join([f"{status}: {detail}", *lines]))


class Client:
    """A connection to one server. A context manager.

    Args:
        base_url: where `aliquot serve` said it listens.
        timeout: of one request, in seconds.
    """

    def __init__(self, base_url: str, timeout: float = 60.0):
        self._http = httpx.Client(base_url=f"{base_url.rstrip('/')}/api/v1", timeout=timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def submit(self, spec: dict[str, Any]) -> Campaign:
        """Submit a campaign. Raises `Refused` with every problem when it cannot run."""
        return Campaign(self, self.request("POST", "/campaigns", json=spec)["id"])

    def campaign(self, id: str) -> Campaign:
        """A campaign by its id. Raises `Refused` when there is none."""
        return Campaign(self, self.request("GET", f"/campaigns/{id}")["id"])

    def campaigns(self) -> list[Campaign]:
        """Every campaign, oldest first."""
        return [Campaign(self, one["id"]) for one in self.request("GET", "/campaigns")]

    def request(self, method: str, path: str, **options: Any) -> Any:
        """One request; the JSON of its answer.

        Raises:
            Refused: the server answered with an error.
            httpx.TransportError: it did not answer.
        """
        response = self._http.request(method, path, **options)
        if response.is_error:
            problem = response.json() if "json" in response.headers.get("content-type", "") else {}
            raise Refused(response.status_code, problem.get("detail", response.text), problem.get("problems", []))
        return response.json()


class Campaign:
    """One campaign on the server."""

    def __init__(self, client: Client, id: str):
        self.client, self.id = client, id

    def status(self) -> dict[str, Any]:
        """State, what is wanted of it, links, and its progress."""
        return self.client.request("GET", f"/campaigns/{self.id}")

    def progress(self) -> dict[str, Any] | None:
        """How it stands; None until it has begun."""
        return self.status()["progress"]

    def wait(self, timeout: float | None = None, every: float = 1.0) -> str:
        """Wait until it ends, fails or is paused; returns the state.

        Args:
            timeout: longest wait, seconds; None: for ever.
            every: seconds between looks.

        Raises:
            TimeoutError: it is still at work.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            now = self.status()
            at_rest = now["state"] not in UNDER_WAY and not now["working"]
            if at_rest and (now["state"] in ENDED or now["wanted"] == "paused"):
                return now["state"]
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"campaign {self.id} is still {now['state']} after {timeout} s")
            time.sleep(every)

    def results(self) -> list[dict[str, Any]]:
        """One row per experiment."""
        return self.client.request("GET", f"/campaigns/{self.id}/results")

    def events(self, after: int = 0) -> list[dict[str, Any]]:
        """Up to 1,000 entries of its log after a sequence number."""
        return self.client.request("GET", f"/campaigns/{self.id}/events", params={"after": after})

    def pause(self) -> None:
        """Stop after the round under way."""
        self.client.request("POST", f"/campaigns/{self.id}/pause")

    def resume(self) -> None:
        """Go on from where it stopped."""
        self.client.request("POST", f"/campaigns/{self.id}/resume")

    def cancel(self) -> None:
        """End it for good; what is known stays."""
        self.client.request("POST", f"/campaigns/{self.id}/cancel")
