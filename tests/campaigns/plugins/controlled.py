"""Verifiers that declare controls: one that holds to them, and an oracle that has lost its model."""

from aliquot.verifiers.sdk import Control, PointwiseVerifier, Score


class Purines(PointwiseVerifier):
    """Share of A and G."""

    name, version = "purines", "1"
    kinds = ("sequence",)
    controls = (Control.of("sequence", "GAGA", at_least=1.0), Control.of("sequence", "CTCT", at_most=0.0))

    def verify(self, designs):
        return [Score(sum(letter in "AG" for letter in str(d.value)) / len(str(d.value))) for d in designs]


class Silenced(Purines):
    """Answers 0.0, whatever it is asked."""

    name = "silenced"

    def verify(self, designs):
        return [Score(0.0) for _ in designs]
