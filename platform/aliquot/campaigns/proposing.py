"""Propose: one group of generations from the newest policy, sealed before anything judges them."""

from __future__ import annotations

from sqlmodel import col, func, select

from aliquot.campaigns.context import Context
from aliquot.domain import Design, InvalidDesign, Outcome, Trajectory
from aliquot.domain.spaces import BOS
from aliquot.ledger import INLINE_LIMIT, DesignRow, ExperimentRow, GroupRow, ProposalRow, TrajectoryRow, record, seal
from aliquot.trainer.rollout import RolloutRequest


def propose(context: Context) -> int:
    """Draw a group and write it down in one transaction; returns the group's number.

    What does not name a design is born `invalid`. A design that already has an experiment is `credited`: what the lab
    says of it is this proposal's too.
    """
    spec = context.spec
    with context.ledger.read() as session:
        newest = select(func.max(GroupRow.number)).where(GroupRow.campaign_id == context.campaign_id)
        number = (session.exec(newest).one() or 0) + 1
    request = RolloutRequest(
        [BOS],
        spec.proposing.group_size,
        context.codec.max_tokens,
        context.seed("rollout", number),
        spec.policy.sampling,
    )
    trajectories = context.rollouts.generate(request)
    decoded = [_decode(context, trajectory) for trajectory in trajectories]

    at = context.clock.now()
    with context.ledger.write() as session:
        group = GroupRow(campaign_id=context.campaign_id, number=number, source=spec.policy.init, created_at=at)
        session.add(group)
        sealed = [_sealed(context, trajectory) for trajectory in trajectories]
        designs = {design.key: design for design, _ in decoded if design is not None}
        known = set(session.exec(select(DesignRow.key).where(col(DesignRow.key).in_(designs))))
        session.add_all(
            DesignRow(key=key, kind=design.kind, value=design.value)
            for key, design in designs.items()
            if key not in known
        )
        session.add_all(sealed)
        session.flush()
        measured = select(ExperimentRow.design_key, func.min(ExperimentRow.id)).where(
            ExperimentRow.campaign_id == context.campaign_id,
            col(ExperimentRow.design_key).in_(designs),
            ~(
                (col(ExperimentRow.state) == "failed") & col(ExperimentRow.dispatched_at).is_(None)
            ),  # the lab never had it
        )
        experiments = dict(session.exec(measured.group_by(ExperimentRow.design_key)).all())
        for position, (row, (design, text)) in enumerate(zip(sealed, decoded, strict=True)):
            proposal = ProposalRow(
                campaign_id=context.campaign_id, group_id=group.id, position=position, trajectory_id=row.id, text=text,
                created_at=at,
            )  # fmt: skip
            if design is None:
                proposal.state, proposal.outcome, proposal.reason = "invalid", Outcome.INVALID_DESIGN, text
            else:
                proposal.design_key, proposal.text = design.key, design.text
                if design.key in experiments:
                    proposal.state, proposal.experiment_id = "credited", experiments[design.key]
                    proposal.selection_probability = 1.0
            session.add(proposal)
        invalid = sum(design is None for design, _ in decoded)
        record(
            session, context.campaign_id, at, "group_proposed", group=number, proposals=len(decoded), invalid=invalid
        )
    return number


def propose_seeds(context: Context) -> bool:
    """Propose the space's known designs before anything else, as group 0; returns whether there was anything to do.

    They come from a person: there is no trajectory, so the surrogate learns from them and the policy does not.
    """
    with context.ledger.read() as session:
        begun = session.exec(select(GroupRow.id).where(GroupRow.campaign_id == context.campaign_id)).first()
    if begun is not None or not context.spec.space.seeds:
        return False
    designs = {d.key: d for d in map(context.spec.space.design, context.spec.space.seeds)}
    at = context.clock.now()
    with context.ledger.write() as session:
        group = GroupRow(campaign_id=context.campaign_id, number=0, source="seeds", created_at=at)
        session.add(group)
        known = set(session.exec(select(DesignRow.key).where(col(DesignRow.key).in_(designs))))
        session.add_all(DesignRow(key=k, kind=d.kind, value=d.value) for k, d in designs.items() if k not in known)
        session.flush()
        session.add_all(
            ProposalRow(
                campaign_id=context.campaign_id, group_id=group.id, position=position, design_key=design.key,
                text=design.text, off_policy=True, created_at=at,
            )
            for position, design in enumerate(designs.values())
        )  # fmt: skip
        record(session, context.campaign_id, at, "group_proposed", group=0, proposals=len(designs), invalid=0)
    return True


def _decode(context: Context, trajectory: Trajectory) -> tuple[Design | None, str]:
    """(design, "") or (None, why not)."""
    try:
        return context.codec.decode(trajectory.tokens.tolist()), ""
    except InvalidDesign as error:
        return None, str(error)


def _sealed(context: Context, trajectory: Trajectory) -> TrajectoryRow:
    data = seal(trajectory)
    small = len(data) <= INLINE_LIMIT
    return TrajectoryRow(
        campaign_id=context.campaign_id,
        digest=trajectory.digest,
        policy_version=trajectory.version,
        tokens=len(trajectory.tokens),
        sealed=data if small else None,
        artifact=None if small else context.ledger.artifacts.put(data),
    )
