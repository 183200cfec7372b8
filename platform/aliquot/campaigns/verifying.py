"""Verify: every proposal that nobody has judged yet, each distinct design once; and what slow verifiers answer later.

Always true here: verdicts, verifier memory and the moves they lead to are one transaction. A design that waits for a
slow verifier stands in a `JudgementRow` with its ticket, and its proposals in state `judging`, until the verifier
answers or has had its time; a campaign that is stopped in between asks again with the same tickets.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from sqlmodel import Session, col, delete, select

from aliquot.campaigns.context import Context, design_of
from aliquot.clock import HOUR
from aliquot.domain import Outcome, Verdict, VerdictError
from aliquot.ledger import DesignRow, JudgementRow, ProposalRow, VerdictRow, VerifierMemoryRow, move, record
from aliquot.verifiers.ladder import Judgement

Board = Mapping[str, Judgement]
"""Judgements by design key."""
SHOWN = 3
"""Errors of one pass that get an event of their own."""


def verify(context: Context) -> None:
    """Judge all proposals in state `proposed`, and ask slow verifiers for what they still owe.

    A verifier that fails gives a typed error and leaves the proposal `undecided`: its reward is missing, never zero.
    """
    with context.ledger.read() as session:
        waiting = select(ProposalRow, DesignRow).join(DesignRow).order_by(ProposalRow.id)  # type: ignore[arg-type]
        waiting = waiting.where(ProposalRow.campaign_id == context.campaign_id, ProposalRow.state == "proposed")
        rows = session.exec(waiting).all()
        owed = session.exec(select(JudgementRow).where(JudgementRow.campaign_id == context.campaign_id)).all()
        before = {row.design_key: Judgement.model_validate(row.board) for row in owed}
        late = {row.design_key for row in owed if time.time() - row.asked_at > context.spec.verifying.wait_hours * HOUR}
    if before:
        asked = context.ladder.poll(list(before.values()))
        after = dict(zip(before, asked, strict=True))
        _settle(context, before, after | {key: _given_up(context, after[key]) for key in late})
    designs = {design.key: design_of(design) for _, design in rows if design.key not in before}
    if designs:
        _settle(context, {}, dict(zip(designs, context.ladder.verify(list(designs.values())), strict=True)))


def waits_for_verdicts(context: Context) -> bool:
    """Whether a slow verifier owes an answer."""
    with context.ledger.read() as session:
        query = select(JudgementRow.design_key).where(JudgementRow.campaign_id == context.campaign_id)
        return session.exec(query).first() is not None


def restore_memory(context: Context) -> None:
    """Give the set verifiers back what they remembered."""
    with context.ledger.read() as session:
        rows = session.exec(select(VerifierMemoryRow).where(VerifierMemoryRow.campaign_id == context.campaign_id)).all()
    context.ladder.restore({row.verifier: row.memory for row in rows})


def _settle(context: Context, before: Board, after: Board) -> None:
    """Write down what is new in judgements, and move the proposals of their designs."""
    at = context.clock.now()
    with context.ledger.write() as session:
        fresh = {
            key: [v for name, v in one.verdicts.items() if key not in before or name not in before[key].verdicts]
            for key, one in after.items()
        }
        for key, verdicts in fresh.items():
            session.add_all(verdict_row(context, key, verdict, at) for verdict in verdicts)
        _wait(context, session, before, after)
        for proposal in _proposals(context, session, after):
            _move(session, proposal, after[str(proposal.design_key)], at)
        for verifier, memory in context.ladder.state().items():
            session.merge(VerifierMemoryRow(campaign_id=context.campaign_id, verifier=verifier, memory=memory))
        errors = [v for verdicts in fresh.values() for v in verdicts if v.error is not None]
        for verdict in errors[:SHOWN]:
            record(session, context.campaign_id, at, "verifier_error", verifier=verdict.verifier, **_said(verdict))
        if len(errors) > SHOWN:
            record(session, context.campaign_id, at, "verifier_error", more=len(errors) - SHOWN)


def _given_up(context: Context, judgement: Judgement) -> Judgement:
    """The judgement without its tickets: who has not answered by now is not waited for."""
    stages = {stage.name: stage for stage in context.ladder.stages}
    hours = context.spec.verifying.wait_hours
    message = f"{judgement.design.text}: no answer in {hours:g} hours (verifying.wait_hours)"
    silent = {
        name: Verdict(
            verifier=name, version=stages[name].version, digest=stages[name].digest,
            error=VerdictError(outcome=Outcome.TIMED_OUT, message=message),
        )
        for name in judgement.pending
    }  # fmt: skip
    return judgement.model_copy(update={"pending": {}, "verdicts": judgement.verdicts | silent})


def _wait(context: Context, session: Session, before: Board, after: Board) -> None:
    """Keep the judgements with a ticket, and forget those that are whole."""
    for key, judgement in after.items():
        if judgement.pending and key not in before:
            board = judgement.model_dump(mode="json")
            campaign = context.campaign_id
            session.merge(JudgementRow(campaign_id=campaign, design_key=key, board=board, asked_at=time.time()))
        elif judgement.pending and judgement != before[key]:
            row = session.get(JudgementRow, (context.campaign_id, key))
            assert row is not None
            row.board = judgement.model_dump(mode="json")
    whole = [key for key, judgement in after.items() if key in before and not judgement.pending]
    session.exec(
        delete(JudgementRow).where(
            col(JudgementRow.campaign_id) == context.campaign_id, col(JudgementRow.design_key).in_(whole)
        )
    )


def _proposals(context: Context, session: Session, board: Board) -> list[ProposalRow]:
    """Those that name these designs and are not decided, in order."""
    query = select(ProposalRow).where(
        ProposalRow.campaign_id == context.campaign_id,
        col(ProposalRow.state).in_(("proposed", "judging")),
        col(ProposalRow.design_key).in_(list(board)),
    )
    return list(session.exec(query.order_by(col(ProposalRow.id))))


def _move(session: Session, proposal: ProposalRow, judgement: Judgement, at: float) -> None:
    if judgement.accepted:
        move(session, proposal, "verified", at)
    elif judgement.accepted is not None:
        move(session, proposal, "refused", at, outcome=Outcome.REFUSED_BY_VERIFIER, reason=_reason(judgement))
    elif not judgement.pending:
        move(session, proposal, "undecided", at, outcome=Outcome.INFRASTRUCTURE_ERROR, reason=_reason(judgement))
    elif proposal.state == "proposed":
        move(session, proposal, "judging", at, reason=_reason(judgement))


def _reason(judgement: Judgement) -> str:
    """Why it is not accepted, in the words of the verifiers that said so."""
    said = [
        (v.verifier, v.error.message if v.error else v.reason) for v in judgement.verdicts.values() if not v.accepted
    ]
    said += [(name, "has not answered yet") for name in judgement.pending]
    return "; ".join(f"{name}: {reason}" for name, reason in said)[:2000]


def verdict_row(context: Context, key: str, verdict: Verdict, at: float) -> VerdictRow:
    """A verdict as it stands in the ledger."""
    return VerdictRow(
        campaign_id=context.campaign_id, design_key=key, verifier=verdict.verifier, plugin_version=verdict.version,
        digest=verdict.digest, score=verdict.score, accepted=verdict.accepted, reason=verdict.reason,
        details=verdict.values, controls=list(verdict.controls),
        error=verdict.error.model_dump(mode="json") if verdict.error else None,
        seconds=verdict.seconds, cost=verdict.cost, created_at=at,
    )  # fmt: skip


def _said(verdict: Verdict) -> dict[str, str]:
    assert verdict.error is not None
    return {"outcome": verdict.error.outcome, "message": verdict.error.message[:2000]}
