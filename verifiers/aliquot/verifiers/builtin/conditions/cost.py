"""What a design costs in reagents, and whether the shelf holds enough for it.

Prices and stock come from a table in the campaign or from a CSV file with the columns `reagent`, `price` and, if you
like, `stock`. Stock is looked at for one experiment at a time; what a whole campaign may spend is its budget.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import Field, FiniteFloat, model_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.conditions.reading import number, text
from aliquot.verifiers.sdk import DataFile, Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class Reagent(VerifierConfig):
    price: FiniteFloat = Field(ge=0)
    """Money for one unit of amount."""
    stock: FiniteFloat | None = Field(default=None, ge=0)
    """Units of amount on the shelf; None: not limited."""


class Use(VerifierConfig):
    """One thing that an experiment takes from the shelf."""

    reagent: str | None = None
    """A reagent that every experiment uses."""
    parameter: str | None = None
    """Or the parameter that names it."""
    amount: FiniteFloat | None = Field(default=None, ge=0)
    """How much of it, in the unit of its price."""
    amount_parameter: str | None = None
    """Or the parameter that says how much."""
    factor: FiniteFloat = Field(default=1.0, gt=0)
    """From the parameter's unit to that of the price."""

    @model_validator(mode="after")
    def _complete(self) -> Use:
        if (self.reagent is None) == (self.parameter is None):
            raise ValueError("give either `reagent` or `parameter`")
        if (self.amount is None) == (self.amount_parameter is None):
            raise ValueError("give either `amount` or `amount_parameter`")
        return self


class CostConfig(VerifierConfig):
    reagents: dict[str, Reagent] = {}
    """Prices and stock by name; they stand before those of the file."""
    price_list: DataFile | None = None
    """CSV file with the columns reagent, price, stock."""
    uses: tuple[Use, ...] = Field(min_length=1)
    """What one experiment takes from the shelf."""
    free: tuple[str, ...] = ("none",)
    """Values that stand for no reagent."""
    fixed: FiniteFloat = Field(default=0.0, ge=0)
    """Money that every experiment costs besides."""
    maximum: FiniteFloat | None = Field(default=None, ge=0)
    """Refuse designs that cost more; None: stock only."""

    @model_validator(mode="after")
    def _priced(self) -> CostConfig:
        if not self.reagents and self.price_list is None:
            raise ValueError("give `reagents`, a `price_list`, or both")
        fixed = {use.reagent for use in self.uses if use.reagent is not None}
        if self.price_list is None and (unknown := sorted(fixed - self.reagents.keys() - {*self.free})):
            raise ValueError(f"no price of {', '.join(unknown)}; `reagents` has {', '.join(self.reagents)}")
        return self


class Cost(PointwiseVerifier):
    """Money for one experiment, in the currency of the prices: 0 upwards. `values` has amount and cost by reagent."""

    name, version = "cost", "1"
    kinds = ("conditions",)
    unit = "currency of the prices"
    bounds = (0.0, None)
    needs = Needs(seconds=1)
    Config = CostConfig
    example = {
        "reagents": {"XPhos": {"price": 12.0, "stock": 5.0}, "PPh3": {"price": 0.5}, "Pd": {"price": 40.0}},
        "uses": [
            {"parameter": "ligand", "amount_parameter": "loading", "factor": 0.1},
            {"reagent": "Pd", "amount": 0.05},
        ],
        "maximum": 50.0,
    }
    fixtures = (
        Fixture.full("conditions", {"ligand": "XPhos", "loading": 40.0}, 50.0, at_most=50.0, accepted=True),
        Fixture.zero("conditions", {"ligand": "none", "loading": 40.0}, 2.0, at_least=2.0, accepted=True),
        Fixture.malformed("conditions", {"ligand": "XPhos"}),
        Fixture.malformed("conditions", {"ligand": "SPhos", "loading": 1.0}),
        Fixture.malformed("conditions", {"ligand": "XPhos", "loading": -1.0}),
        Fixture.seeded("conditions", {"ligand": "XPhos", "loading": 60.0}, at_least=74.0, at_most=74.0, accepted=False),
    )

    def __init__(self, config: CostConfig):
        super().__init__(config)
        listed = read_prices(config.price_list) if config.price_list is not None else {}
        self._reagents = {**listed, **config.reagents}

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        for design in designs:
            amounts: dict[str, float] = defaultdict(float)
            for use in self.config.uses:
                name = use.reagent if use.reagent is not None else text(design, use.parameter)
                if name not in self.config.free:
                    amounts[name] += self._amount(design, use)
            if unknown := sorted(amounts.keys() - self._reagents.keys()):
                raise ValueError(f"no price of {', '.join(unknown)}; add it to `reagents` or the price list")
            costs = {name: amount * self._reagents[name].price for name, amount in amounts.items()}
            total = math.fsum([self.config.fixed, *costs.values()])
            reasons = [
                f"{amounts[name]:g} of {name} wanted, {stock:g} in stock"
                for name in amounts
                if (stock := self._reagents[name].stock) is not None and amounts[name] > stock * (1 + 1e-9)
            ]
            if (maximum := self.config.maximum) is not None and total > maximum * (1 + 1e-9):
                reasons.append(f"costs {total:g}, above {maximum:g}")
            yield Score(total, not reasons, "; ".join(reasons), {"amounts": dict(amounts), "costs": costs})

    def _amount(self, design: Design, use: Use) -> float:
        if use.amount is not None:
            return use.amount
        amount = number(design, use.amount_parameter) * use.factor  # type: ignore[arg-type]
        if amount < 0:
            raise ValueError(f"{use.amount_parameter}={amount / use.factor:g} is a negative amount")
        return amount


def read_prices(path: Path) -> dict[str, Reagent]:
    """The reagents of a CSV file.

    Raises:
        ValueError: a column is missing, or a row has no number where one belongs; with the line.
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        if missing := {"reagent", "price"} - {*(rows.fieldnames or ())}:
            raise ValueError(f"{path} has no column {' and no '.join(sorted(missing))}; its first line names them")
        found: dict[str, Reagent] = {}
        for row in rows:
            name = (row["reagent"] or "").strip()
            where = f"{path} line {rows.line_num}"
            if not name or name in found:
                raise ValueError(f"{where}: {'the reagent has no name' if not name else f'{name} stands twice'}")
            try:
                price, stock = float(row["price"]), (row.get("stock") or "").strip()
                found[name] = Reagent(price=price, stock=float(stock) if stock else None)
            except (TypeError, ValueError):
                wrong = f"price {row['price']!r}, stock {row.get('stock')!r}"
                raise ValueError(f"{where}, {name}: {wrong}; numbers of zero or more are wanted, like 12.50") from None
        return found
