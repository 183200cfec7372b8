"""The conformance checks, each a function of the plugin under test that gives one named finding.

The catalogue follows what the field has learned to ask: cases for full, zero, malformed and seeded reward; determinism,
floor and ceiling, leakage, containment, adversarial floor. What each kind of verifier owes beyond that stands in
`contracts`. A check that does not apply says so; none passes without having looked.
"""

from __future__ import annotations

import base64
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from aliquot.domain import Design, Verdict
from aliquot.verifiers.kit import corpus
from aliquot.verifiers.kit.contracts import determinism, memory_replays, one_by_one, slow_contract
from aliquot.verifiers.kit.generated import adversarial_generated
from aliquot.verifiers.kit.judging import (
    Settings,
    difference,
    failed,
    lost,
    nothing_judged,
    passed,
    same,
    shown,
    skipped,
    told,
    words,
)
from aliquot.verifiers.kit.report import Finding
from aliquot.verifiers.kit.subject import Subject, Trial
from aliquot.verifiers.sdk import Fixture

CASES = {
    "full": "Fixture.full(kind, value, at_least=…)",
    "zero": "Fixture.zero(kind, value, at_most=…)",
    "malformed": "Fixture.malformed(kind, value)",
    "seeded": "Fixture.seeded(kind, value)",
}
GROWTH_MB = 24.0
"""Memory that a worker may gain over the measured rounds, MiB."""
Judged = list[tuple[Fixture, Verdict]]


def declarations(subject: Subject, settings: Settings) -> Finding:
    """What a campaign's author must be told stands in the class."""
    said = subject.said
    wrong = []
    if not said.documentation:
        wrong.append("the class has no docstring: say what the score is, its unit, and where the method comes from")
    fields = said.schema_.get("properties", {})
    assert isinstance(fields, dict)
    bare = [name for name, field in fields.items() if isinstance(field, dict) and not field.get("description")]
    if bare:
        wrong.append(f"{', '.join(bare)} in its config {'has' if len(bare) == 1 else 'have'} no text below the field")
    needs = said.needs
    reach = f"network: {', '.join(needs.network)}" if needs.network else "no network"
    return told(
        "declarations",
        wrong,
        f"{said.name} {said.version}, {said.style}, of {' and '.join(said.kinds)}; "
        f"{'' if said.deterministic else 'not '}deterministic; {needs.seconds:g} s, {needs.memory_mb} MiB, {reach}",
    )


def fixtures(subject: Subject, settings: Settings) -> Finding:
    """There is one of each case."""
    missing = [f"no {case} case; add {how}" for case, how in CASES.items() if not subject.fixtures(case)]
    return told("fixtures", missing, ", ".join(f"{len(subject.fixtures(case))} {case}" for case in CASES))


def full_cases(subject: Subject, settings: Settings) -> Finding:
    """The best designs get their score."""
    return _cases(subject, "full")


def zero_cases(subject: Subject, settings: Settings) -> Finding:
    """The worst designs get theirs, and it is another."""
    return _cases(subject, "zero")


def malformed_cases(subject: Subject, settings: Settings) -> Finding:
    """What is no design is refused, or is an error of its item alone."""
    found = subject.fixtures("malformed")
    if not found:
        return skipped("malformed_cases", "no such fixture is declared")
    wrong = []
    for fixture, verdict in _judged(subject, found):
        if lost(verdict):
            wrong.append(f"{shown(fixture.design)} ended the worker: {words(verdict)}")
        elif verdict.accepted:
            wrong.append(f"{shown(fixture.design)} was accepted with {verdict.score:g}; refuse it, or raise ValueError")
    return told("malformed_cases", wrong, f"{len(found)} refused or told as errors")


def seeded_cases(subject: Subject, settings: Settings) -> Finding:
    """Under a configuration that fixes everything, two workers started apart say the same, to the last bit."""
    found = subject.fixtures("seeded")
    if not found:
        return skipped("seeded_cases", "no such fixture is declared")
    wrong = []
    twice = zip(_judged(subject, found), _judged(subject, found, fresh=True), strict=True)
    for (fixture, one), (_, other) in twice:
        if one.error is not None:
            wrong.append(f"{shown(fixture.design)}: {words(one)}")
        elif not same(one, other):
            wrong.append(difference(fixture.design, one, other, "the first worker said", "the second"))
        elif one.score is not None and one.accepted is not None and (breach := fixture.breach(one.score, one.accepted)):
            wrong.append(f"{shown(fixture.design)} {breach}")
    return told("seeded_cases", wrong, f"{len(found)} gave the same in two workers")


