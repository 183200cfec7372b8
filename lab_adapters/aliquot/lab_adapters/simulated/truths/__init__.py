"""Noise-free values: what a perfect measurement of a design would give. One file each; `type` picks one."""

from typing import Annotated

from pydantic import Field

from aliquot.lab_adapters.simulated.truths.clark_bbb import ClarkBbb
from aliquot.lab_adapters.simulated.truths.esol import Esol
from aliquot.lab_adapters.simulated.truths.motif import Motif
from aliquot.lab_adapters.simulated.truths.similarity import Similarity
from aliquot.lab_adapters.simulated.truths.surface import Surface

Truth = Annotated[Similarity | Esol | ClarkBbb | Surface | Motif, Field(discriminator="type")]

__all__ = ["ClarkBbb", "Esol", "Motif", "Similarity", "Surface", "Truth"]
