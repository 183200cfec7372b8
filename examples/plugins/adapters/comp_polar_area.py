"""A scoring component for REINVENT4, and for `reinvent_component` here: the polar surface area of a molecule."""

from __future__ import annotations

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from rdkit.Chem import Descriptors
from reinvent_plugins.mol_cache import molcache

from .add_tag import add_tag
from .component_results import ComponentResults


@add_tag("__parameters")
@dataclass
class Parameters:
    """Each is a list, with an entry for each endpoint."""

    with_sulphur: list[bool] = Field(default_factory=lambda: [False])


@add_tag("__component")
class PolarArea:
    def __init__(self, params: Parameters):
        self.with_sulphur = params.with_sulphur
        self.number_of_endpoints = len(params.with_sulphur)

    @molcache
    def __call__(self, mols):
        rows = [[Descriptors.TPSA(mol, includeSandP=also) for mol in mols] for also in self.with_sulphur]
        return ComponentResults([np.array(row) for row in rows])
