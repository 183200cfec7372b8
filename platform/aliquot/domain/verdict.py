"""Verdicts and outcomes: what was said of a design, and why an attempt gave what it gave."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, JsonValue, model_validator

from aliquot.domain.base import Noun


class Outcome(StrEnum):
    """Why an attempt gave what it gave. `RULES` says what each means for the reward."""

    MEASURED = "measured"
    INVALID_DESIGN = "invalid_design"
    REFUSED_BY_VERIFIER = "refused_by_verifier"
    REFUSED_BY_APPROVAL = "refused_by_approval"
    REFUSED_BY_SAFETY = "refused_by_safety"
    REFUSED_BY_BUDGET = "refused_by_budget"
    LAB_FAILURE = "lab_failure"
    INFRASTRUCTURE_ERROR = "infrastructure_error"
    TIMED_OUT = "timed_out"
    INCONCLUSIVE = "inconclusive"
    CANCELLED = "cancelled"


class RewardRule(StrEnum):
    """What an outcome means for the reward."""

    OBJECTIVE = "objective"
    """The objective's value of what was measured."""
    FLOOR = "floor"
    """The objective's declared floor."""
    FAILURE_VALUE = "failure_value"
    """The assay's declared failure value, through the objective."""
    MISSING = "missing"
    """None: censored, to be imputed; never 0."""


RULES: dict[Outcome, RewardRule] = {
    Outcome.MEASURED: RewardRule.OBJECTIVE,
    Outcome.INVALID_DESIGN: RewardRule.FLOOR,
    Outcome.REFUSED_BY_VERIFIER: RewardRule.FLOOR,
    Outcome.REFUSED_BY_APPROVAL: RewardRule.MISSING,
    Outcome.REFUSED_BY_SAFETY: RewardRule.MISSING,
    Outcome.REFUSED_BY_BUDGET: RewardRule.MISSING,
    Outcome.LAB_FAILURE: RewardRule.FAILURE_VALUE,
    Outcome.INFRASTRUCTURE_ERROR: RewardRule.MISSING,
    Outcome.TIMED_OUT: RewardRule.MISSING,
    Outcome.INCONCLUSIVE: RewardRule.MISSING,
    Outcome.CANCELLED: RewardRule.MISSING,
}


class VerdictError(Noun):
    """A typed infrastructure error. It is never a score."""

    outcome: Outcome = Outcome.INFRASTRUCTURE_ERROR
    message: str
    """What happened, with the item that did it, for the plugin's author."""

    @model_validator(mode="after")
    def _is_missing(self):
        if RULES[self.outcome] is not RewardRule.MISSING:
            raise ValueError(f"{self.outcome} says something of the design; an error must not")
        return self


class Verdict(Noun):
    """What one verifier says of one design: a score and whether it is accepted, or a typed error."""

    verifier: str
    """The verifier's name in the campaign."""
    version: str
    """The version the verifier declares."""
    digest: str
    """Digest of its code and configuration: verdicts of equal digest may be cached."""
    score: float | None = Field(default=None)
    """In the verifier's own units; None when there is an error."""
    accepted: bool | None = None
    reason: str = ""
    """Why it was refused, or what was noticed, in words."""
    values: dict[str, JsonValue] = {}
    """Further named results."""
    seconds: float = Field(default=0.0, ge=0)
    """Processor or waiting time it took."""
    cost: float = Field(default=0.0, ge=0)
    """Money, in the campaign's currency."""
    controls: tuple[str, ...] = ()
    """Sandbox controls proven for the worker that said it."""
    error: VerdictError | None = None

    @model_validator(mode="after")
    def _score_or_error(self):
        if self.error is None and (self.score is None or self.accepted is None):
            raise ValueError("a verdict without an error needs `score` and `accepted`")
        if self.error is not None and (self.score is not None or self.accepted is not None):
            raise ValueError("a verdict with an error has no score and accepts nothing")
        return self
