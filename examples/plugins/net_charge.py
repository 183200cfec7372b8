"""The charge that a peptide carries at pH 7, counted by residues: K and R are +1, D and E are −1.

Counting is the simplest model there is; termini and histidine are left out. Unit: elementary charges.
"""

from aliquot.verifiers.sdk import Control, Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

RESIDUES = frozenset("ACDEFGHIKLMNPQRSTVWY")


class NetCharge(PointwiseVerifier):
    """Charge at pH 7 by counting, in elementary charges."""

    name, version = "net_charge_by_count", "1"
    kinds = ("sequence",)
    unit = "e"
    needs = Needs(seconds=1, memory_mb=512)

    class Config(VerifierConfig):
        lowest: float = -2.0
        """Least charge that is accepted, e."""
        highest: float = 2.0
        """Largest charge that is accepted, e."""

    fixtures = (
        Fixture.full("sequence", "KDKDGG", at_least=0.0, at_most=0.0, accepted=True),
        Fixture.zero("sequence", "KKKKKK", at_least=6.0, at_most=6.0, accepted=False),
        Fixture.malformed("sequence", ""),
        Fixture.malformed("sequence", "not a peptide"),
        Fixture.seeded("sequence", "RGDWAKLM"),
    )
    controls = (
        Control.of("sequence", "KKKK", at_least=4.0),
        Control.of("sequence", "EEEE", at_most=-4.0),
    )

    def verify(self, designs):
        for design in designs:
            residues = design.value
            if not residues or not RESIDUES.issuperset(residues):
                yield Score(0.0, accepted=False, reason=f"{residues!r} is no peptide", of=design)
                continue
            charge = float(sum((r in "KR") - (r in "DE") for r in residues))
            accepted = self.config.lowest <= charge <= self.config.highest
            yield Score(charge, accepted, "" if accepted else f"its charge is {charge:+g}", of=design)
