"""A verifier that answers later. The jobs are imagined; what matters is that a ticket says all that is needed.

A worker may be replaced at any moment and its files are gone with it, so jobs live elsewhere (a queue, a cluster), and
a ticket names one there. This one holds the peptide and the second at which the answer is due.
"""

import json
import time

from aliquot.verifiers.sdk import Fixture, Score, SlowVerifier, VerifierConfig


class FoldingQueue(SlowVerifier):
    """Share of residues that like to be in a helix (A, E, L, M, K), no unit, 0 to 1; some time after it was asked."""

    name, version = "folding_queue", "1"
    kinds = ("sequence",)
    bounds = (0.0, 1.0)
    example = {"takes": 0.3}

    class Config(VerifierConfig):
        takes: float = 60.0
        """Seconds that a job takes."""

    fixtures = (
        Fixture.full("sequence", "AELMKA", at_least=1.0, accepted=True),
        Fixture.zero("sequence", "GPGPGP", at_most=0.0),
        Fixture.malformed("sequence", ""),
        Fixture.seeded("sequence", "RGDWAKLM"),
    )

    def submit(self, designs):
        due = time.time() + self.config.takes
        return [json.dumps([design.value, due]) for design in designs]

    def poll(self, tickets):
        ready = {}
        for ticket in tickets:
            peptide, due = json.loads(ticket)
            if time.time() >= due:
                share = sum(residue in "AELMK" for residue in peptide) / max(1, len(peptide))
                ready[ticket] = Score(share, accepted=bool(peptide), reason="" if peptide else "it is empty")
        return ready
