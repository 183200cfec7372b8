"""One step of a ladder: a verifier in its worker, asked for verdicts.

Always true: every design asked about gets a `Verdict` or a ticket. What the worker sends is checked again here, for a
worker is not trusted; whatever is wrong becomes a verdict with a typed error, never a score.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import Field, JsonValue, ValidationError, model_validator

from aliquot.domain import Design, Noun, Outcome, Verdict, VerdictError
from aliquot.isolation.host import Failure, Service
from aliquot.verifiers.cache import VerdictCache
from aliquot.verifiers.description import Description
from aliquot.verifiers.tally import StageReport, Tally


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
    weight: float = Field(default=1.0, ge=0)
    """How much its score counts in a judgement's own score, the weighted mean; 0: it only filters. Rewards come from
    the objective, not from here."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, data: Any) -> Any:
        return {**data, "name": data.get("name") or data.get("type", "")} if isinstance(data, dict) else data


class Stage:
    """A verifier of a campaign.

    Args:
        said: what it says of itself.
        service: the worker that holds it.
    """

    def __init__(self, ref: VerifierRef, said: Description, service: Service, cache: VerdictCache):
        self.name, self.required, self.weight = ref.name, ref.required, ref.weight
        self.version, self.digest = said.version, said.digest
        self.style, self.kinds, self.cost = said.style, said.kinds, said.cost
        self.said = said
        self._tally = Tally()
        self._seconds = said.needs.seconds
        self._service, self._cache = service, cache
        self._cached = self.style == "pointwise" and said.deterministic

    def judge(self, designs: Sequence[Design]) -> list[Verdict | Ticket]:
        """A verdict on each design, in order, or a ticket where the verifier is slow."""
        if not self._cached:
            return self._counted(self.ask(designs))
        found: dict[str, Verdict | Ticket] = {}
        unknown: dict[str, Design] = {}
        for design in designs:
            if (held := self._cache.get(self.digest, design.key)) is not None:
                found[design.key] = held.model_copy(update={"verifier": self.name, "seconds": 0.0, "cost": 0.0})
            else:
                unknown[design.key] = design
        self._tally.cached += len(designs) - len(unknown)
        asked = self._counted(self.ask(list(unknown.values())))
        for design, verdict in zip(unknown.values(), asked, strict=True):
            found[design.key] = verdict
            if isinstance(verdict, Verdict):
                self._cache.put(design.key, verdict)
        return [found[design.key] for design in designs]

    def poll(self, designs: Sequence[Design], tickets: Sequence[str]) -> list[Verdict | Ticket]:
        """Verdicts of those tickets that are ready, the tickets themselves where they are not."""
        verdicts = self.look(designs, tickets)
        answered: list[Verdict | Ticket] = [verdict for verdict in verdicts if isinstance(verdict, Verdict)]
        self._tally.waiting = max(0, self._tally.waiting - len(answered))
        self._counted(answered)
        return verdicts

    def look(self, designs: Sequence[Design], tickets: Sequence[str]) -> list[Verdict | Ticket]:
        """The same, and nothing is counted."""
        names = {ticket: design.text for ticket, design in zip(tickets, designs, strict=True)}
        answers, seconds = self._call("poll", list(tickets), lambda ticket: f"{names[ticket]} (ticket {ticket})")
        return [
            Ticket(ticket) if answer == {"pending": True} else self._verdict(design, answer, seconds)
            for design, ticket, answer in zip(designs, tickets, answers, strict=True)
        ]

    def report(self) -> StageReport:
        """How it went so far."""
        about = {"name": self.name, "required": self.required, "weight": self.weight, "style": self.style}
        return StageReport(**about, **asdict(self._tally))

    def ask(self, designs: Sequence[Design], keep: bool = True) -> list[Verdict | Ticket]:
        """What `judge` asks, of the worker itself: nothing is looked up, cached, or counted.

        Args:
            keep: False: the memory of a set verifier is thrown away afterwards, and need not be undone on a failure.
        """
        method = "submit" if self.style == "slow" else "verify"
        items = [[design.kind, design.value] for design in designs]
        answers, seconds = self._call(method, items, _text, keep)
        return [self._judged(design, answer, seconds) for design, answer in zip(designs, answers, strict=True)]

    def _call(
        self, method: str, items: list[Any], describe: Callable[[Any], str], keep: bool = True
    ) -> tuple[list[Any], float]:
        """Answers, and the time each took on average, seconds."""
        if not items:
            return [], 0.0
        begun = time.perf_counter()
        answers = self._service.call(
            f"{self.name}.{method}",
            items,
            seconds=self._seconds,
            describe=describe,
            remembers=keep and self.style == "set",
        )
        return answers, (time.perf_counter() - begun) / len(items)

    def _counted(self, answers: list[Verdict | Ticket]) -> list[Verdict | Ticket]:
        for answer in answers:
            if isinstance(answer, Ticket):
                self._tally.waiting += 1
                continue
            self._tally.judged += 1
            self._tally.failed += answer.error is not None
            self._tally.refused += answer.accepted is False
            self._tally.seconds += answer.seconds
            self._tally.money += answer.cost
        return answers

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
            message = answer.message + self._advice(answer)
            return Verdict(**about, error=VerdictError(outcome=answer.outcome, message=message))
        try:
            if "error" in answer:
                outcome = Outcome(answer.get("outcome", Outcome.INFRASTRUCTURE_ERROR))
                message = f"{design.text}: {self.name} {answer['error']}"
                return Verdict(**about, error=VerdictError(outcome=outcome, message=message))
            if (of := answer.get("of", design.key)) != design.key:
                message = f"{design.text}: {self.name} gave the score of another design ({of}) for its ticket"
                return Verdict(**about, error=VerdictError(message=message))
            said = {key: answer[key] for key in ("score", "accepted", "reason", "values")}
            return Verdict.model_validate({**about, **said, "cost": self.cost}, strict=True)
        except (ValidationError, KeyError, ValueError, TypeError) as error:
            message = f"{design.text}: the worker of {self.name} sent no proper answer: {error}"
            return Verdict(**about, error=VerdictError(message=message))

    def _advice(self, failure: Failure) -> str:
        """What its author can do, where that is not plain from what happened."""
        needs = self.said.needs
        if failure.outcome is Outcome.TIMED_OUT:
            return f"\nIt declares Needs(seconds={needs.seconds:g}) for one design; make it quicker, or declare more."
        if "MemoryError" in failure.message or "out of memory" in failure.message or "SIGKILL" in failure.message:
            return (
                f"\nIt declares Needs(memory_mb={needs.memory_mb}) for its worker; let go of memory, or declare more."
            )
        if "exactly one result per item is wanted" in failure.message:
            return "\nA design that cannot be judged gets Score(0.0, accepted=False, reason=…), or raises."
        return ""


def _text(item: Any) -> str:
    return Design(kind=item[0], value=item[1]).text
