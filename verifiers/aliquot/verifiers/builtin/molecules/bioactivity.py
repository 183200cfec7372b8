"""Predicted activity against one of three targets, as the PMO benchmark has it: `gsk3b`, `jnk3` and `drd2`.

Sources: for GSK3β and JNK3, the random forests of Jin, Barzilay & Jaakkola, ICML (2020), on ECFP4 of 2048 bits, after
data of Li, Zhang & Liu, J. Cheminf. 10, 33 (2018); for DRD2, the support vector machine of Olivecrona, Blaschke,
Engkvist & Chen, J. Cheminf. 9, 48 (2017), on FCFP6 counts. Where another program loads these models with a library of
another version it may get 0 for everything; here they are plain arrays, and an active molecule is among the controls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules import fetch_bioactivity
from aliquot.verifiers.builtin.molecules.bioactivity_models import BITS, load
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.sdk import Control, DataFile, Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

OSIMERTINIB = "COc1cc(N(C)CCN(C)C)c(NC(=O)C=C)cc1Nc2nccc(n2)c3cn(C)c4ccccc34"
STAUROSPORINE = "CNC1CC2OC(C)(C1OC)n1c3ccccc3c3c4c(c5c6ccccc6n2c5c31)C(=O)NC4"
HALOPERIDOL = "O=C(CCCN1CCC(O)(c2ccc(Cl)cc2)CC1)c1ccc(F)cc1"
INACTIVE = "CC(C)(C)[C@H]1CCc2c(sc(NC(=O)COc3ccc(Cl)cc3)c2C(N)=O)C1"
"""The example of the Therapeutics Data Commons, which gives 0.03, 0.01 and 0.0015465 for it."""


class BioactivityConfig(VerifierConfig):
    model: Literal["gsk3b", "jnk3", "drd2"]
    """The target: glycogen synthase kinase 3β, c-Jun N-terminal kinase 3, or the dopamine receptor D2."""
    files: DataFile = Field(default_factory=fetch_bioactivity.default_folder, validate_default=True)
    """Folder of the fetched models; default: `bioactivity` in `$ALIQUOT_CACHE` or `~/.cache/aliquot`."""
    minimum: float | None = Field(default=None, ge=0, le=1)
    """Refuse molecules below it; None: score only."""

    @field_validator("files")
    @classmethod
    def _fetched(cls, files: Path, info: ValidationInfo) -> Path:
        model = info.data.get("model")
        if model and files.is_absolute() and not (path := fetch_bioactivity.path_of(model, files)).is_file():
            raise ValueError(f"there is no {path}; fetch the models once with `{fetch_bioactivity.COMMAND}`")
        return files


class Bioactivity(PointwiseVerifier):
    """Probability of being active, no unit, 0 to 1."""

    name, version = "bioactivity", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=2)
    bounds = (0.0, 1.0)
    Config = BioactivityConfig
    example = {"model": "drd2"}
    fixtures = (
        Fixture.full("molecule", HALOPERIDOL, at_least=0.9),
        Fixture.zero("molecule", INACTIVE, at_most=0.01),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", OSIMERTINIB),
    )

    def __init__(self, config: BioactivityConfig):
        super().__init__(config)
        from rdkit.Chem import rdFingerprintGenerator as generators

        path = fetch_bioactivity.path_of(config.model, config.files)
        kind = fetch_bioactivity.KINDS[config.model]
        self._model = load(kind, path, fetch_bioactivity.source_of(config.model))
        if config.model == "drd2":
            features = generators.GetMorganFeatureAtomInvGen()
            generator = generators.GetMorganGenerator(radius=3, fpSize=BITS, atomInvariantsGenerator=features)
            self._fingerprint = generator.GetCountFingerprintAsNumPy
        else:
            self._fingerprint = generators.GetMorganGenerator(radius=2, fpSize=BITS).GetFingerprintAsNumPy

    @classmethod
    def controls_for(cls, config: Any) -> Sequence[Control]:
        active = HALOPERIDOL if config.model == "drd2" else STAUROSPORINE
        return Control.of("molecule", active, at_least=0.7), Control.of("molecule", INACTIVE, at_most=0.05)

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        minimum = self.config.minimum
        for design in designs:
            value = self._model.probability(self._fingerprint(parse(design)))
            accepted = minimum is None or value >= minimum
            reason = "" if accepted else f"predicted activity {value:.3f} is below {minimum:g}"
            yield Score(value, accepted, reason)
