"""Rewards, and what the trainer did with them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from aliquot.domain.base import Noun


class RewardStatus(StrEnum):
    PENDING = "pending"
    """Nothing measured yet: the value, if any, is the surrogate's mean."""
    PARTIAL = "partial"
    """Some parts measured, the rest imputed."""
    FINAL = "final"
    REVISED = "revised"
    """Final once, changed since."""
    RETRACTED = "retracted"


class Reward(Noun):
    """Reward of (proposal, objective version, revision). Append-only; a higher revision replaces a lower one."""

    revision: int = Field(ge=0)
    objective_version: int = Field(default=1, ge=1)
    status: RewardStatus
    value: float | None = Field(default=None)
    """The objective's value, in [0, 1]; None is *missing*, which is never zero."""
    uncertainty: float | None = Field(default=None, ge=0)
    """One standard deviation of `value`."""
    completeness: float = Field(ge=0, le=1)
    """Weight of the objective's targets that were measured, over all."""


class Tier(StrEnum):
    """How a trajectory is learned from, by the divergence between its behaviour version and the current policy."""

    FRESH = "fresh"
    MODERATE = "moderate"
    OLD = "old"
    ANCIENT = "ancient"


class Disposition(Noun):
    """What the trainer did with (proposal, reward revision). Nothing is dropped silently.

    Over a proposal's dispositions on one branch, `applied + masked` add up to its final advantage.
    """

    reward_revision: int
    step: int | None
    """The trainer's step on its lineage, or None when it was not used."""
    tier: Tier | None
    applied: float = 0.0
    """The coefficient of ∇ log π actually applied in this step, before the truncated importance weight."""
    masked: float = 0.0
    """The part of the coefficient that a mask or a tier held back."""
    weight: float | None = None
    """The truncated importance weight that multiplied it."""
    reason: str = ""
    """Why it was masked or not used; empty when it was simply applied."""
