"""Whether a molecule is for sale, by the user's own catalogue.

A catalogue is a file of SMILES or a table with further columns (`references`). Design and entry are the same when the
declared `space` makes the same canonical SMILES of both, so salts, charges and stereochemistry count as they do in the
campaign. A quarter of a million entries are no burden: only those with
the design's own atoms and rings are ever made canonical.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from pydantic import Field, ValidationInfo, field_validator

from aliquot.domain import Design, InvalidDesign
from aliquot.domain.spaces import MoleculeSpace
from aliquot.verifiers.builtin.molecules.references import read_molecules
from aliquot.verifiers.sdk import DataFile, Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

TOKEN = re.compile(r"\[\d*([A-Z][a-z]?|[a-z]{1,2})[^\]]*\]|(Br|Cl|[BCNOPSFIbcnops])|(?:%\d\d|\d)")


class PurchasabilityConfig(VerifierConfig):
    catalogue: DataFile
    """Lines that begin with a SMILES, or a table (.csv, .tsv) with a header; .gz too."""
    column: str = Field(default="smiles", min_length=1)
    """The table's column that holds the SMILES; capitals do not matter."""
    price_column: str | None = None
    """The table's column that holds prices, numbers in one currency."""
    maximum_price: float | None = Field(default=None, gt=0)
    """Refuse what costs more; needs `price_column`. None: any price."""
    space: MoleculeSpace = MoleculeSpace()
    """When two SMILES name the same thing: as in the campaign."""
    refuse_others: bool = True
    """False: score only."""

    @field_validator("maximum_price")
    @classmethod
    def _priced(cls, price: float | None, info: ValidationInfo) -> float | None:
        if price is not None and info.data.get("price_column") is None:
            raise ValueError("a maximum price needs `price_column`, the column that holds the prices")
        return price


class Purchasability(PointwiseVerifier):
    """1 for a molecule of the catalogue (at no more than the maximum price), else 0. No unit.

    `values["entries"]` are its rows in the catalogue, at most 20.
    """

    name, version = "purchasability", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=10, startup_seconds=120)
    bounds = (0.0, 1.0)
    Config = PurchasabilityConfig
    example = {
        "catalogue": str(Path(__file__).with_name("example_catalogue.csv")),
        "price_column": "price",
        "maximum_price": 20,
    }
    fixtures = (
        Fixture.full("molecule", "CC(=O)Oc1ccccc1C(=O)O", at_least=1, accepted=True),
        Fixture.zero("molecule", "CC(C)Cc1ccc(C(C)C(=O)O)cc1", at_most=0, accepted=False),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "Cn1cnc2c1c(=O)n(C)c(=O)n2C"),
    )

    def __init__(self, config: PurchasabilityConfig):
        super().__init__(config)
        self._rows: list[tuple[str, str, dict[str, str]]] = list(read_molecules(config.catalogue, config.column))
        if not self._rows:
            raise ValueError(f"{config.catalogue} holds no molecule")
        self._prices = [_price(row, config.price_column) for row in self._rows] if config.price_column else []
        self._alike: dict[frozenset[tuple[str, int]], list[int]] = {}
        for i, (_, smiles, _) in enumerate(self._rows):
            for part in {smiles, *smiles.split(".")}:
                self._alike.setdefault(composition(part), []).append(i)
        self._canonical = cache(self._canonical_of)

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        limit = self.config.maximum_price
        for design in designs:
            value = self.config.space.design(design.value).value
            found = [i for i in self._alike.get(composition(str(value)), ()) if self._canonical(i) == value]
            cheap = [i for i in found if limit is None or self._prices[i] <= limit]
            if cheap:
                reason = ""
            elif found:
                price = min(self._prices[i] for i in found)
                reason = f"it costs {price:g}, more than {limit:g}" if price < math.inf else "it has no price"
            else:
                reason = "it is not in the catalogue"
            entries = [self._rows[i][2] for i in (cheap or found)[:20]]
            yield Score(float(bool(cheap)), bool(cheap) or not self.config.refuse_others, reason, {"entries": entries})

    def _canonical_of(self, row: int) -> str | None:
        try:
            return str(self.config.space.design(self._rows[row][1]).value)
        except InvalidDesign:
            return None  # an entry that RDKit cannot read is none that a design could be


def _price(row: tuple[str, str, dict[str, str]], column: str) -> float:
    """The price in a row; infinite where it is left empty."""
    place, _, columns = row
    if column.lower() not in columns:
        raise ValueError(f"{place}: there is no column {column!r}")
    text = columns[column.lower()] or "inf"
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not price >= 0:
        raise ValueError(f"{place}: the price {text!r} is not a number from 0 upwards")
    return price


def composition(smiles: str) -> frozenset[tuple[str, int]]:
    """How many atoms of each element but hydrogen, and ring closures ("") a SMILES has, read from its text.

    Both are the same however a molecule is written.
    """
    counts = Counter((inside or outside).capitalize() for inside, outside in TOKEN.findall(smiles))
    del counts["H"]
    return frozenset(counts.items())
