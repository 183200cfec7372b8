"""A verifier with a memory: refuses a peptide whose first three residues were seen too often."""

from collections import Counter

from aliquot.domain import Design
from aliquot.verifiers.sdk import Fixture, Score, SetVerifier, VerifierConfig

SEEN = Design(kind="sequence", value="RGDA")


class FirstOfItsKind(SetVerifier):
    """Share of the places for this beginning that were free, no unit: 1 (none like it) to 0 (full)."""

    name, version = "first_of_its_kind", "1"
    kinds = ("sequence",)
    bounds = (0.0, 1.0)
    example = {"places": 1}

    class Config(VerifierConfig):
        places: int = 5
        """Peptides that may begin alike."""

    fixtures = (
        Fixture.full("sequence", "RGDW", at_least=1.0, accepted=True),
        Fixture.zero("sequence", "RGDW", at_most=0.0, accepted=False, after=(SEEN,)),
        Fixture.malformed("sequence", ""),
        Fixture.seeded("sequence", "RGDW"),
    )

    def __init__(self, config):
        super().__init__(config)
        self.seen = Counter()

    def verify(self, designs):
        for design in designs:
            beginning = design.value[:3]
            free = max(0, self.config.places - self.seen[beginning])
            accepted = bool(beginning) and free > 0
            self.seen[beginning] += accepted
            yield Score(free / self.config.places, accepted, "" if accepted else f"enough begin with {beginning!r}")

    def state(self):
        return dict(self.seen)

    def restore(self, state):
        self.seen = Counter(state)
