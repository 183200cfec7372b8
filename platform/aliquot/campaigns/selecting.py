"""Select: of what the verifiers let through, which designs the lab gets; and with that the rewards of a group begin."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from sqlmodel import Session, col, func, select

from aliquot.campaigns.context import Context, design_of
from aliquot.campaigns.rewarding import Known, Valued, floor_of, known_of, revise, valued
from aliquot.campaigns.selection import choose
from aliquot.domain import Design, ExperimentState, Outcome, RewardStatus
from aliquot.lab_adapters.sdk import LabError
from aliquot.ledger import BudgetRow, DesignRow, ExperimentRow, GroupRow, ProposalRow, RewardRow, move, record
from aliquot.ledger.budget import BudgetExhausted, require, reserve

OPEN = [state for state in ExperimentState if not state.terminal]


def places_left(context: Context, session: Session) -> int:
    """Experiments that may be started now: a round's places, within what may be out at once and what is left."""
    counting = select(func.count()).where(
        ExperimentRow.campaign_id == context.campaign_id, col(ExperimentRow.state).in_(OPEN)
    )
    spec, out = context.spec, session.exec(counting).one()
    line = session.get(BudgetRow, (context.campaign_id, "experiments"))
    assert line is not None
    left = int(line.limit - line.reserved - line.spent)
    return max(0, min(spec.selecting.per_round, spec.proposing.max_in_flight - out, left))


def select_round(context: Context) -> int:
    """Settle every verified proposal, reserve budget for the chosen designs, and begin the rewards of their groups.

    One transaction: a crash leaves either all of the round selected or none of it. Returns the number of experiments.
    """
    at = context.clock.now()
    with context.ledger.write() as session:
        fresh = (
            select(ProposalRow, GroupRow.number)
            .join(GroupRow)
            .where(ProposalRow.campaign_id == context.campaign_id, ProposalRow.state == "verified")
            .order_by(col(ProposalRow.id))
        )
        rows = session.exec(fresh).all()
        by_design: dict[str, list[ProposalRow]] = defaultdict(list)
        for proposal, _ in rows:
            by_design[str(proposal.design_key)].append(proposal)
        keys = list(by_design)
        found = session.exec(select(DesignRow).where(col(DesignRow.key).in_(keys)))
        designs = {row.key: design_of(row) for row in found}
        known = known_of(context, session, keys)
        number = max((n for _, n in rows), default=0)
        chosen, probability, mean, sd = _pick(context, session, keys, designs, known, number)
        impute = context.spec.rewarding.missing == "impute"

        experiments = 0
        values: dict[int, Valued] = {}
        for i, key in enumerate(keys):
            predicted = None if mean is None or sd is None else (float(mean[i]), float(sd[i]))
            changes: dict[str, Any] = {"selection_probability": float(probability[i])}
            if predicted is not None:
                changes |= {"predicted_mean": predicted[0], "predicted_sd": predicted[1]}
            state, value = "passed_over", predicted
            if chosen[i]:
                try:
                    changes["experiment_id"] = _open(context, session, designs[key], at)
                    state, value = "selected", predicted if impute else None
                    experiments += 1
                except (BudgetExhausted, LabError) as error:
                    refused = Outcome.REFUSED_BY_BUDGET
                    outcome = refused if isinstance(error, BudgetExhausted) else Outcome.INFRASTRUCTURE_ERROR
                    changes |= {"outcome": outcome, "reason": str(error)[:2000]}
                    value = None  # nothing of the design is to blame: its reward is missing
            for proposal in by_design[key]:
                move(session, proposal, state, at, **changes)
                middle, spread = value or (None, None)
                values[proposal.id] = Valued(RewardStatus.PENDING, middle, spread, 0.0)
            if state == "selected":
                _credit_earlier(session, context, key, changes["experiment_id"], at)
        _begin_others(context, session, values)
        revise(context, session, values, at)
        record(session, context.campaign_id, at, "round_selected", candidates=len(keys), experiments=int(experiments))
    return int(experiments)


