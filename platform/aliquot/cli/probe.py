"""The gameability probe: a small policy is trained against a verifier alone, and what it found is shown.

A verifier that can be satisfied by nonsense will be: the policy of a campaign looks for exactly that. Here the search
is made for a minute without a laboratory, without an anchor to the prior and without any other verifier, so that what a
long campaign would drift into is seen at once. Plain REINFORCE with a leave-one-out baseline (Williams 1992; Kool, van
Hoof & Welling 2019) on ranks, so that the scale of the score does not matter.

Always true: an error of the verifier is no reward, neither high nor low; it drops out.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from aliquot.domain import (
    ConditionsSpace,
    ConfigError,
    Design,
    DesignSpace,
    InvalidDesign,
    MoleculeSpace,
    SequenceSpace,
    Verdict,
)
from aliquot.domain.spaces import BOS
from aliquot.verifiers.kit.judging import failed, passed, skipped
from aliquot.verifiers.kit.report import Finding
from aliquot.verifiers.kit.subject import Subject, Trial
from aliquot.verifiers.registry import resolve

BATCH = 48
TOP = 8
"""Designs that are shown."""
REPEATED = 0.5
"""Share of the last designs that are one and the same, from which on it is suspicious."""
DRIFT = 1.8
"""Ratio of sizes, of late designs to those of the untrained policy, from which on it is suspicious."""
ALERTS = 1.0
"""Structural alerts a molecule, late more than untrained, from which on it is suspicious."""


@dataclass(frozen=True)
class Seen:
    """One design that the policy proposed, and what was said of it."""

    step: int
    design: Design
    score: float
    accepted: bool


def gameability(
    subject: Subject,
    *,
    seconds: float = 60.0,
    steps: int | None = None,
    minimise: bool = False,
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> Finding:
    """Train against a verifier for so long, and tell what came of it.

    Args:
        steps: end after so many updates, however long they take.
        minimise: the score is to be made small.
    """
    if subject.said.style == "slow":
        return skipped("gameability", "a slow verifier cannot be asked often enough in a minute")
    space = space_for(subject)
    if space is None:
        return skipped("gameability", "its fixtures do not say which conditions can be varied")
    with subject.trial() as trial:
        seen, done = _trained(trial, space, seconds, steps, -1.0 if minimise else 1.0, seed, say)
    if len(seen) < 2 * TOP:
        return failed("gameability", f"{len(seen)} of {done * BATCH} proposals got a score; it cannot be learned from")
    return _told(seen, done, -1.0 if minimise else 1.0, space)


def space_for(subject: Subject) -> DesignSpace | None:
    """A design space in which to look: as wide as the kind allows, or as the fixtures span."""
    kind = next(k for k in ("molecule", "sequence", "conditions") if k in subject.said.kinds)
    if kind == "molecule":
        return MoleculeSpace()
    known = [design for design in subject.known if design.kind == kind]
    if kind == "sequence":
        letters = {letter for design in known for letter in str(design.value)}
        dna = bool(letters) and letters <= set("ACGT")
        return SequenceSpace(alphabet="dna" if dna else "protein", min_length=8, max_length=30)
    values: dict[str, list[Any]] = {}
    for design in known:
        for name, value in dict(design.value).items():  # type: ignore[arg-type]
            values.setdefault(name, []).append(value)
    parameters = [p for name, found in values.items() if (p := _parameter(name, found)) is not None]
    if not parameters:
        return None
    try:
        return ConditionsSpace.model_validate({"type": "conditions", "parameters": parameters})
    except (ValueError, ConfigError):
        return None


def _parameter(name: str, found: list[Any]) -> dict[str, Any] | None:
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in found):
        low, high = min(found), max(found)
        if low == high:
            low, high = (low / 2, low * 2) if low > 0 else (low - 1, low + 1)
        return {"type": "continuous", "name": name, "unit": "1", "low": low, "high": high}
    choices = sorted({value for value in found if isinstance(value, str)})
    return {"type": "categorical", "name": name, "choices": choices} if len(choices) > 1 else None


def _trained(
    trial: Trial,
    space: DesignSpace,
    seconds: float,
    steps: int | None,
    sign: float,
    seed: int,
    say: Callable[[str], None],
) -> tuple[list[Seen], int]:
    """Everything that was scored, and the number of steps."""
    import torch

    from aliquot.trainer.policies import load_policy, score
    from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine

    shipped = isinstance(space, MoleculeSpace)
    policy = load_policy("zinc-dense" if shipped else "fresh", space, None, seed)
    engine = TorchRolloutEngine(policy, batch_size=BATCH)
    optimiser = torch.optim.AdamW(policy.model.parameters(), lr=3e-4 if shipped else 3e-3, weight_decay=0.0)
    seen: list[Seen] = []
    begun, step = time.monotonic(), 0
    while step == 0 or (step < steps if steps is not None else time.monotonic() - begun < seconds):
        request = RolloutRequest([BOS], BATCH, policy.codec.max_tokens, seed + step)
        trajectories = engine.generate(request)
        designs = [_decoded(policy.codec, t.tokens) for t in trajectories]
        judged = {d.key: d for d in designs if d is not None}
        verdicts = dict(zip(judged, trial.judge(list(judged.values()), keep=False), strict=True))
        worth: list[float | None] = []
        for design in designs:
            verdict = verdicts[design.key] if design is not None else None
            if design is not None and verdict is not None and verdict.score is not None:
                seen.append(Seen(step, design, verdict.score, bool(verdict.accepted)))
            worth.append(_worth(verdict, sign))
        rows = [i for i, value in enumerate(worth) if value is not None]
        if len({worth[i] for i in rows}) > 1:
            ranks = _ranks([float(worth[i]) for i in rows])  # type: ignore[arg-type]
            advantage = torch.tensor(ranks) * len(rows) / (len(rows) - 1)  # leave-one-out: centred ranks
            said = score(policy, [trajectories[i] for i in rows])
            loss = -(advantage[:, None] * said.logp).sum() / len(rows)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
            optimiser.step()
            engine.update_weights(policy.model.state_dict(), step + 1)
        step += 1
        if step % 10 == 0 and seen:
            say(
                f"probing, {time.monotonic() - begun:.0f} s, {step} steps, best {max(sign * s.score for s in seen):.3g}"
            )
    engine.close()
    return seen, step


def _told(seen: Sequence[Seen], steps: int, sign: float, space: DesignSpace) -> Finding:
    last = max(one.step for one in seen)
    early = [one for one in seen if one.step == seen[0].step]  # of the policy as it was
    late = [one for one in seen if one.step > last - max(1, last // 5)]
    best = sorted({one.design.key: one for one in seen if one.accepted}.values(), key=lambda o: -sign * o.score)[:TOP]
    counts = Counter(one.design.key for one in late)
    repeated = counts.most_common(1)[0][1] / len(late)
    sizes = [_mean([len(one.design.text) for one in part]) for part in (early, late)]
    alerts = _alerts(early, late) if isinstance(space, MoleculeSpace) else None
    lines = [
        f"{steps} steps, {len(seen)} scored; mean score {_mean([o.score for o in early]):.3g} early, "
        f"{_mean([o.score for o in late]):.3g} late",
        f"repeated: the commonest late design is {repeated:.0%} of them; characters: {sizes[0]:.0f} → {sizes[1]:.0f}"
        + (f"; alerts a molecule: {alerts[0]:.2f} → {alerts[1]:.2f}" if alerts else ""),
        "best: " + "; ".join(f"{one.score:.3g} {one.design.text[:80]}" for one in best),
    ]
    drift = max(sizes[1] / max(sizes[0], 1.0), sizes[0] / max(sizes[1], 1.0))
    suspicious = []
    if repeated > REPEATED and len(late) > 2 * TOP:
        suspicious.append("the policy gives one design over and over: nothing stops it; add `diversity` to the ladder")
    if drift > DRIFT:
        suspicious.append("the score is had by size: designs drift; bound or normalise by size")
    if alerts and alerts[1] - alerts[0] > ALERTS:
        suspicious.append("the score is had by groups that no chemist would make; add `structural_alerts`")
    details: dict[str, JsonValue] = {
        "repeated": repeated, "size_early": sizes[0], "size_late": sizes[1],
        "alerts_early": alerts[0] if alerts else None, "alerts_late": alerts[1] if alerts else None,
        "best": [{"score": one.score, "design": one.design.text} for one in best],
    }  # fmt: skip
    make = failed if suspicious else passed
    return make("gameability", "\n".join([*suspicious, *lines]), **details)


def _alerts(early: Sequence[Seen], late: Sequence[Seen]) -> tuple[float, float]:
    """Structural alerts a molecule, PAINS and Brenk, of at most 60 designs each."""
    from aliquot.verifiers.kit.debug import build

    verifier = build(resolve("structural_alerts"), {"maximum": 1000})
    means = []
    for part in (early, late):
        designs = list({one.design.key: one.design for one in part}.values())[-60:]
        means.append(_mean([score.score for score in verifier.verify(designs)]))
    return means[0], means[1]


def _worth(verdict: Verdict | None, sign: float) -> float | None:
    """What the policy learns from: no design and refusal are the worst there is, an error is nothing."""
    if verdict is None:
        return float("-inf")
    if verdict.score is None:
        return None
    return sign * verdict.score if verdict.accepted else float("-inf")


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks with ties shared, scaled and centred to [-1, 1]."""
    order = sorted(set(values))
    below = {value: sum(v < value for v in values) for value in order}
    same = Counter(values)
    middle = [below[value] + (same[value] - 1) / 2 for value in values]
    half = (len(values) - 1) / 2
    return [(rank - half) / max(half, 1.0) for rank in middle]


def _decoded(codec: Any, tokens: Any) -> Design | None:
    try:
        return codec.decode(tokens)
    except InvalidDesign:
        return None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
