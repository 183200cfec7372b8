"""What the conformance checks found, as nouns: for a person, for a file, for a server that decides on an upload."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from aliquot.domain import Noun


class Finding(Noun):
    """One named check, and how it went."""

    check: str
    status: Literal["pass", "fail", "skip"]
    why: str
    """pass: what was seen; fail: what is wrong, with which design, and what to do; skip: why it does not apply."""
    details: dict[str, JsonValue] = {}


class Report(Noun):
    """Everything that was found about one plugin."""

    target: str
    """As it was asked for."""
    name: str = ""
    version: str = ""
    style: str = ""
    kinds: tuple[str, ...] = ()
    digest: str = ""
    contained: bool = False
    """Whether it ran in the sandbox; otherwise it ran as a plain process: it is the project's own, or trusted."""
    controls: tuple[str, ...] = ()
    """What was proven of the worker that ran it."""
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether it loaded and no check failed."""
        return bool(self.findings) and not self.failed

    @property
    def failed(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.status == "fail"]
