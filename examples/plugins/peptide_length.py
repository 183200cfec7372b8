"""A verifier that is one function: the number of residues."""

from aliquot.verifiers.sdk import Fixture, Score, VerifierConfig, verifier


class LengthConfig(VerifierConfig):
    longest: int = 30
    """Longest peptide that can be synthesised."""


@verifier(
    name="peptide_length",
    version="1",
    kinds=("sequence",),
    unit="residues",
    bounds=(0, None),
    fixtures=(
        Fixture.full("sequence", "GG", at_least=2, at_most=2, accepted=True),
        Fixture.zero("sequence", "G" * 31, at_most=31, accepted=False),
        Fixture.malformed("sequence", ""),
        Fixture.seeded("sequence", "RGDWAKLM"),
    ),
)
def peptide_length(design, config: LengthConfig):
    """Number of residues."""
    size = len(design.value)
    return Score(size, accepted=0 < size <= config.longest, reason="" if size else "it is empty")