def predict_passed_over(context: Context) -> int:
    """Give a prediction, and with it a reward, to what was passed over before the surrogate was ready.

    None of these designs was measured, so no prediction sees its own result. Returns how many proposals got one.
    """
    at = context.clock.now()
    with context.ledger.write() as session:
        query = (
            select(ProposalRow, DesignRow)
            .join(DesignRow)
            .where(
                ProposalRow.campaign_id == context.campaign_id,
                ProposalRow.state == "passed_over",
                col(ProposalRow.predicted_mean).is_(None),
            )
            .order_by(col(ProposalRow.id))
        )
        rows = session.exec(query).all()
        if not rows:
            return 0
        known = known_of(context, session, [row.key for _, row in rows])
        designs = [design_of(row) for _, row in rows]
        mean, sd = context.surrogate.predict(designs, [known[row.key].values for _, row in rows])
        values: dict[int, Valued] = {}
        for (proposal, _), one, spread in zip(rows, mean, sd, strict=True):
            proposal.predicted_mean, proposal.predicted_sd = float(one), float(spread)
            values[proposal.id] = Valued(RewardStatus.PENDING, float(one), float(spread), 0.0)
        session.flush()
        revise(context, session, values, at)
        record(session, context.campaign_id, at, "surrogate_ready", predicted=len(rows))
    return len(rows)


def _pick(
    context: Context,
    session: Session,
    keys: list[str],
    designs: dict[str, Design],
    known: dict[str, Known],
    number: int,
):
    """(chosen [n], probability [n], surrogate mean [n] or None, sd [n] or None)."""
    spec, mean, sd, acquisition = context.spec.selecting, None, None, None
    if keys and context.surrogate.ready:
        mean, sd = context.surrogate.predict([designs[k] for k in keys], [known[k].values for k in keys])
        if spec.acquisition != "random":
            acquisition = np.asarray(mean) + (spec.kappa * np.asarray(sd) if spec.acquisition == "ucb" else 0.0)
    rng = context.random("select", number)
    places = places_left(context, session)
    chosen, probability = choose(len(keys), acquisition, places, spec.exploration, rng)
    return chosen, probability, mean, sd


def _open(context: Context, session: Session, design: Design, at: float) -> int:
    """An experiment with its budget reserved, ready for dispatch.

    Raises:
        BudgetExhausted: the budget does not hold what the lab asks for it; nothing was written.
        LabError: the lab could not say what it asks.
    """
    amounts = {"experiments": 1.0}
    if context.spec.budget.money is not None:
        amounts["money"] = context.lab.quote(design, context.objective.assays).money
    require(session, context.campaign_id, amounts)
    last = select(func.max(ExperimentRow.number)).where(ExperimentRow.campaign_id == context.campaign_id)
    experiment = ExperimentRow(
        campaign_id=context.campaign_id, number=(session.exec(last).one() or 0) + 1, design_key=design.key,
        lab=context.description.name, assays=list(context.objective.assays), selected_at=at,
    )  # fmt: skip
    session.add(experiment)
    session.flush()
    reserve(session, context.campaign_id, experiment.id, amounts, at)
    move(session, experiment, "ready", at)
    return experiment.id


def _credit_earlier(session: Session, context: Context, key: str, experiment_id: int, at: float) -> None:
    """What is measured of a design is credited to those too that named it before, and were passed over."""
    query = select(ProposalRow).where(
        ProposalRow.campaign_id == context.campaign_id,
        ProposalRow.design_key == key,
        ProposalRow.state == "passed_over",
    )
    for proposal in session.exec(query.order_by(col(ProposalRow.id))).all():
        move(session, proposal, "credited", at, experiment_id=experiment_id, selection_probability=1.0)


def _begin_others(context: Context, session: Session, values: dict[int, Valued]) -> None:
    """First rewards of the siblings that selection does not touch: the floor, missing, or what a design got already."""
    without = (
        select(ProposalRow)
        .where(
            ProposalRow.campaign_id == context.campaign_id,
            col(ProposalRow.state).in_(("invalid", "refused", "undecided", "credited")),
            ~select(RewardRow.id).where(RewardRow.proposal_id == ProposalRow.id).exists(),
        )
        .order_by(col(ProposalRow.id))
    )
    credited: list[ProposalRow] = []
    for proposal in session.exec(without):
        if proposal.state == "credited":
            credited.append(proposal)
        elif proposal.state == "undecided":
            values[proposal.id] = Valued(RewardStatus.PENDING, None, None, 0.0)
        else:
            values[proposal.id] = floor_of(context)
    if credited:
        keys = sorted({str(p.design_key) for p in credited})
        rows = session.exec(select(DesignRow).where(col(DesignRow.key).in_(keys)))
        designs = {row.key: design_of(row) for row in rows}
        known = known_of(context, session, keys)
        rewards = dict(zip(keys, valued(context, [designs[k] for k in keys], [known[k] for k in keys]), strict=True))
        values |= {p.id: rewards[str(p.design_key)] for p in credited}
