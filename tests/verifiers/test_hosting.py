"""What is read off a plugin's class, and what is made of its answers, before a worker is involved."""

from __future__ import annotations

import numpy as np
import pytest

from aliquot.verifiers.hosting import describe, report
from aliquot.verifiers.sdk import Score

PLUGIN = """
from aliquot.verifiers.sdk import PointwiseVerifier, VerifierConfig

class Config(VerifierConfig):
    penalty: float = 0.0

class Mine(PointwiseVerifier):
    name, version = "mine", "1"
    Config = Config

    def verify(self, designs):
        return []
"""


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("class Mine: pass", "no verifier"),
        ("class Mine(PointwiseVerifier):\n    def verify(self, designs): return []", "declares no name and no version"),
        ("class Mine(PointwiseVerifier):\n    name, version = 'a', '1'", "lacks verify"),
        ("class Mien: pass", "did you mean 'Mien'"),
    ],
)
def test_a_class_that_is_no_verifier_says_what_it_lacks(tmp_path, body, says):
    path = tmp_path / "odd.py"
    path.write_text(f"from aliquot.verifiers.sdk import PointwiseVerifier\n{body}\n")
    with pytest.raises((TypeError, ImportError), match=says):
        describe(f"{path}:Mine", {})


def test_numbers_of_numpy_are_numbers():
    said = report(Score(np.float32(0.5), accepted=np.bool_(True), values={"n": 3}))
    assert said == {"score": 0.5, "accepted": True, "reason": "", "values": {"n": 3}}


@pytest.mark.parametrize("values", [{"x": float("inf")}, {"x": {1, 2}}, {"x": b"raw"}])
def test_values_that_are_not_json_are_an_error_of_their_item(values):
    assert "not JSON" in report(Score(1.0, values=values))["error"]
