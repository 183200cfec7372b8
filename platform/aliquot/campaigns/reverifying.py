"""Reverify: what a verifier says today of designs it judged under other code, and the rewards that this changes.

Always true here: old verdicts stay; each new one is a row of its own, and the newest without an error holds. A design
that is refused now gets the floor. One that was refused and no longer is gets its floor taken back, and no value: it
never was at the laboratory. All others get what they are worth with the new scores. The trainer learns the differences
when the campaign goes on.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence

from sqlmodel import Session, col, select

from aliquot.campaigns.context import Context, design_of
from aliquot.campaigns.rewarding import Valued, floor_of, known_of, revise, valued
from aliquot.campaigns.verifying import verdict_row
from aliquot.domain import ConfigError, Design, Noun, Outcome, RewardStatus, Verdict
from aliquot.ledger import DesignRow, ProposalRow, VerdictRow, record
from aliquot.verifiers.stage import Stage, Ticket

BATCH = 256
"""Designs that are judged, and written down, at once."""
PULSE = 1.0
"""Seconds between two questions to a slow verifier."""


class Reverified(Noun):
    """What came of it."""

    verifier: str
    version: str
    judged: int = 0
    """Designs whose verdict was of other code."""
    changed: int = 0
    """Of them, those with another score or decision."""
    errors: int = 0
    """Of them, those that could not be judged again; their old verdict holds."""
    rewards: int = 0
    """Revisions that were issued."""


def reverify(context: Context, verifier: str, version: str | None = None) -> Reverified:
    """Judge again every design that a verifier judged under another digest, and revise rewards.

    Args:
        verifier: its name in the campaign.
        version: the version it must have now; None: whichever it has.

    Raises:
        ConfigError: the campaign has no such verifier, it is of another version, or it judges against a memory, so that
            no verdict of its can be had again.
    """
    stage = _stage(context, verifier, version)
    found = Reverified(verifier=verifier, version=stage.version)
    with context.ledger.read() as session:
        old = _outdated(context, session, stage)
    keys = list(old)
    for start in range(0, len(keys), BATCH):
        part = keys[start : start + BATCH]
        verdicts = dict(zip(part, _judged(stage, [old[key][0] for key in part]), strict=True))
        changed = [key for key, verdict in verdicts.items() if verdict.error is None and _differs(old[key][1], verdict)]
        at = context.clock.now()
        with context.ledger.write() as session:
            session.add_all(verdict_row(context, key, verdict, at) for key, verdict in verdicts.items())
            session.flush()
            rewards = revise(context, session, _values(context, session, changed), at)
            errors = sum(verdict.error is not None for verdict in verdicts.values())
            told = {"judged": len(part), "changed": len(changed), "errors": errors, "rewards": rewards}
            about = {"verifier": verifier, "plugin_version": stage.version}
            record(session, context.campaign_id, at, "reverified", **about, **told)
        found = found.model_copy(update={name: getattr(found, name) + count for name, count in told.items()})
    return found


def _stage(context: Context, verifier: str, version: str | None) -> Stage:
    stages = {stage.name: stage for stage in context.ladder.stages}
    if verifier not in stages:
        remedy = f"the campaign has no such verifier; it has: {', '.join(stages) or 'none'}"
        raise ConfigError("--verifier", [("verifier", verifier, remedy)])
    stage = stages[verifier]
    if version is not None and stage.version != version:
        remedy = f"the {verifier} of this campaign is version {stage.version} today: install {version} first"
        raise ConfigError("--verifier", [("version", version, remedy)])
    if stage.style == "set":
        remedy = "judges a design against those before it, so its verdicts cannot be had again one by one"
        raise ConfigError("--verifier", [("verifier", verifier, remedy)])
    return stage


def _outdated(context: Context, session: Session, stage: Stage) -> dict[str, tuple[Design, VerdictRow]]:
    """Design and newest verdict, by key, where that is of other code than the stage's."""
    query = (
        select(VerdictRow, DesignRow)
        .join(DesignRow, col(DesignRow.key) == VerdictRow.design_key)
        .where(VerdictRow.campaign_id == context.campaign_id, VerdictRow.verifier == stage.name)
        .order_by(col(VerdictRow.id))
    )
    newest = {row.key: (design_of(row), verdict) for verdict, row in session.exec(query) if verdict.error is None}
    return {key: one for key, one in newest.items() if one[1].digest != stage.digest}


def _judged(stage: Stage, designs: Sequence[Design]) -> list[Verdict]:
    answers = stage.judge(designs)
    while waiting := [i for i, answer in enumerate(answers) if isinstance(answer, Ticket)]:
        time.sleep(PULSE)
        said = stage.poll([designs[i] for i in waiting], [str(answers[i]) for i in waiting])
        for i, answer in zip(waiting, said, strict=True):
            answers[i] = answer
    return [answer for answer in answers if isinstance(answer, Verdict)]


def _differs(old: VerdictRow, new: Verdict) -> bool:
    return (old.score, old.accepted) != (new.score, new.accepted)


def _values(context: Context, session: Session, keys: Sequence[str]) -> dict[int, Valued]:
    """What every proposal of these designs is worth now."""
    known = known_of(context, session, keys)
    query = (
        select(ProposalRow, DesignRow)
        .join(DesignRow)
        .where(
            ProposalRow.campaign_id == context.campaign_id,
            col(ProposalRow.design_key).in_(list(keys)),
            col(ProposalRow.state).in_(("refused", "selected", "credited", "passed_over")),
        )
        .order_by(col(ProposalRow.id))
    )
    refused = _refused(context, session, keys)
    found: dict[int, Valued] = {}
    worth: dict[str, Valued] = {}
    for proposal, row in session.exec(query):
        if row.key in refused:
            found[proposal.id] = floor_of(context)
        elif proposal.state == "refused":
            if proposal.outcome == Outcome.REFUSED_BY_VERIFIER:
                found[proposal.id] = Valued(RewardStatus.RETRACTED, None, None, 0.0)
        else:
            if row.key not in worth:
                (worth[row.key],) = valued(context, [design_of(row)], [known[row.key]])
            found[proposal.id] = worth[row.key]
    return found


def _refused(context: Context, session: Session, keys: Sequence[str]) -> set[str]:
    """Designs that the newest verdict of some required verifier refuses."""
    required = [stage.name for stage in context.ladder.stages if stage.required]
    query = select(VerdictRow).where(
        VerdictRow.campaign_id == context.campaign_id,
        col(VerdictRow.design_key).in_(list(keys)),
        col(VerdictRow.verifier).in_(required),
    )
    newest: dict[str, dict[str, bool | None]] = defaultdict(dict)
    for verdict in session.exec(query.order_by(col(VerdictRow.id))):
        if verdict.error is None:
            newest[verdict.design_key][verdict.verifier] = verdict.accepted
    return {key for key, said in newest.items() if False in said.values()}
