"""What each kind of verifier owes: to say the same again, to judge each by itself, to keep its memory, to answer.

Pointwise ones are batch = one by one, in any order; set ones go on from a saved memory as if nothing had happened; slow
ones know their tickets, or refuse them, whichever process asks.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence

from aliquot.domain import Design, Verdict
from aliquot.verifiers.kit.judging import (
    Settings,
    difference,
    failed,
    nothing_judged,
    same,
    shown,
    skipped,
    told,
    words,
)
from aliquot.verifiers.kit.report import Finding
from aliquot.verifiers.kit.subject import Subject, Trial


def determinism(subject: Subject, settings: Settings) -> Finding:
    """The same designs get the same verdicts, again in the same worker and in another one."""
    if not subject.said.deterministic:
        return skipped("determinism", "it declares itself not deterministic; its verdicts are never cached")
    designs = subject.ordinary[: settings.ordinary]
    with subject.trial() as trial:
        first = trial.judge(designs)
        if subject.said.style == "set":
            trial.forget()
        again = trial.judge(designs)
    with subject.trial(fresh=True) as trial:
        elsewhere = trial.judge(designs)
    wrong = [
        difference(d, a, b, "first", "then") for d, a, b in zip(designs, first, again, strict=True) if not same(a, b)
    ]
    wrong += [
        difference(d, a, b, "in one worker", "in another")
        for d, a, b in zip(designs, first, elsewhere, strict=True)
        if not same(a, b)
    ]
    if all(verdict.error is not None for verdict in first):
        return failed("determinism", nothing_judged(zip(designs, first, strict=True)))
    return told("determinism", wrong, f"{len(designs)} designs, three times, in two workers")


def one_by_one(subject: Subject, settings: Settings) -> Finding:
    """A batch says what its members alone say, in any order, and repeated ones say it again."""
    if subject.said.style != "pointwise":
        return skipped("one_by_one", f"a {subject.said.style} verifier has its own contract")
    if not subject.said.deterministic:
        return skipped("one_by_one", "it declares itself not deterministic")
    designs = subject.ordinary[: settings.ordinary]
    mixed = [*designs, *designs[:3]]
    random.Random(settings.seed).shuffle(mixed)
    with subject.trial() as trial:
        together = trial.judge(designs)
        alone = [trial.judge([design])[0] for design in designs]
        by_key = {design.key: verdict for design, verdict in zip(designs, alone, strict=True)}
        shuffled = trial.judge(mixed)
    wrong = [
        difference(d, a, b, "in a batch", "alone")
        for d, a, b in zip(designs, together, alone, strict=True)
        if not same(a, b)
    ]
    wrong += [
        difference(d, verdict, by_key[d.key], "in another order", "alone")
        for d, verdict in zip(mixed, shuffled, strict=True)
        if not same(verdict, by_key[d.key])
    ]
    if all(verdict.error is not None for verdict in alone):
        return failed("one_by_one", nothing_judged(zip(designs, alone, strict=True)))
    return told("one_by_one", wrong, f"{len(designs)} designs: in a batch, alone, and shuffled with repeats")


def memory_replays(subject: Subject, settings: Settings) -> Finding:
    """A memory that was saved and restored goes on as if nothing had happened; so does the same history replayed."""
    if subject.said.style != "set":
        return skipped("memory_replays", "only a set verifier has a memory")
    once = subject.judgeable(settings.ordinary)
    half = len(once) // 2
    # What was seen last comes again at once, and what was seen first at the end: both are what memories are about.
    designs = [*once[:half], *once[max(0, half - 1) :], *once[:2]]
    with subject.trial() as trial:
        before = trial.judge(designs[:half])
        saved = json.loads(json.dumps(trial.service.memory))
        after = trial.judge(designs[half:])
        whole = trial.service.memory
    with subject.trial() as trial:
        trial.service.restore(saved)
        continued, continued_memory = trial.judge(designs[half:]), trial.service.memory
        trial.forget()
        replayed = [trial.judge([design])[0] for design in designs]
        replayed_memory = trial.service.memory
    wrong = [
        difference(d, a, b, "uninterrupted", "after save and restore")
        for d, a, b in zip(designs[half:], after, continued, strict=True)
        if not same(a, b)
    ]
    wrong += [
        difference(d, a, b, "in two batches", "replayed one by one")
        for d, a, b in zip(designs, [*before, *after], replayed, strict=True)
        if not same(a, b)
    ]
    if not wrong and continued_memory != whole:
        wrong.append("after save and restore the memory itself is another: `state` or `restore` loses something")
    if not wrong and replayed_memory != whole:
        wrong.append("replayed one by one the memory is another than in batches")
    if all(verdict.error is not None for verdict in before):
        return failed("memory_replays", nothing_judged(zip(designs, before, strict=False)))
    return told("memory_replays", wrong, f"{len(designs)} designs: interrupted after {half}, and replayed")


def slow_contract(subject: Subject, settings: Settings) -> Finding:
    """Tickets are given for all, can be asked for again, and a worker that did not give them knows or refuses them."""
    if subject.said.style != "slow":
        return skipped("slow_contract", "only a slow verifier gives tickets")
    designs = (subject.known or subject.ordinary)[:4]
    wrong: list[str] = []
    with subject.trial() as trial:
        begun = time.monotonic()
        tickets = trial.stage.ask(designs)
        submitting = time.monotonic() - begun
        wrong += [f"{shown(d)}: {words(t)}" for d, t in zip(designs, tickets, strict=True) if isinstance(t, Verdict)]
        if wrong:
            return told("slow_contract", wrong, "")
        names = [str(ticket) for ticket in tickets]
        first = _waited(trial, designs, names)
        again = trial.stage.look(designs, names)
        for design, one, other in zip(designs, first, again, strict=True):
            if not isinstance(one, Verdict):
                wrong.append(f"{shown(design)}: no answer within {trial.patience:g} s")
            elif not isinstance(other, Verdict) or not same(one, other):
                said = words(other) if isinstance(other, Verdict) else "nothing"
                wrong.append(f"{shown(design)}: its ticket said {words(one)}, asked again {said}; keep what is ready")
    with subject.trial(fresh=True) as trial:
        later = _waited(trial, designs[:1], names[:1])
        if not wrong and not isinstance(later[0], Verdict):
            wrong.append(
                f"a new worker leaves ticket {names[0]} pending for ever, though it had been answered: keep jobs "
                "outside the process, or raise for a ticket that is not known"
            )
    return told(
        "slow_contract", wrong, f"{len(designs)} tickets in {submitting:.2g} s; asked twice, and by a new worker"
    )


def _waited(trial: Trial, designs: Sequence[Design], tickets: Sequence[str]) -> list[Verdict | str]:
    until, pulse = time.monotonic() + trial.patience, 0.02
    while True:
        answers = trial.stage.look(designs, tickets)
        if all(isinstance(answer, Verdict) for answer in answers) or time.monotonic() > until:
            return list(answers)
        time.sleep(pulse)
        pulse = min(2 * pulse, 1.0)
