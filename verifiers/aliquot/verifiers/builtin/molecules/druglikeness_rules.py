"""Rules of thumb for what can be a drug by mouth, or a lead: how many of their conditions a molecule breaks.

`lipinski`: Lipinski, Lombardo, Dominy & Feeney, Adv. Drug Deliv. Rev. 23, 3 (1997), whose rule of five lets a drug
break one (`maximum: 1`). `veber`: Veber et al., J. Med. Chem. 45, 2615 (2002). `ghose`: Ghose, Viswanadhan &
Wendoloski, J. Comb. Chem. 1, 55 (1999). `egan`: Egan, Merz & Baldwin, J. Med. Chem. 43, 3867 (2000), as the box of
its two properties. `rule_of_three`, for fragments: Congreve, Carr, Murray & Jhoti, Drug Discov. Today 8, 876 (2003).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.descriptor import function_of
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

RuleName = Literal["lipinski", "veber", "ghose", "egan", "rule_of_three"]

CONDITIONS: dict[RuleName, dict[str, tuple[float, float]]] = {
    "lipinski": {
        "molecular_weight": (-math.inf, 500),
        "logp": (-math.inf, 5),
        "nh_and_oh": (-math.inf, 5),
        "n_and_o": (-math.inf, 10),
    },
    "veber": {"rotatable_bonds": (-math.inf, 10), "tpsa": (-math.inf, 140)},
    "ghose": {
        "molecular_weight": (160, 480),
        "logp": (-0.4, 5.6),
        "molar_refractivity": (40, 130),
        "atoms": (20, 70),
    },
    "egan": {"logp": (-math.inf, 5.88), "tpsa": (-math.inf, 131.6)},
    "rule_of_three": {
        "molecular_weight": (-math.inf, 300),
        "logp": (-math.inf, 3),
        "hydrogen_bond_donors": (-math.inf, 3),
        "hydrogen_bond_acceptors": (-math.inf, 3),
        "rotatable_bonds": (-math.inf, 3),
        "tpsa": (-math.inf, 60),
    },
}
"""Of each rule, the lowest and highest value of each property, both allowed."""


class DruglikenessRulesConfig(VerifierConfig):
    rules: tuple[RuleName, ...] = Field(default=("lipinski", "veber"), min_length=1)
    """Which rules to hold it against."""
    maximum: int = Field(default=0, ge=0)
    """Refuse molecules that break more conditions than this."""


class DruglikenessRules(PointwiseVerifier):
    """Number of conditions broken, 0 upwards. `values["broken"]` names them as rule:property."""

    name, version = "druglikeness_rules", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=2)
    bounds = (0.0, float(sum(map(len, CONDITIONS.values()))))
    Config = DruglikenessRulesConfig
    fixtures = (
        Fixture.full("molecule", "CC(=O)Oc1ccccc1C(=O)O", at_least=0, at_most=0, accepted=True),
        Fixture.zero("molecule", "CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC", at_least=3, at_most=3, accepted=False),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "CC(=O)Oc1ccccc1C(=O)O"),
    )

    def __init__(self, config: DruglikenessRulesConfig):
        super().__init__(config)
        self._conditions = [
            (f"{rule}:{name}", function_of(name), low, high)
            for rule in dict.fromkeys(config.rules)  # each once, in the order given
            for name, (low, high) in CONDITIONS[rule].items()
        ]

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        for design in designs:
            molecule = parse(design)
            broken = [name for name, of, low, high in self._conditions if not low <= of(molecule) <= high]
            accepted = len(broken) <= self.config.maximum
            reason = "" if accepted else f"{len(broken)} conditions are broken: {', '.join(broken)}"
            yield Score(float(len(broken)), accepted, reason, {"broken": broken})
