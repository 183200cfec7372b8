"""The oracles of the PMO benchmark that need nothing but RDKit, by the names that PMO and the TDC give them.

`pmo_tasks` says what each is made of and where it comes from. The other three of the benchmark's 23, `gsk3b`, `jnk3`
and `drd2`, need a trained model: they are the verifier `bioactivity`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field, field_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.builtin.molecules.pmo_tasks import TASKS
from aliquot.verifiers.sdk import Control, Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

KNOWN = "CC(C)(C)[C@H]1CCc2c(sc(NC(=O)COc3ccc(Cl)cc3)c2C(N)=O)C1"
KNOWN_SCORES = {
    "albuterol_similarity": 0.2772277227722772,
    "amlodipine_mpo": 0.461083967620704,
    "celecoxib_rediscovery": 0.14728682170542637,
    "deco_hop": 0.5338365434669443,
    "fexofenadine_mpo": 0.4336446174984538,
    "isomers_c7h8n2o2": 2.1987591132394053e-34,
    "isomers_c9h10n2o2pf2cl": 1.713908431542013e-15,
    "median1": 0.09722243533981723,
    "median2": 0.12259690287307903,
    "mestranol_similarity": 0.19460880999342536,
    "osimertinib_mpo": 0.09011742702110873,
    "perindopril_mpo": 0.36023741111440966,
    "ranolazine_mpo": 0.29285467466584664,
    "scaffold_hop": 0.38446411012782694,
    "sitagliptin_mpo": 3.34970667598234e-12,
    "thiothixene_rediscovery": 0.17391304347826086,
    "troglitazone_rediscovery": 0.24427480916030533,
    "valsartan_smarts": 0.0,
    "zaleplon_mpo": 0.0019017991803329235,
}
"""What PyTDC's oracles give for `KNOWN`, the example of its documentation, as the tests of the package `poli` record
it. A control: a later RDKit that changes a fingerprint or a descriptor is noticed before a campaign, not after it."""


class PmoConfig(VerifierConfig):
    task: str
    """One of the tasks, in capitals or not: `albuterol_similarity`, `Osimertinib_MPO`, …"""
    minimum: float | None = Field(default=None, ge=0, le=1)
    """Refuse molecules below it; None: score only."""

    @field_validator("task")
    @classmethod
    def _known(cls, task: str) -> str:
        name = task.lower()
        if name in ("gsk3b", "jnk3", "drd2"):
            raise ValueError(f"{name} is a trained model: write `type: bioactivity` with `model: {name}`")
        if name not in TASKS:
            raise ValueError(f"no such task; known: {', '.join(sorted(TASKS))}")
        return name


class Pmo(PointwiseVerifier):
    """Score of the task, no unit, 0 to 1."""

    name, version = "pmo", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=30)
    bounds = (0.0, 1.0)
    Config = PmoConfig
    example = {"task": "albuterol_similarity"}
    fixtures = (
        Fixture.full("molecule", "CC(C)(C)NCC(O)c1ccc(O)c(CO)c1", at_least=1.0),
        Fixture.full("molecule", "Nc1cc(C(N)=O)ccc1O", at_least=1.0, config={"task": "isomers_c7h8n2o2"}),
        Fixture.zero("molecule", "CCCCCC", at_most=0.0, config={"task": "valsartan_smarts"}),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", KNOWN, config={"task": "deco_hop"}),
    )

    def __init__(self, config: PmoConfig):
        super().__init__(config)
        self._score = TASKS[config.task]()

    @classmethod
    def controls_for(cls, config: Any) -> Sequence[Control]:
        if config.task not in KNOWN_SCORES:
            return ()
        score = KNOWN_SCORES[config.task]
        return (Control.of("molecule", KNOWN, at_least=score * (1 - 1e-6), at_most=score * (1 + 1e-6)),)

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        minimum = self.config.minimum
        for design in designs:
            value = self._score(parse(design))
            accepted = minimum is None or value >= minimum
            yield Score(value, accepted, "" if accepted else f"{self.config.task} {value:.3f} is below {minimum:g}")
