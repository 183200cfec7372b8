"""Designs that Hypothesis makes: what no one thought of writing into the corpus, shrunk to the smallest that fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aliquot.domain import Design
from aliquot.verifiers.kit.judging import Settings, lost, shown, skipped, told, words
from aliquot.verifiers.kit.report import Finding
from aliquot.verifiers.kit.subject import Subject, Trial

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

SMILES_PARTS = (
    *"C N O S P F I B c n o s ( ) = # - : . / \\ 1 2 3 9 %10 %99 [ ] @ + *".split(),
    "Cl", "Br", "[nH]", "[N+]", "[O-]", "[C@@H]", "[13C]", "[Fe+2]", "[H]", "c1ccccc1", "C(=O)O", "S(=O)(=O)N",
)  # fmt: skip
"""Tokens of SMILES, as they come: most of what they make is none."""


def adversarial_generated(subject: Subject, settings: Settings) -> Finding:
    """No made-up design ends the worker, scores beyond the bounds, or scores otherwise when asked again."""
    check = "adversarial_generated"
    try:
        import hypothesis  # noqa: F401
    except ModuleNotFoundError:
        return skipped(check, "Hypothesis is not installed: pip install 'aliquot[kit]'")
    if subject.said.style == "slow":
        return skipped(check, "a slow verifier is tried on the corpus only")
    wrong = []
    with subject.trial() as trial:
        for kind in subject.said.kinds:
            wrong += _searched(subject, trial, kind, settings)
    count = settings.examples * len(subject.said.kinds)
    return told(check, wrong, f"{count} designs made up: none ended the worker or left the bounds")


def designs_of(kind: str, known: Sequence[Design] = ()) -> SearchStrategy[Design]:
    """A strategy for designs of a kind. Those of conditions have the parameters of a known one."""
    from hypothesis import strategies as st

    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    if kind == "molecule":
        value: SearchStrategy[Any] = st.lists(st.sampled_from(SMILES_PARTS), max_size=24).map("".join) | text
    elif kind == "sequence":
        value = st.text("ACDEFGHIKLMNPQRSTVWY", max_size=200) | st.text("ACGT", max_size=200) | text
    else:
        number = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
        plain = number | text | st.booleans() | st.none()
        names = sorted({name for design in known if isinstance(design.value, dict) for name in design.value})
        keys = st.sampled_from(names) | text if names else text
        shaped = st.fixed_dictionaries({name: plain for name in names}) if names else st.just({})
        value = shaped | st.dictionaries(keys, plain, max_size=6)
    return value.map(lambda v: Design(kind=kind, value=v))


def _searched(subject: Subject, trial: Trial, kind: str, settings: Settings) -> list[str]:
    """The smallest design of this kind on which it fails, in words; or nothing."""
    from hypothesis import HealthCheck, Phase, given, seed
    from hypothesis import settings as how
    from hypothesis.errors import Flaky

    low, high = subject.said.bounds
    found: list[str] = []

    @seed(settings.seed)
    @how(
        max_examples=settings.examples,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        print_blob=False,
    )
    @given(designs_of(kind, subject.known))
    def search(design: Design) -> None:
        (verdict,) = trial.judge([design], keep=False)
        wrong = ""
        if lost(verdict):
            wrong = f"ended the worker: {words(verdict)}"
        elif verdict.score is not None:
            if low is not None and verdict.score < low:
                wrong = f"scored {verdict.score!r}, below the floor {low:g}"
            elif high is not None and verdict.score > high:
                wrong = f"scored {verdict.score!r}, above the ceiling {high:g}"
            elif subject.said.style == "pointwise" and subject.said.deterministic:
                (again,) = trial.judge([design])
                wrong = "" if again.score == verdict.score else f"scored {verdict.score!r}, then {again.score!r}"
        if wrong:
            found[:] = [f"{shown(design)} {wrong}"]
            raise AssertionError(wrong)

    try:
        search()
    except (AssertionError, Flaky):
        return found
    return []
