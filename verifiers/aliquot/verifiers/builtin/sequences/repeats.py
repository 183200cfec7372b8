"""What makes a sequence hard to synthesise or to keep: runs of one symbol, tandem repeats, and long stretches twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from aliquot.domain import Design
from aliquot.verifiers.builtin.sequences.reading import symbols
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig


class RepeatsConfig(VerifierConfig):
    run: int | None = Field(default=None, ge=1)
    """Longest run of one symbol that is accepted; None: not looked at."""
    unit: int = Field(default=6, ge=2, le=50)
    """Longest unit of a tandem repeat that is looked for, symbols."""
    copies: int | None = Field(default=None, ge=2)
    """Most copies of a unit in a row that are accepted; None: not looked at."""
    twice: int | None = Field(default=None, ge=2)
    """Longest stretch that may occur a second time anywhere, overlaps included; None: not looked at."""


class Repeats(PointwiseVerifier):
    """Length of the longest run of one symbol, 1 upwards. `values` has the longest of each kind of repeat."""

    name, version = "repeats", "1"
    kinds = ("sequence",)
    unit = "symbols"
    bounds = (1.0, None)
    needs = Needs(seconds=10)
    Config = RepeatsConfig
    example = {"run": 4, "copies": 3, "twice": 8}
    fixtures = (
        Fixture.full("sequence", "ACGTAGCTTG", 1.0, at_most=2.0, accepted=True),
        Fixture.zero("sequence", "ACGGGGGGGT", 7.0, at_least=7.0, accepted=False),
        Fixture.malformed("sequence", ""),
        Fixture.seeded("sequence", "ACACACACAC", at_most=1.0, accepted=False),
    )

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        config = self.config
        for design in designs:
            sequence = symbols(design)
            run, at = longest_run(sequence)
            unit, copies = longest_tandem(sequence, config.unit)
            stretch = longest_twice(sequence)
            reasons = []
            if config.run is not None and run > config.run:
                reasons.append(f"{sequence[at]} {run} times in a row at position {at + 1}, more than {config.run}")
            if config.copies is not None and copies > config.copies:
                reasons.append(f"{unit} {copies} times in a row, more than {config.copies}")
            if config.twice is not None and len(stretch) > config.twice:
                reasons.append(f"{_short(stretch)} ({len(stretch)} symbols) occurs twice, longer than {config.twice}")
            values = {"tandem_unit": unit, "tandem_copies": copies, "twice": len(stretch)}
            yield Score(float(run), not reasons, "; ".join(reasons), values)


def longest_run(sequence: str) -> tuple[int, int]:
    """Length and start of the first longest run of one symbol."""
    best, start, at = 0, 0, 0
    for i in range(1, len(sequence) + 1):
        if i == len(sequence) or sequence[i] != sequence[start]:
            if i - start > best:
                best, at = i - start, start
            start = i
    return best, at


def longest_tandem(sequence: str, largest: int) -> tuple[str, int]:
    """The unit of 2 to `largest` symbols with most whole copies in a row, and how many; ("", 0) when none has two.

    A unit that is itself a repetition (AA, ACAC) is not counted.
    """
    best = ("", 0)
    for size in range(2, min(largest, len(sequence) // 2) + 1):
        same = 0  # symbols so far that equal the one a unit before
        for i in range(size, len(sequence)):
            same = same + 1 if sequence[i] == sequence[i - size] else 0
            copies = same // size + 1
            unit = sequence[i - size + 1 : i + 1]
            if copies > max(best[1], 1) and unit not in (unit + unit)[1:-1]:
                best = (sequence[i - same - size + 1 : i - same + 1], copies)
    return best


def longest_twice(sequence: str) -> str:
    """The longest stretch that occurs at two places; they may overlap."""
    low, high, found = 0, len(sequence) - 1, ""
    while low < high:  # a stretch that occurs twice contains shorter ones that do
        middle = (low + high + 1) // 2
        if stretch := _any_twice(sequence, middle):
            low, found = middle, stretch
        else:
            high = middle - 1
    return found


def _any_twice(sequence: str, size: int) -> str:
    seen: set[str] = set()
    for i in range(len(sequence) - size + 1):
        if (stretch := sequence[i : i + size]) in seen:
            return stretch
        seen.add(stretch)
    return ""


def _short(stretch: str) -> str:
    return stretch if len(stretch) <= 24 else f"{stretch[:20]}…"
