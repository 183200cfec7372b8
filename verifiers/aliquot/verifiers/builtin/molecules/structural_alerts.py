"""Substructures that medicinal chemists avoid: how many alerts a molecule raises.

Sources of the patterns, as RDKit's `FilterCatalog` holds them: PAINS, Baell & Holloway, J. Med. Chem. 53, 2719
(2010); Brenk, Brenk et al., ChemMedChem 3, 435 (2008); NIH, Doveston et al., Org. Biomol. Chem. 13, 859 (2015) and
Jadhav et al., J. Med. Chem. 53, 37 (2010).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class StructuralAlertsConfig(VerifierConfig):
    catalogs: tuple[Literal["PAINS", "BRENK", "NIH"], ...] = Field(default=("PAINS", "BRENK"), min_length=1)
    """Which collections of patterns to look for."""
    maximum: int = Field(default=0, ge=0)
    """Refuse molecules with more alerts than this."""


class StructuralAlerts(PointwiseVerifier):
    """Number of patterns that match, 0 upwards. `values["alerts"]` names them as CATALOG:pattern."""

    name, version = "structural_alerts", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=2)
    bounds = (0.0, None)
    Config = StructuralAlertsConfig
    fixtures = (
        Fixture.full("molecule", "O=C1NC(=S)SC1=Cc1ccccc1", at_least=1, accepted=False),
        Fixture.zero("molecule", "Cc1ccccc1", at_most=0, accepted=True),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "O=[N+]([O-])c1ccccc1"),
    )

    def __init__(self, config: StructuralAlertsConfig):
        super().__init__(config)
        from rdkit.Chem.FilterCatalog import FilterCatalog, FilterCatalogParams

        names = dict.fromkeys(config.catalogs)  # each once, in the order given
        kinds = FilterCatalogParams.FilterCatalogs
        self._catalogs = {name: FilterCatalog(FilterCatalogParams(getattr(kinds, name))) for name in names}

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        for design in designs:
            molecule = parse(design)
            alerts = [
                f"{name}:{match.GetDescription()}"
                for name, catalog in self._catalogs.items()
                for match in catalog.GetMatches(molecule)
            ]
            accepted = len(alerts) <= self.config.maximum
            reason = "" if accepted else f"{len(alerts)} structural alerts: {', '.join(alerts)}"
            yield Score(float(len(alerts)), accepted, reason, {"alerts": alerts})
