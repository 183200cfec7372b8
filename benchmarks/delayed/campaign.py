"""A campaign of a policy alone: the real ledger, trainer and rollout engine, and nothing that selects.

Always true here: a call is a new valid design. What is not valid is no call, and neither is a design that was asked for
before, which a verifier of novelty refuses: the reward of both is the floor. Each round draws one group from the newest
version, hears what the laboratory has answered, and lets the trainer learn all that is due.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, func, select

from aliquot.domain import Design, InvalidDesign, MoleculeSpace, RewardStatus, Trajectory
from aliquot.domain.spaces import BOS
from aliquot.ledger import (
    CampaignRow,
    DesignRow,
    DispositionRow,
    GroupRow,
    Ledger,
    ProposalRow,
    RewardRow,
    TrajectoryRow,
    seal,
)
from aliquot.ledger import lineages as branches
from aliquot.trainer.loop import Trainer
from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine
from benchmarks.delayed.laboratory import Answer, Laboratory
from benchmarks.delayed.tasks import TASKS

SUMMED = ("tier_fresh", "tier_moderate", "tier_old", "tier_ancient", "due", "reused")
AVERAGED = ("staleness_versions", "kl_k3", "entropy", "drift", "anchor_kl", "gradient_norm", "weight_mean", "reward")
"""Metrics of the trainer that an outcome sums, or averages, over its steps."""
PATIENCE = 4
"""A run ends after this many samples a call of its budget: a policy that repeats itself finds nothing new."""


@dataclass
class Outcome:
    """What one run gives; `scores` is all that goals are computed from."""

    scores: list[float]
    """True score of each call, in their order; NaN of a call that never answered."""
    counts: dict[str, float]
    seconds: float
    """Of one core."""


@dataclass
class Book:
    """Which proposal asked for which design, and how often each was given a reward."""

    proposals: dict[str, int] = field(default_factory=dict)
    revisions: Counter[int] = field(default_factory=Counter)


def run(
    task: str, in_flight: int, calls: int, seed: int, group: int, learning: dict[str, Any]
) -> Outcome:  # fmt: skip
    """One run of `calls` calls with `in_flight` of them out on average."""
    started = time.process_time()
    space, laboratory = MoleculeSpace(), Laboratory(TASKS[task], in_flight, seed)
    counts: Counter[str] = Counter()
    seen: dict[str, list[float]] = defaultdict(list)
    spec = {
        "seed": seed,
        "space": space.model_dump(mode="json"),
        "policy": {"init": "zinc-dense"},
        "learning": {"checkpoint_every": 1_000_000} | learning,
    }
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.db")
        with ledger.write() as session:
            session.add(CampaignRow(name=task, spec=spec, clock=0.0, created_at=0.0))
        trainer, book = Trainer(ledger, Path(folder), 1), Book()
        engine = TorchRolloutEngine(trainer.policy, _version(ledger), batch_size=group)
        while laboratory.calls < calls and counts["samples"] < PATIENCE * calls:
            counts["rounds"] += 1
            asked = RolloutRequest([BOS], group, space.codec().max_tokens, seed * 1_000_003 + counts["rounds"])
            drawn = engine.generate(asked)
            counts["samples"] += len(drawn)
            with ledger.write() as session:
                _propose(session, drawn, space, laboratory, book, counts, calls)
                campaign = session.get(CampaignRow, 1)
                campaign.clock = float(laboratory.calls)  # type: ignore[union-attr]
                for answer in laboratory.answers():
                    _reward(session, book, book.proposals[answer.key], answer)
            while (metrics := trainer.step()) is not None:
                counts["steps"] += 1
                for name in (*SUMMED, *AVERAGED):
                    seen[name].append(metrics.get(name, 0.0))
            engine.update_weights(trainer.policy.model.state_dict(), _version(ledger))
        with ledger.read() as session:
            dropped = select(func.count(func.distinct(col(DispositionRow.proposal_id))))
            dropped = dropped.where(col(DispositionRow.reason).startswith("dropped"))
            told: dict[str, float] = {"dropped": session.exec(dropped).one()} | trainer.book.completion()
        trainer.close()
        ledger.close()
    told |= {"calls": laboratory.calls, "unanswered": sum(map(math.isnan, laboratory.scores))} | counts
    told |= {name: math.fsum(seen[name]) for name in SUMMED}
    told |= {name: _mean(seen[name]) for name in AVERAGED}
    return Outcome(laboratory.scores, {k: float(v) for k, v in told.items()}, time.process_time() - started)


def _propose(
    session: Session, drawn: list[Trajectory], space: MoleculeSpace, laboratory: Laboratory, book: Book,
    counts: Counter, calls: int,
) -> None:  # fmt: skip
    """Enter one group; call the laboratory for each new design while the budget lasts."""
    codec, now = space.codec(), float(laboratory.calls)
    group = GroupRow(campaign_id=1, number=int(counts["rounds"]), source="policy", created_at=now)
    session.add(group)
    sealed = [
        TrajectoryRow(
            campaign_id=1, digest=one.digest, policy_version=one.version, tokens=len(one.tokens), sealed=seal(one)
        )
        for one in drawn
    ]
    session.add_all(sealed)
    session.flush()
    for position, (trajectory, row) in enumerate(zip(drawn, sealed, strict=True)):
        design: Design | None = None
        try:
            design = codec.decode(trajectory.tokens.tolist())
            codec.encode(design)
        except InvalidDesign:
            design = None
        state, key = ("selected", design.key) if design else ("invalid", None)
        if key is None:
            counts["invalid"] += 1
        elif key in book.proposals:
            counts["repeats"] += 1
            state = "refused"
        elif laboratory.calls >= calls:
            continue
        else:
            session.add(DesignRow(key=key, kind="molecule", value=design.value))  # type: ignore[union-attr]
            session.flush()
            laboratory.call(key, str(design.value))  # type: ignore[union-attr]
        proposal = ProposalRow(
            campaign_id=1, group_id=group.id, position=position, trajectory_id=row.id, design_key=key,
            text=codec.text(trajectory.tokens.tolist()), state=state, created_at=now,
            selection_probability=1.0 if state == "selected" else None,
        )  # fmt: skip
        session.add(proposal)
        session.flush()
        if key is None or state == "refused":
            _reward(session, book, proposal.id, Answer("", 0.0, True, now))
        else:
            book.proposals[key] = proposal.id


def _reward(session: Session, book: Book, proposal_id: int, answer: Answer) -> None:
    """Append a revision."""
    session.add(
        RewardRow(
            campaign_id=1, proposal_id=proposal_id, objective_version=1, revision=book.revisions[proposal_id],
            status=RewardStatus.FINAL if answer.last else RewardStatus.PARTIAL, value=answer.reward,
            completeness=1.0 if answer.last else 0.5, created_at=answer.at,
        )
    )  # fmt: skip
    book.revisions[proposal_id] += 1


def _version(ledger: Ledger) -> int:
    with ledger.read() as session:
        newest = branches.newest_version(session, 1)
    assert newest is not None
    return newest.id


def _mean(values: list[float]) -> float:
    return math.fsum(values) / max(1, len(values))
