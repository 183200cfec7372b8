"""A verifier and a lab that go wrong in the ways a campaign must survive."""

from pathlib import Path

from aliquot.lab_adapters.sdk import LabError, LabRefused
from aliquot.lab_adapters.simulated import SimulatedLab
from aliquot.verifiers.sdk import PointwiseVerifier, Score, VerifierConfig


class Moody(PointwiseVerifier):
    """Raises on every sequence that starts with A."""

    name, version = "moody", "1"

    def verify(self, designs):
        if any(design.value.startswith("A") for design in designs):
            raise RuntimeError("not this one")
        return [Score(1.0) for _ in designs]


class Broken(PointwiseVerifier):
    """Raises on everything until a file is there."""

    name, version = "broken", "1"

    class Config(VerifierConfig):
        mended: Path

    def verify(self, designs):
        if not self.config.mended.exists():
            raise RuntimeError("its model is not there")
        return [Score(1.0) for _ in designs]


class Unreachable(SimulatedLab):
    """Cannot be reached for every third submission, and refuses every fifth."""

    name = "unreachable"
    calls = 0

    def submit(self, submission):
        type(self).calls += 1
        if self.calls % 3 == 0:
            raise LabError("connection refused")
        if self.calls % 5 == 0:
            raise LabRefused("no such reagent")
        super().submit(submission)


class Dead(SimulatedLab):
    """Takes nothing, and never says why for good."""

    name = "dead"

    def submit(self, submission):
        raise LabError("no route to host")


class Forgetful(SimulatedLab):
    """Takes what it is sent, and every other time the line goes dead before it can say so."""

    name = "forgetful"
    calls = 0

    def submit(self, submission):
        super().submit(submission)
        type(self).calls += 1
        if self.calls % 2 == 0:
            raise ConnectionError("the line went dead")
