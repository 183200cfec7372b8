"""A verifier in one file: refuses peptides that would not dissolve."""

from aliquot.verifiers.sdk import PointwiseVerifier, Score, VerifierConfig


class Hydrophobicity(PointwiseVerifier):
    """The share of hydrophobic residues, from 0 to 1."""

    name, version = "hydrophobicity", "1"
    kinds = ("sequence",)

    class Config(VerifierConfig):
        maximum: float = 0.5
        """Largest share that is accepted."""

    def verify(self, designs):
        for design in designs:
            share = sum(residue in "AILMFVWY" for residue in design.value) / len(design.value)
            accepted = share <= self.config.maximum
            yield Score(share, accepted, "" if accepted else f"{share:.0%} of it is hydrophobic")
