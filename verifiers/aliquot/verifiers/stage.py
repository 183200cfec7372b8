"""One step of a ladder: a verifier in its worker, asked for verdicts.

Always true: every design asked about gets a `Verdict` or a ticket. What the worker sends is checked again here, for a
worker is not trusted; whatever is wrong becomes a verdict with a typed error, never a score.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import Field, JsonValue, ValidationError, model_validator

from aliquot.domain import Design, Noun, Verdict, VerdictError
from aliquot.isolation.host import Failure, Service
from aliquot.verifiers.cache import VerdictCache
from aliquot.verifiers.sdk import Needs


class Ticket(str):
    """What a slow verifier gave for a design it has not judged yet."""


class VerifierRef(Noun):
    """One verifier of a campaign."""

    name: str = ""
    """What objectives and verdicts call it; default: its type."""
    type: str = Field(min_length=1)
    """A built-in, an installed plugin, or a file with a class, `./my.py:MyVerifier`."""
    config: dict[str, JsonValue] = {}
    """Its own configuration."""
    required: bool = True
    """Whether a design that it refuses is refused."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, data: Any) -> Any:
        return {**data, "name": data.get("name") or data.get("type", "")} if isinstance(data, dict) else data


class Stage:
    """A verifier of a campaign.

    Args:
        said: what it says of itself, `hosting.describe`.
        service: the worker that holds it.
    """

    def __init__(self, ref: VerifierRef, said: dict[str, Any], service: Service, cache: VerdictCache):
        self.name, self.required = ref.name, ref.required
        self.version, self.digest = said["version"], said["digest"]
        self.style, self.kinds, self.cost = said["style"], tuple(said["kinds"]), said["cost"]
        self._seconds = Needs(**said["needs"]).seconds
        self._service, self._cache = service, cache
        self._cached = self.style == "pointwise" and said["deterministic"]

    def judge(self, designs: Sequence[Design]) -> list[Verdict | Ticket]:
        """A verdict on each design, in order, or a ticket where the verifier is slow."""
        if not self._cached:
            method = "submit" if self.style == "slow" else "verify"
            return self._ask(method, designs)
        found: dict[str, Verdict | Ticket] = {}
        unknown: dict[str, Design] = {}
        for design in designs:
            if (held := self._cache.get(self.digest, design.key)) is not None:
                found[design.key] = held.model_copy(update={"verifier": self.name, "seconds": 0.0, "cost": 0.0})
            else:
                unknown[design.key] = design
        for design, verdict in zip(unknown.values(), self._ask("verify", list(unknown.values())), strict=True):
            found[design.key] = verdict
            if isinstance(verdict, Verdict):
                self._cache.put(design.key, verdict)
        return [found[design.key] for design in designs]

    def poll(self, designs: Sequence[Design], tickets: Sequence[str]) -> list[Verdict | Ticket]:
        """Verdicts of those tickets that are ready, the tickets themselves where they are not."""
        names = {ticket: design.text for ticket, design in zip(tickets, designs, strict=True)}
        answers, seconds = self._call("poll", list(tickets), lambda ticket: f"{names[ticket]} (ticket {ticket})")
        return [
            Ticket(ticket) if answer == {"pending": True} else self._verdict(design, answer, seconds)
            for design, ticket, answer in zip(designs, tickets, answers, strict=True)
        ]

    def _ask(self, method: str, designs: Sequence[Design]) -> list[Verdict | Ticket]:
        items = [[design.kind, design.value] for design in designs]
        answers, seconds = self._call(method, items, lambda item: Design(kind=item[0], value=item[1]).text)
        return [self._judged(design, answer, seconds) for design, answer in zip(designs, answers, strict=True)]

    def _call(self, method: str, items: list[Any], describe: Callable[[Any], str]) -> tuple[list[Any], float]:
        """Answers, and the time each took on average, seconds."""
        if not items:
            return [], 0.0
        begun = time.perf_counter()
        answers = self._service.call(
            f"{self.name}.{method}",
            items,
            seconds=self._seconds,
            describe=describe,
            remembers=self.style == "set",
        )
        return answers, (time.perf_counter() - begun) / len(items)

    def _judged(self, design: Design, answer: Any, seconds: float) -> Verdict | Ticket:
        if self.style == "slow" and isinstance(answer, dict) and isinstance(answer.get("ticket"), str):
            return Ticket(answer["ticket"])
        return self._verdict(design, answer, seconds)

    def _verdict(self, design: Design, answer: Any, seconds: float) -> Verdict:
        about = {
            "verifier": self.name,
            "version": self.version,
            "digest": self.digest,
            "seconds": seconds,
            "controls": self._service.controls,
        }
        if isinstance(answer, Failure):
            return Verdict(**about, error=VerdictError(outcome=answer.outcome, message=answer.message))
        try:
            if "error" in answer:
                return Verdict(**about, error=VerdictError(message=f"{design.text}: {self.name} {answer['error']}"))
            said = {key: answer[key] for key in ("score", "accepted", "reason", "values")}
            return Verdict.model_validate({**about, **said, "cost": self.cost}, strict=True)
        except (ValidationError, KeyError, TypeError) as error:
            message = f"{design.text}: the worker of {self.name} sent no proper answer: {error}"
            return Verdict(**about, error=VerdictError(message=message))
