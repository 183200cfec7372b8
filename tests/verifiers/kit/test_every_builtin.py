"""`aliquot plugin check` on every verifier that comes with the project: none fails a check."""

from __future__ import annotations

import pytest

from aliquot.verifiers.kit.check import check
from aliquot.verifiers.kit.judging import Settings
from aliquot.verifiers.registry import BUILTINS

SMALL = Settings(rounds=3, examples=10, ordinary=5)


@pytest.mark.parametrize("name", BUILTINS)
def test_every_builtin_passes_the_checks(name, request, monkeypatch):
    if name == "bioactivity":  # the one that needs files which are fetched
        monkeypatch.setenv("ALIQUOT_CACHE", str(request.getfixturevalue("activity_models").parent))
    report = check(name, settings=SMALL)
    assert report.passed, "\n".join(f"{finding.check}: {finding.why}" for finding in report.failed)
    done = {finding.check for finding in report.findings if finding.status == "pass"}
    assert {"fixtures", "malformed_cases", "seeded_cases", "adversarial_corpus", "adversarial_generated"} <= done
    skipped = {finding.check for finding in report.findings if finding.status == "skip"}
    assert {"one_by_one", "memory_replays"} & done or "determinism" in skipped
