"""`check`: every conformance check of one plugin, in order, as one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aliquot.domain import ConfigError
from aliquot.verifiers.kit import checks
from aliquot.verifiers.kit.judging import Settings, failed, passed
from aliquot.verifiers.kit.report import Finding, Report
from aliquot.verifiers.kit.subject import Subject


def check(
    target: str,
    config: Mapping[str, Any] | None = None,
    *,
    base: Path | None = None,
    trust: bool = False,
    settings: Settings | None = None,
    patience: float = 60.0,
    say: Callable[[Finding], None] = lambda finding: None,
) -> Report:
    """Run every check.

    Args:
        target: a type, as in a campaign: a name, or `./my.py:MyVerifier`.
        config: the configuration to check it with; default: the class's `example`. Fixtures are judged under the
            example in either case, for that is what they are written for.
        trust: run it without a sandbox, as on a machine that has none.
        patience: longest time to wait for a slow verifier, seconds.
        say: called with each finding as it is there.

    Raises:
        ConfigError: nothing has this name, or the configuration is wrong. A plugin that does not load is a finding.
        SandboxUnavailable: it is not trusted, and this machine cannot contain it.
    """
    settings = settings or Settings()
    begun = time.monotonic()
    findings: list[Finding] = []

    def note(finding: Finding) -> None:
        findings.append(finding)
        say(finding)

    try:
        subject = Subject(target, config, base=base, trust=trust, patience=patience)
        with subject.trial() as trial:
            controls = trial.service.controls
    except ConfigError as error:
        if not any("does not load" in remedy for _, _, remedy in error.problems):
            raise
        note(failed("loads", "\n".join(remedy for _, _, remedy in error.problems)))
        return Report(target=target, findings=tuple(findings), seconds=time.monotonic() - begun)
    note(passed("loads", f"in {time.monotonic() - begun:.2g} s"))
    try:
        for name, one in checks.table():
            try:
                note(one(subject, settings))
            except ConfigError as error:  # a fixture's own configuration is wrong
                note(failed(name, str(error)))
    finally:
        subject.close()
    said = subject.said
    return Report(
        target=target,
        name=said.name,
        version=said.version,
        style=said.style,
        kinds=said.kinds,
        digest=said.digest,
        contained=subject.contained,
        controls=controls,
        findings=tuple(findings),
        seconds=time.monotonic() - begun,
    )
