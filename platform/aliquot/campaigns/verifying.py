"""Verify: every proposal that nobody has judged yet, each distinct design once."""

from __future__ import annotations

from sqlmodel import Session, select

from aliquot.campaigns.context import Context, design_of
from aliquot.domain import Outcome, Verdict
from aliquot.ledger import DesignRow, ProposalRow, VerdictRow, VerifierMemoryRow, move, record
from aliquot.verifiers.ladder import Judgement


def verify(context: Context) -> None:
    """Judge all proposals in state `proposed`, and store verdicts, verifier memory and moves in one transaction.

    A verifier that fails gives a typed error and leaves the proposal `undecided`: its reward is missing, never zero.
    """
    with context.ledger.read() as session:
        waiting = select(ProposalRow, DesignRow).join(DesignRow).order_by(ProposalRow.id)  # type: ignore[arg-type]
        waiting = waiting.where(ProposalRow.campaign_id == context.campaign_id, ProposalRow.state == "proposed")
        rows = session.exec(waiting).all()
    if not rows:
        return
    designs = {proposal.design_key: design_of(design) for proposal, design in rows}
    judgements = dict(zip(designs, context.ladder.verify(list(designs.values())), strict=True))
    at = context.clock.now()
    with context.ledger.write() as session:
        for key, judgement in judgements.items():
            session.add_all(_row(context, str(key), verdict, at) for verdict in judgement.verdicts.values())
        for proposal, _ in rows:
            _settle(session, proposal, judgements[proposal.design_key], at)
        for verifier, memory in context.ladder.state().items():
            session.merge(VerifierMemoryRow(campaign_id=context.campaign_id, verifier=verifier, memory=memory))
        errors = [v for j in judgements.values() for v in j.verdicts.values() if v.error is not None]
        for verdict in errors[:3]:
            record(session, context.campaign_id, at, "verifier_error", verifier=verdict.verifier, **_said(verdict))
        if len(errors) > 3:
            record(session, context.campaign_id, at, "verifier_error", more=len(errors) - 3)


def restore_memory(context: Context) -> None:
    """Give the set verifiers back what they remembered."""
    with context.ledger.read() as session:
        rows = session.exec(select(VerifierMemoryRow).where(VerifierMemoryRow.campaign_id == context.campaign_id)).all()
    context.ladder.restore({row.verifier: row.memory for row in rows})


def _settle(session: Session, proposal: ProposalRow, judgement: Judgement, at: float) -> None:
    if judgement.accepted is None:
        move(session, proposal, "undecided", at, outcome=Outcome.INFRASTRUCTURE_ERROR, reason=_reason(judgement))
    elif judgement.accepted:
        move(session, proposal, "verified", at)
    else:
        move(session, proposal, "refused", at, outcome=Outcome.REFUSED_BY_VERIFIER, reason=_reason(judgement))


def _reason(judgement: Judgement) -> str:
    """Why it is not accepted, in the words of the verifiers that said so."""
    said = [
        (v.verifier, v.error.message if v.error else v.reason) for v in judgement.verdicts.values() if not v.accepted
    ]
    said += [(name, "has not answered yet") for name in judgement.pending]
    return "; ".join(f"{name}: {reason}" for name, reason in said)[:2000]


def _row(context: Context, key: str, verdict: Verdict, at: float) -> VerdictRow:
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
