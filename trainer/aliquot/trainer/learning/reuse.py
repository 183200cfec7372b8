"""Learning more than once from what is known: counted apart from coefficients, each proposal under a declared budget.

Three kinds. `clipped` takes sealed trajectories again, under a loss that bounds how far it can move them. `augmented`
takes the best designs as randomised SMILES, the same molecule written in another order, which no policy ever drew and
which therefore have no behaviour probability (augmented memory: Guo and Schwaller 2024, JACS Au 4, 2160). `imitation`
takes the best designs as they are written canonically, whoever proposed them: people and other optimisers leave no
log-probabilities, so this is all that a policy can learn from theirs. The last two only ever raise a likelihood.

What was reused for a result that is retracted is taken back with it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from aliquot.domain import Noun
from aliquot.trainer.learning.members import Member
from aliquot.trainer.learning.samplers import DropAfter
from aliquot.trainer.losses import LossConfig
from aliquot.trainer.losses.cispo import CISPO

if TYPE_CHECKING:
    from aliquot.trainer.learning.book import CoefficientBook

Candidate = tuple[int, Member, float]
"""(group id, member, coefficient)."""


class _Reuse(Noun, ABC):
    samples: int = Field(default=32, ge=1)
    """Sequences a step."""
    budget: int = Field(default=4, ge=1)
    """How often one proposal may be reused."""

    @abstractmethod
    def candidates(self, book: CoefficientBook) -> list[Candidate]:
        """What may be reused, whatever is left of its budget."""

    def choose(self, book: CoefficientBook, random: np.random.Generator) -> list[Candidate]:
        """At most `samples`, drawn without regard to their outcome among those whose budget is left."""
        found = [one for one in self.candidates(book) if one[1].reuses < self.budget]
        picked = random.permutation(len(found))[: self.samples]
        return [found[i] for i in sorted(picked)]


class Clipped(_Reuse):
    """Sealed trajectories, under a loss that bounds each token's ratio."""

    type: Literal["clipped"] = "clipped"
    loss: LossConfig = CISPO(ratio="behaviour", aggregation="sequence_sum")

    def candidates(self, book: CoefficientBook) -> list[Candidate]:
        return [
            (group_id, member, advantage)
            for group_id, group in book.groups.items()
            for member, advantage in zip(group.members.values(), book.advantages(group_id), strict=True)
            if advantage and member.applied and member.trajectory_id is not None
        ]


class _Best(_Reuse):
    top: float = Field(default=0.1, gt=0, le=1)
    """Share of the measured designs that are taken, the best."""
    least: int = Field(default=8, ge=1)
    """At least so many are taken, while a share of few would be fewer."""
    strength: float = Field(default=0.5, gt=0)
    """The coefficient is this times the value's distance from the running mean, in running standard deviations."""

    def candidates(self, book: CoefficientBook) -> list[Candidate]:
        newest: dict[str | None, tuple[int, Member, float]] = {}
        dropping = isinstance(book.config.sampler, DropAfter)
        for group_id, member in book.members():
            given_up = dropping and member.masked and not member.applied
            if not given_up and not math.isnan(value := book.measured(member)):
                newest[member.design_key] = (group_id, member, value)  # a design counts once, whoever repeats it
        known = sorted(newest.values(), key=lambda one: -one[2])
        best = known[: max(self.least, math.ceil(self.top * len(known)))]
        middle, spread = book.running.average, max(book.running.deviation, 1e-2)
        return [(g, m, self.strength * (value - middle) / spread) for g, m, value in best if value > middle]


class Augmented(_Best):
    """The best molecules as randomised SMILES; molecule spaces only."""

    type: Literal["augmented"] = "augmented"


class Imitation(_Best):
    """The best designs in canonical writing, whoever proposed them."""

    type: Literal["imitation"] = "imitation"


ReuseConfig = Annotated[Clipped | Augmented | Imitation, Field(discriminator="type")]


def randomised(smiles: str, random: np.random.Generator) -> str:
    """The same molecule written from a random atom in a random order (Arús-Pous et al. 2019, J. Cheminform. 11, 71)."""
    from rdkit import Chem

    return Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(smiles), 1, randomSeed=int(random.integers(1, 2**31)))[0]
