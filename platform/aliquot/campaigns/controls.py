"""Controls: designs whose verdict is known, asked before a campaign and every so often in it.

An oracle that silently answers 0.0 teaches the policy that nothing is any good, so a control that does not hold blocks
the campaign until a person has looked. What a slow verifier owes is noted, and waited for no longer.
"""

from __future__ import annotations

import time

from aliquot.campaigns.context import Context
from aliquot.clock import HOUR
from aliquot.ledger import record
from aliquot.verifiers.kit.controls import run_controls

PATIENCE = 60.0
"""Seconds that slow verifiers have for their controls."""


class Controls:
    """The controls of one running campaign's verifiers; due when it is made, and `verifying.controls_hours` later."""

    def __init__(self, context: Context):
        self.context = context
        self._due = float("-inf")

    def broken(self) -> str:
        """What no longer holds, for a person; empty: all is well, or it is not time yet."""
        if time.monotonic() < self._due:
            return ""
        context = self.context
        self._due = time.monotonic() + context.spec.verifying.controls_hours * HOUR
        asked = sum(len(stage.said.controls) for stage in context.ladder.stages)
        if not asked:
            return ""
        problems = run_controls(context.ladder, patience=PATIENCE)
        with context.ledger.write() as session:
            told = [problem.model_dump(mode="json", include={"verifier", "kind", "message"}) for problem in problems]
            record(session, context.campaign_id, context.clock.now(), "controls", asked=asked, problems=told)
        return "; ".join(problem.message for problem in problems if problem.kind != "unanswered")
