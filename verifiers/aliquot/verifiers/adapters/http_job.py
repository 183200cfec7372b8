"""A remote verifier that answers later: `http_job`.

    POST …          202 {"poll": "/jobs/17"}          (or the header Location), or 200 with verdicts at once
    GET /jobs/17    202 {"verdicts": […]}             not all are ready; those that are may stand in it already
                    200 {"verdicts": […]}             this is all there will be
                    404, 410                          the job is lost

Always true: a ticket holds the address to ask and the id of its design, so that a campaign which comes back after days,
or on another machine, asks for the same job. An address to poll must be at the host that was posted to, for the token
goes with it. A server that cannot be reached has not lost the job: it is asked again at the next poll.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from aliquot.domain import Design
from aliquot.verifiers.adapters.http_common import (
    OF_ITS_TIME,
    Asking,
    HttpConfig,
    judged,
    network_needs,
    remote_of,
    verdicts_in,
    without,
)
from aliquot.verifiers.adapters.http_exchange import Answer, Remote, RemoteFailed, same_place
from aliquot.verifiers.sdk import Needs, NoScore, Score, SlowVerifier


class HttpJob(SlowVerifier):
    """The score that a server gives when its job is done, in the server's unit."""

    name, version = "http_job", "1"
    deterministic = False
    Config = HttpConfig

    @classmethod
    def needs_for(cls, config: Any) -> Needs:
        return network_needs(config)

    def submit(self, designs: Sequence[Design]) -> Sequence[str | NoScore]:
        remote = remote_of(self.config, self.secrets)
        tickets: list[str | NoScore] = []
        for first in range(0, len(designs), self.config.batch):
            asked = designs[first : first + self.config.batch]
            asking = Asking(asked)
            try:
                answer = remote.post(self.config.url, asking.body, OF_ITS_TIME * self.config.seconds * len(asked))
                tickets += self._tickets(answer, asking)
            except RemoteFailed as failed:
                if failed.about_items and len(designs) > 1:
                    raise
                tickets += [without(failed) for _ in asked]
        return tickets

    def poll(self, tickets: Sequence[str]) -> Mapping[str, Score | NoScore]:
        jobs: dict[str, dict[str, str]] = defaultdict(dict)
        ready: dict[str, Score | NoScore] = {}
        for ticket in tickets:
            held = _read(ticket, self.config.url)
            if isinstance(held, NoScore):
                ready[ticket] = held
            elif "verdict" in held:
                ready[ticket] = judged(held["verdict"], self.config)
            else:
                jobs[held["poll"]][held["id"]] = ticket
        remote = remote_of(self.config, self.secrets)
        seconds = OF_ITS_TIME * self.config.seconds * len(tickets) / max(1, len(jobs))
        for url, waiting in jobs.items():
            ready |= self._look(remote, url, waiting, seconds)
        return ready

    def _tickets(self, answer: Answer, asking: Asking) -> list[str]:
        if answer.status != 202:
            found = verdicts_in(answer.body, asking.ids)
            return [json.dumps({"id": own, "verdict": found.get(own)}) for own in asking.ids]
        where = answer.body.get("poll") if isinstance(answer.body, dict) else None
        where = where or {key.lower(): value for key, value in answer.headers.items()}.get("location")
        if not isinstance(where, str):
            raise RemoteFailed('it answered 202 without an address to ask: {"poll": "/jobs/17"}, or a Location')
        try:
            url = same_place(self.config.url, where)
        except ValueError as error:
            raise RemoteFailed(f"its address to ask is not used: {error}") from None
        return [json.dumps({"id": own, "poll": url}) for own in asking.ids]

    def _look(self, remote: Remote, url: str, waiting: dict[str, str], seconds: float) -> dict[str, Score | NoScore]:
        """By ticket, what is ready of one job.

        Args:
            waiting: tickets by the ids that they are for.
        """
        try:
            answer = remote.get(url, seconds)
            entries = _of_these(answer, waiting)
        except RemoteFailed as failed:
            return {} if failed.may_pass else {ticket: without(failed) for ticket in waiting.values()}
        done = answer.status != 202
        return {
            ticket: judged(entries.get(own), self.config) for own, ticket in waiting.items() if done or own in entries
        }


def _of_these(answer: Answer, waiting: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Entries of the ids that are waited for. A job may hold others: of its batch, answered at an earlier poll."""
    if answer.status == 202 and not (isinstance(answer.body, dict) and "verdicts" in answer.body):
        return {}
    named = answer.body.get("verdicts") if isinstance(answer.body, dict) else None
    others = [e["id"] for e in named if isinstance(e, dict) and isinstance(e.get("id"), str)] if named else []
    return verdicts_in(answer.body, [*waiting, *others])


def _read(ticket: str, url: str) -> dict[str, Any] | NoScore:
    try:
        held = json.loads(ticket)
        if "verdict" in held:
            return {"verdict": held["verdict"]}
        return {"id": str(held["id"]), "poll": same_place(url, str(held["poll"]))}
    except (ValueError, KeyError, TypeError) as error:
        return NoScore(f"its ticket cannot be used: {error}")