def floor_and_ceiling(subject: Subject, settings: Settings) -> Finding:
    """No score lies beyond the declared bounds, and the best and the worst are told apart."""
    low, high = subject.said.bounds
    with subject.trial() as trial:
        verdicts = _each(trial, subject.ordinary[: settings.ordinary])
    scores = [(design, v.score) for design, v in verdicts if v.score is not None]
    judged = _judged(subject, [f for f in subject.said.fixtures if f.case in ("full", "zero")])
    scores += [(f.design, v.score) for f, v in judged if v.score is not None]
    if not scores:
        return failed("floor_and_ceiling", nothing_judged(verdicts))
    wrong = [f"{shown(d)} scored {s!r}, below the floor {low:g}" for d, s in scores if low is not None and s < low]
    wrong += [
        f"{shown(d)} scored {s!r}, above the ceiling {high:g}" for d, s in scores if high is not None and s > high
    ]
    best, worst = ({v.score for f, v in judged if f.case == case and v.score is not None} for case in ("full", "zero"))
    if best & worst:
        wrong.append(f"a full case and a zero case both scored {(best & worst).pop()!r}: it cannot tell them apart")
    spread = f"{min(s for _, s in scores):g} to {max(s for _, s in scores):g} {subject.said.unit}".strip()
    within = f"within {_bound(low)} to {_bound(high)}" if (low, high) != (None, None) else "no bounds are declared"
    return told("floor_and_ceiling", wrong, f"{len(scores)} designs scored {spread}; {within}")


def no_leakage(subject: Subject, settings: Settings) -> Finding:
    """Neither reason nor values tell the hidden answer, plain or in a common disguise."""
    found = [fixture for fixture in subject.said.fixtures if fixture.answer]
    if not found:
        return skipped("no_leakage", "no fixture has an `answer`: it judges against nothing hidden")
    wrong = []
    for fixture, verdict in _judged(subject, found):
        said = verdict.reason + json.dumps(verdict.values) + (verdict.error.message if verdict.error else "")
        plain = "".join(said.lower().split())
        for disguise, text in _disguises(fixture.answer).items():
            if text in said or (disguise == "plain" and "".join(fixture.answer.lower().split()) in plain):
                if fixture.answer in fixture.design.text and disguise == "plain":
                    continue  # the proposal itself, which may be repeated
                wrong.append(f"for {shown(fixture.design)} it gave away the answer ({disguise})")
    return told("no_leakage", wrong, f"{len(found)} answers stay hidden")


def containment(subject: Subject, settings: Settings) -> Finding:
    """The worker that ran it was held by what a campaign would hold it by."""
    with subject.trial() as trial:
        trial.usage()
        controls = trial.service.controls
    if not subject.contained:
        why = "the project's own code" if subject.reference.origin == "builtin" else "trusted by whoever started this"
        limits = {"rlimit_as", "rlimit_cpu", "env_scrubbed", "process"}
        missing = sorted(limits - {*controls})
        wrong = [f"{name} was not proven of its worker" for name in missing]
        return told("containment", wrong, f"NOT in the sandbox ({why}); a process with {', '.join(controls)}")
    walls = [control for control in controls if not control.startswith("rlimit_")]
    if len(walls) < 3:
        return failed("containment", f"the worker proved only {', '.join(controls) or 'nothing'}: see aliquot doctor")
    return passed("containment", f"{len(controls)} controls proven", controls=list(controls))


