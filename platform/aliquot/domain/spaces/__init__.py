"""Design spaces: what may be proposed, when two proposals are the same thing, and how a design becomes tokens."""

from typing import Annotated

from pydantic import Field

from aliquot.domain.spaces.codec import BOS, EOS, PAD, SPECIAL_TOKENS, Codec
from aliquot.domain.spaces.conditions import Categorical, ConditionsSpace, Continuous, Discrete, LinearConstraint
from aliquot.domain.spaces.molecule import SMILES_VOCABULARY, MoleculeCodec, MoleculeSpace
from aliquot.domain.spaces.sequence import SequenceSpace

DesignSpace = Annotated[MoleculeSpace | ConditionsSpace | SequenceSpace, Field(discriminator="type")]

__all__ = [
    "BOS", "EOS", "PAD", "SMILES_VOCABULARY", "SPECIAL_TOKENS",
    "Categorical", "Codec", "ConditionsSpace", "Continuous", "DesignSpace", "Discrete", "LinearConstraint",
    "MoleculeCodec", "MoleculeSpace", "SequenceSpace",
]  # fmt: skip
