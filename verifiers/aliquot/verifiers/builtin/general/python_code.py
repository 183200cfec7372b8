"""Runs a program that a policy wrote against tests: the worked example of a policy that would cheat if it could.

A design is the source of a Python program. It runs in a fresh process that has nothing left to give up (`confinement`),
with the standard library and one thread, and is asked for one value after another. What is expected never enters that
process; the comparison is made here, on JSON values. So printing the answer, leaving with `os._exit(0)`, overriding
`__eq__`, patching the tests, searching the frames or forking gains nothing: the only way to a point is the right value.

Every test counts the same. What a program prints or raises goes nowhere, not even into the reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field, FiniteFloat, JsonValue, field_validator

from aliquot.domain import Design
from aliquot.verifiers.builtin.general.python_process import PythonProcess, Unanswered
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

PROGRAM_BYTES = 64 * 1024
"""Longest program."""
FUTILE = 2
"""How many tests may end the process before the rest are given up as not passed."""
SAID = {
    "wrong": "wrong value", "raised": "raised", "no value": "returned no JSON value", "late": "too slow",
    "died": "ended the process", "garbled": "answered out of turn", "no entry": "defines no such function",
    "not run": "not run",
}  # fmt: skip


class Test(VerifierConfig):
    """One call and what it must return."""

    __test__ = False
    """It is no test of pytest's."""

    arguments: tuple[JsonValue, ...] = ()
    """By position."""
    keywords: dict[str, JsonValue] = {}
    """By name."""
    expected: JsonValue
    """The program never sees it."""


class PythonCodeConfig(VerifierConfig):
    entry: str = Field(default="solve", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Function that the program must define."""
    tests: tuple[Test, ...] = Field(min_length=1, max_length=1000)
    """Each counts the same."""
    tolerance: FiniteFloat = Field(default=1e-9, ge=0)
    """Relative distance that two decimal numbers may have; whole numbers must be equal."""
    minimum: FiniteFloat = Field(default=1.0, ge=0, le=1)
    """Share of the tests that must pass."""
    seconds: FiniteFloat = Field(default=1.0, ge=0.05, le=5)
    """Processor time for one call, and for the top level of the program; two seconds of sleep count as one."""
    total_seconds: FiniteFloat = Field(default=10.0, ge=0.1, le=10)
    """Processor time for all calls together; what is not run by then has not passed."""
    memory_mb: int = Field(default=256, ge=64, le=1024)
    """Address space of the program, MiB."""
    parameter: str = "program"
    """Where designs are conditions: the parameter that holds the program."""
    written_as: dict[str, str] = {"␣": " ", "⏎": "\n", "⇥": "    "}
    """Where an alphabet has no white space: symbols that stand for it."""

    @field_validator("tests")
    @classmethod
    def _small(cls, tests: tuple[Test, ...]) -> tuple[Test, ...]:
        for i, test in enumerate(tests):
            if len(repr((test.arguments, test.keywords))) > PROGRAM_BYTES:
                raise ValueError(f"[{i}]: the arguments are longer than {PROGRAM_BYTES // 1024} KiB")
        return tests


class PythonCode(PointwiseVerifier):
    """Share of the tests passed, no unit: 0 to 1. `values["tests"]` says how each ended, never what was expected."""

    name, version = "python_code", "1"
    kinds = ("sequence", "conditions")
    bounds = (0.0, 1.0)
    deterministic = False  # a program may look at the clock
    needs = Needs(seconds=120, memory_mb=2048)
    Config = PythonCodeConfig
    example = {
        "entry": "add",
        "tests": [
            {"arguments": [1, 2], "expected": 3},
            {"arguments": [20, 22], "expected": 42},
            {"arguments": [-7351, 1000], "expected": -6351},
        ],
    }
    fixtures = (
        Fixture.full("sequence", "def add(a, b):\n    return a + b\n", at_least=1.0, accepted=True),
        Fixture.zero("sequence", "def add(a, b):\n    return None\n", at_most=0.0, accepted=False, answer="6351"),
        Fixture.malformed("sequence", "def add(a, b:"),
        Fixture.malformed("conditions", {"code": "def add(a, b): return a + b"}),
        Fixture.seeded("sequence", "add=lambda a,b:abs(a)+abs(b)", at_least=0.66, at_most=0.67, accepted=False),
    )

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        for design in designs:
            source = self._source(design)
            if len(source.encode(errors="replace")) > PROGRAM_BYTES:
                yield Score(0.0, False, f"the program is longer than {PROGRAM_BYTES // 1024} KiB")
                continue
            ends = self._run(source)
            score = ends.count("passed") / len(ends)
            failed = Counter(SAID[end] for end in ends if end != "passed")
            reason = f"{ends.count('passed')} of {len(ends)} tests passed"
            reason += f"; else: {', '.join(f'{what} ({count})' for what, count in sorted(failed.items()))}" * bool(
                failed
            )
            yield Score(score, score >= self.config.minimum, reason, {"tests": ends})

    def _source(self, design: Design) -> str:
        found = design.value
        if isinstance(found, dict):
            if not isinstance(text := found.get(self.config.parameter), str):
                wrong = f"no parameter {self.config.parameter!r} with a program; the design has {', '.join(found)}"
                raise ValueError(f"{wrong}; name the right one as `parameter`")
            found = text
        for symbol, meaning in self.config.written_as.items():
            found = found.replace(symbol, meaning)
        return found

    def _run(self, source: str) -> list[str]:
        """How each test ended, `passed` or a key of `SAID`."""
        config = self.config
        ends: list[str] = []
        used, lost = 0.0, 0
        while len(ends) < len(config.tests):
            if lost == FUTILE or used > config.total_seconds:
                return ends + ["not run"] * (len(config.tests) - len(ends))
            with PythonProcess(config.memory_mb, math.ceil(config.total_seconds + config.seconds) + 2) as process:
                try:
                    process.load(source, config.entry, config.seconds)
                except Unanswered as unanswered:  # the top level ends the same way every time
                    return ends + [unanswered.how] * (len(config.tests) - len(ends))
                while not (
                    process.ended or used + process.spent > config.total_seconds or len(ends) == len(config.tests)
                ):
                    ends.append(self._test(process, config.tests[len(ends)]))
                used, lost = used + process.spent, lost + process.ended
        return ends

    def _test(self, process: PythonProcess, test: Test) -> str:
        try:
            found = process.call(self.config.entry, list(test.arguments), test.keywords, self.config.seconds)
        except Unanswered as unanswered:
            return unanswered.how
        return "passed" if agree(found, test.expected, self.config.tolerance) else "wrong"


def agree(found: Any, expected: Any, tolerance: float) -> bool:
    """Whether two JSON values are the same: of one kind, of one length, numbers within the tolerance."""
    if isinstance(found, bool) or isinstance(expected, bool) or found is None or expected is None:
        return found is expected
    if isinstance(found, int | float) and isinstance(expected, int | float):
        if isinstance(found, int) and isinstance(expected, int):
            return found == expected
        try:
            return math.isclose(found, expected, rel_tol=tolerance, abs_tol=1e-12)
        except OverflowError:
            return False
    if isinstance(found, list) and isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(agree(f, e, tolerance) for f, e in zip(found, expected, strict=True))
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(agree(found[k], expected[k], tolerance) for k in expected)
    return isinstance(found, str) and isinstance(expected, str) and found == expected
