"""The objective of a design that the lab has not measured, or not measured whole.

What is known (verifier scores, means of measured assays) stands as it is. Each missing assay is filled with the draws
of its own surrogate, and the objective is taken draw by draw, so that a desirability that is flat or steep makes of the
uncertainty what it should. Member i of one assay's forest is joined with member i of another's; the forests have seeds
of their own, so the assays' errors are taken as independent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from aliquot.domain import ConditionsSpace, Design, MoleculeSpace, Objective, SequenceSpace
from aliquot.surrogates.forest import RandomForestSurrogate
from aliquot.surrogates.protocol import SurrogateError, SurrogateNotReady

Observation = tuple[Design, float, float | None]
"""One measured value of one assay: the design, the value, its standard error where the lab knows it."""


class ObjectiveSurrogate:
    """One random forest for each assay of an objective."""

    def __init__(
        self,
        objective: Objective,
        space: MoleculeSpace | ConditionsSpace | SequenceSpace,
        seed: int,
        minimum_observations: int = 16,
        trees: int = 100,
    ):
        """`minimum_observations`: designs with a value that an assay needs before its forest is trusted."""
        self.objective, self.minimum_observations = objective, minimum_observations
        self._forests = {a: RandomForestSurrogate(space, _seed_of(seed, a), trees) for a in objective.assays}
        self._points: dict[str, tuple[tuple[str, ...], bytes]] = {}

    @property
    def ready(self) -> bool:
        """Whether every assay of the objective has been fitted on enough designs."""
        return set(self._points) == set(self.objective.assays)

    def fit(self, observations: Mapping[str, Sequence[Observation]]) -> None:
        """Learn from all that the lab has returned so far, by assay.

        Observations of one design are averaged, by inverse variance where all their standard errors are known and
        positive. An assay with too few designs is not fitted; one whose averages did not change is not fitted again.

        Raises:
            SurrogateError: a value is not finite.
        """
        for assay, forest in self._forests.items():
            designs, values = _averaged(observations.get(assay, ()))
            if len(designs) < self.minimum_observations:
                self._points.pop(assay, None)
                continue
            points = (tuple(design.key for design in designs), values.tobytes())
            if self._points.get(assay) != points:
                forest.fit(designs, values)
                self._points[assay] = points

    def predict(self, designs: Sequence[Design], known: Sequence[Mapping[str, float]]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the objective's value, float64 [n] each.

        Args:
            known: for each design its known values by target name; NaN stands for a reported failure. Names that are
                no target are passed over.

        Raises:
            SurrogateNotReady: an assay is missing somewhere and its forest has not seen enough.
            SurrogateError: a verifier's score is missing, which no surrogate fills; or lengths disagree.
        """
        if len(designs) != len(known):
            raise SurrogateError(f"{len(designs)} designs and known values for {len(known)}")
        values: dict[str, np.ndarray | float] = {}
        for target in self.objective.targets:
            column = np.array([one.get(target.name, 0.0) for one in known], dtype=float)
            missing = [i for i, one in enumerate(known) if target.name not in one]
            values[target.name] = column
            if missing and target.assay is None:
                raise SurrogateError(
                    f"{designs[missing[0]].text} has no score of verifier {target.name!r}; give it one"
                )
            if missing:
                draws = self._draws(target.name, [designs[i] for i in missing])
                filled = np.tile(column, (len(draws), 1))
                filled[:, missing] = draws
                values[target.name] = filled
        joined = np.atleast_2d(self.objective.value(values))
        deviations = joined - joined[0]  # zero to the last bit where all is known
        return joined[0] + deviations.mean(axis=0), deviations.std(axis=0)

    def _draws(self, assay: str, designs: list[Design]) -> np.ndarray:
        if assay not in self._points:
            need = self.minimum_observations
            raise SurrogateNotReady(f"assay {assay!r} has fewer than {need} measured designs; look at `ready` first")
        return self._forests[assay].predict(designs).draws


LEAST_ERROR = 1e-9
"""A lab that claims to be surer than this is taken to be just so sure."""


def _averaged(observations: Sequence[Observation]) -> tuple[list[Design], np.ndarray]:
    """Designs, each once and in the order they first came, and the mean value of each, float64 [n]."""
    grouped: dict[str, list[Observation]] = {}
    for observation in observations:
        grouped.setdefault(observation[0].key, []).append(observation)
    means = []
    for group in grouped.values():
        errors = [error for _, _, error in group if error]
        weights = [max(error, LEAST_ERROR) ** -2 for error in errors] if len(errors) == len(group) else None
        means.append(np.average([value for _, value, _ in group], weights=weights))
    return [group[0][0] for group in grouped.values()], np.asarray(means, dtype=float)


def _seed_of(seed: int, assay: str) -> int:
    return int(hashlib.sha256(f"{seed}:{assay}".encode()).hexdigest()[:8], 16)
