"""Keeps a campaign from exhausting one chemotype: each Murcko scaffold is a bucket that holds so many designs.

A full bucket refuses every further design, those it holds included; a repeated design takes no second place.
Molecules without a ring share one bucket. Source: the scaffold memory of Blaschke, Engkvist, Bajorath & Chen, Journal
of Cheminformatics 12, 68 (2020), on the frameworks of Bemis & Murcko, J. Med. Chem. 39, 2887 (1996).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field

from aliquot.domain import Design
from aliquot.verifiers.builtin.molecules.parsing import parse
from aliquot.verifiers.sdk import Fixture, Needs, Score, SetVerifier, VerifierConfig


class DiversityConfig(VerifierConfig):
    bucket_size: int = Field(default=25, ge=1)
    """Designs that may share one scaffold."""


class Diversity(SetVerifier):
    """Free part of the design's bucket before it came, no unit: 1 (a new scaffold) to 0 (full, refused)."""

    name, version = "diversity", "1"
    kinds = ("molecule",)
    needs = Needs(seconds=2)
    bounds = (0.0, 1.0)
    Config = DiversityConfig
    fixtures = (
        Fixture.full("molecule", "Cc1ccncc1", at_least=1, accepted=True),
        Fixture.zero(
            "molecule",
            "Oc1ccccc1",
            at_most=0,
            accepted=False,
            config={"bucket_size": 1},
            after=(Design(kind="molecule", value="Cc1ccccc1"),),
        ),
        Fixture.malformed("molecule", "c1cccc1"),
        Fixture.seeded("molecule", "Cc1ccccc1"),
    )

    def __init__(self, config: DiversityConfig):
        super().__init__(config)
        from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

        self._scaffold = MurckoScaffoldSmiles
        self._buckets: dict[str, list[str]] = {}

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        size = self.config.bucket_size
        for design in designs:
            scaffold = self._scaffold(mol=parse(design))
            bucket = self._buckets.setdefault(scaffold, [])
            free = max(size - len(bucket), 0) / size
            accepted = free > 0
            if accepted and design.key not in bucket:
                bucket.append(design.key)
            reason = "" if accepted else f"{size} designs have the scaffold {scaffold or '(no ring)'} already"
            yield Score(free, accepted, reason, {"scaffold": scaffold})

    def state(self) -> Any:
        return self._buckets

    def restore(self, state: Any) -> None:
        self._buckets = {scaffold: list(keys) for scaffold, keys in state.items()}
