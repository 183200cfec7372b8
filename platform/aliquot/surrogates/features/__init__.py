"""Designs as numbers, one file for each kind of design space."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aliquot.domain import ConditionsSpace, Design, MoleculeSpace, SequenceSpace
from aliquot.surrogates.features.conditions import conditions_features
from aliquot.surrogates.features.molecule import molecule_features
from aliquot.surrogates.features.sequence import sequence_features

Featuriser = Callable[[Sequence[Design]], np.ndarray]
"""Designs → float32 [n, features]."""


def featuriser_of(space: MoleculeSpace | ConditionsSpace | SequenceSpace) -> Featuriser:
    """The features of a design space."""
    if isinstance(space, MoleculeSpace):
        return molecule_features
    if isinstance(space, ConditionsSpace):
        return conditions_features(space)
    return sequence_features(space)
