"""What a scientist submits: the whole campaign as one validated document.

A spec that loads is a spec that runs: `load.parse` looks beyond the schema, at the lab that must have the assays, the
verifiers that must exist, the policy that must fit, and numbers that must fit each other.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from aliquot.domain import DesignSpace, Noun, Objective
from aliquot.domain.errors import Problem
from aliquot.lab_adapters.sdk import LabDescription
from aliquot.trainer.config import LearningConfig, PolicyConfig
from aliquot.verifiers.stage import VerifierRef


class LabRef(BaseModel):
    """Which lab, and its own configuration beside the `type`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str = Field(min_length=1)
    """A built-in (`simulated`), an installed plugin, or `file.py:Class`."""

    @property
    def config(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Budget(Noun):
    """What the campaign may spend."""

    experiments: int = Field(ge=1, le=10**9)
    money: float | None = Field(default=None, gt=0)
    """In the lab's currency; None: not limited."""


class Proposing(Noun):
    """How many designs are proposed, and how many experiments may be out at once."""

    group_size: int = Field(default=64, ge=2, le=4096)
    """Proposals a round; siblings of one prompt."""
    max_in_flight: int = Field(default=64, ge=1)
    """Experiments at the lab at once."""


class Verifying(Noun):
    """How verifiers are asked."""

    wait_hours: float = Field(default=24 * 7.0, gt=0)
    """Real time after which a slow verifier that has not answered is given up: the proposal is undecided."""
    controls_hours: float = Field(default=24.0, gt=0)
    """Real time between checks of the positive and negative controls that verifiers declare; the first is before the
    first proposal."""


class Selecting(Noun):
    """Which verified proposals the lab gets."""

    per_round: int = Field(default=8, ge=1)
    acquisition: Literal["ucb", "greedy", "random"] = "ucb"
    """By the surrogate's mean + κ·sd, its mean, or chance. Chance until the surrogate is ready."""
    kappa: float = Field(default=1.0, ge=0)
    exploration: float = Field(default=0.25, gt=0, le=1)
    """Share of each round's places that are drawn uniformly: keeps every selection probability above zero."""
    minimum_observations: int = Field(default=24, ge=4)
    """Measured designs of every assay before the surrogate is trusted."""


class Rewarding(Noun):
    """What a reward is while parts are missing."""

    missing: Literal["impute", "wait", "renormalise"] = "impute"
    """`impute`: the surrogate fills in. `wait`: no reward until all is in. `renormalise`: the parts that are in, alone;
    only where which part is missing does not depend on the parts that came."""
    late: Literal["train", "store"] = "train"
    """Results that come after the campaign stopped waiting for their experiment: learned from, or kept only."""


class Runtime(Noun):
    """Where and how it runs."""

    type: Literal["embedded"] = "embedded"
    deterministic: bool = False
    """One process, computing charged to lab time by `round_hours`: same seed, same run. Otherwise the trainer has a
    process of its own beside proposing and verifying."""
    round_hours: float = Field(default=4.0, gt=0)
    """Lab time from one round of proposals to the next, on a virtual clock."""
    poll_seconds: float = Field(default=30.0, gt=0)
    """Time between looks at a lab on the real clock."""
    timeout_hours: float = Field(default=24 * 21.0, gt=0)
    """Lab time after which the campaign stops waiting for an experiment."""


class Stopping(Noun):
    """When to end before the budget does."""

    target: float | None = Field(default=None, gt=0, le=1)
    """Stop once a fully measured design reaches this value of the objective."""
    patience: int = Field(default=25, ge=1)
    """Stop after so many rounds without one new design for the lab: the space, or the policy, has run dry."""


class CampaignSpec(Noun):
    """One campaign."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}$")
    seed: int = Field(default=0, ge=0, lt=2**63)
    space: DesignSpace
    objective: Objective
    verifiers: tuple[VerifierRef, ...] = ()
    verifying: Verifying = Verifying()
    lab: LabRef
    budget: Budget
    policy: PolicyConfig = PolicyConfig()
    proposing: Proposing = Proposing()
    selecting: Selecting = Selecting()
    rewarding: Rewarding = Rewarding()
    learning: LearningConfig = LearningConfig()
    runtime: Runtime = Runtime()
    stopping: Stopping = Stopping()

    @model_validator(mode="after")
    def _fits(self):
        names = [v.name for v in self.verifiers]
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise ValueError(f"verifiers need different names; twice: {', '.join(twice)} (give one a `name`)")
        if not self.objective.assays:
            raise ValueError("the objective has no `assay` among its targets, so there is nothing to ask a lab")
        if unknown := sorted(set(self.objective.scores) - set(names)):
            raise ValueError(
                f"the objective wants the score of {', '.join(unknown)}, but the campaign's verifiers are: "
                f"{', '.join(names) or 'none'}"
            )
        optional = [v.name for v in self.verifiers if not v.required]
        if wanted := sorted(set(self.objective.scores) & set(optional)):
            raise ValueError(f"a score that the objective wants must be `required`: {', '.join(wanted)}")
        if self.learning.enabled and self.objective.floor >= 1:
            raise ValueError(
                "with objective.floor at 1 every reward is 1, and there is nothing to learn: lower it, or say "
                "`learning: {enabled: false}`"
            )
        if self.selecting.per_round > self.proposing.group_size:
            raise ValueError(
                f"selecting.per_round is {self.selecting.per_round}, more than the {self.proposing.group_size} "
                "proposals of a round (proposing.group_size)"
            )
        return self

    def misfits(self, description: LabDescription) -> list[Problem]:
        """Where the objective or the space does not fit what the lab says of itself."""
        problems: list[Problem] = []
        offered = [assay.name for assay in description.assays]
        for i, target in enumerate(self.objective.targets):
            if target.assay is not None and target.assay not in offered:
                remedy = f"the lab {description.name!r} has no such assay; it has: {', '.join(offered)}"
                problems.append((f"objective.targets[{i}].assay", target.assay, remedy))
        if self.space.type not in description.kinds:
            remedy = f"the lab {description.name!r} takes {', '.join(description.kinds)}"
            problems.append(("space.type", self.space.type, remedy))
        return problems