def time_per_call(subject: Subject, settings: Settings) -> Finding:
    """No ordinary design takes longer than is declared."""
    allowed = subject.said.needs.seconds
    designs = subject.ordinary[: settings.ordinary]
    begun = time.perf_counter()
    with subject.trial(fresh=True) as trial:
        trial.usage()
        cold = time.perf_counter() - begun
        taken = []
        wrong = []
        for design in designs:
            begun = time.perf_counter()
            (verdict,) = trial.judge([design])
            taken.append(time.perf_counter() - begun)
            if lost(verdict):
                wrong.append(f"{shown(design)}: {words(verdict)}")
    middle = sorted(taken)[len(taken) // 2]
    if subject.said.style != "slow" and max(taken) > 0.5 * allowed:
        wrong.append(
            f"{shown(designs[taken.index(max(taken))])} took {max(taken):.3g} s of the {allowed:g} s it declares; "
            "on a busy machine that is a timeout: declare twice what it takes"
        )
    right = (
        f"median {1000 * middle:.3g} ms, longest {1000 * max(taken):.3g} ms, of {allowed:g} s; cold start {cold:.2g} s"
    )
    return told("time_per_call", wrong, right, median_seconds=middle, longest_seconds=max(taken), cold_seconds=cold)


def memory_per_call(subject: Subject, settings: Settings) -> Finding:
    """Judging the same designs over and over takes no more memory than judging them twice."""
    designs = subject.ordinary[: settings.ordinary]
    with subject.trial() as trial:
        trial.judge(designs)
        before = trial.service.starts
        trial.judge(designs)
        used = [trial.usage().get("resident_mb", 0.0)]
        for _ in range(settings.rounds):
            trial.judge(designs)
            used.append(trial.usage().get("resident_mb", 0.0))
        peak = trial.usage().get("peak_mb", 0.0)
        starts = trial.service.starts - before
    growth, allowed = used[-1] - used[0], subject.said.needs.memory_mb
    wrong = []
    if starts:
        wrong.append(f"its worker was replaced {starts} times in {settings.rounds + 1} batches of ordinary designs")
    if growth > GROWTH_MB and used[-1] - used[len(used) // 2] > GROWTH_MB / 4:
        calls = settings.rounds * len(designs)
        wrong.append(
            f"{growth:.0f} MiB gained over {calls} calls on the same {len(designs)} designs, "
            f"{1024 * growth / calls:.0f} KiB a call: something is kept that is never asked for again"
        )
    if peak > 0.8 * allowed:
        wrong.append(f"it reached {peak:.0f} MiB of the {allowed} MiB it declares; declare more, or load less")
    right = f"{peak:.0f} MiB at most of {allowed} MiB; {growth:+.1f} MiB over {settings.rounds} rounds"
    return told("memory_per_call", wrong, right, peak_mb=peak, growth_mb=growth)


def adversarial_corpus(subject: Subject, settings: Settings) -> Finding:
    """Hard designs are judged, refused or raised for; none ends the worker, and none that is malformed is accepted."""
    said = subject.said
    wrong, seen = [], 0
    known = subject.known or subject.ordinary
    with subject.trial() as trial:
        for kind in said.kinds:
            hard = corpus.adversarial(kind, known)
            if said.style == "slow":
                hard = hard[::3]
            verdicts = trial.judge([case.design for case in hard], keep=False)
            for case, verdict in zip(hard, verdicts, strict=True):
                seen += 1
                if lost(verdict):
                    wrong.append(f"{case.name} {shown(case.design)} ended the worker: {words(verdict)}")
                elif case.malformed and verdict.accepted:
                    wrong.append(
                        f"{case.name} {shown(case.design)} is no {kind}, and was accepted with {verdict.score:g}"
                    )
                elif verdict.score is not None and (beyond := _beyond(subject, verdict.score)):
                    wrong.append(f"{case.name} {shown(case.design)} scored {verdict.score!r}, {beyond}")
    return told("adversarial_corpus", wrong, f"{seen} hard designs: judged, refused or raised for, each by itself")


def _cases(subject: Subject, case: str) -> Finding:
    check, found = f"{case}_cases", subject.fixtures(case)
    if not found:
        return skipped(check, "no such fixture is declared")
    wrong = []
    for fixture, verdict in _judged(subject, found):
        if verdict.score is None or verdict.accepted is None:
            wrong.append(f"{shown(fixture.design)}: {words(verdict)}")
        elif breach := fixture.breach(verdict.score, verdict.accepted):
            wrong.append(f"{shown(fixture.design)} {breach}")
    return told(check, wrong, f"{len(found)} as declared")


def _judged(subject: Subject, found: Sequence[Fixture], fresh: bool = False) -> Judged:
    """Verdicts of fixtures, each group under its own configuration, a set verifier from an empty memory each time."""
    groups: dict[str, list[Fixture]] = defaultdict(list)
    for fixture in found:
        groups[json.dumps(fixture.config, sort_keys=True)].append(fixture)
    judged: Judged = []
    for group in groups.values():
        with subject.trial(group[0].config, fresh) as trial:
            if subject.said.style != "set":
                judged += zip(group, trial.judge([fixture.design for fixture in group]), strict=True)
                continue
            for i, fixture in enumerate(group):
                if i:
                    trial.forget()
                judged.append((fixture, trial.judge([*fixture.after, fixture.design])[-1]))
    order = {id(fixture): i for i, fixture in enumerate(found)}
    return sorted(judged, key=lambda pair: order[id(pair[0])])


def _each(trial: Trial, designs: Sequence[Design]) -> list[tuple[Design, Verdict]]:
    return list(zip(designs, trial.judge(designs), strict=True))


def _beyond(subject: Subject, score: float) -> str:
    low, high = subject.said.bounds
    if low is not None and score < low:
        return f"below the floor {low:g}"
    return f"above the ceiling {high:g}" if high is not None and score > high else ""


def _bound(bound: float | None) -> str:
    return "no bound" if bound is None else f"{bound:g}"


def _disguises(answer: str) -> dict[str, str]:
    raw = answer.encode()
    return {
        "plain": answer,
        "reversed": answer[::-1],
        "in base64": base64.b64encode(raw).decode().rstrip("="),
        "in hexadecimal": raw.hex(),
    }


def table() -> Iterator[tuple[str, Callable[[Subject, Settings], Finding]]]:
    """Every check by its name, in the order in which they are run."""
    for check in (
        declarations, fixtures, full_cases, zero_cases, malformed_cases, seeded_cases, floor_and_ceiling, determinism,
        one_by_one, memory_replays, slow_contract, no_leakage, containment, time_per_call, memory_per_call,
        adversarial_corpus, adversarial_generated,
    ):  # fmt: skip
        yield check.__name__, check
