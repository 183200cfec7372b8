"""A REINVENT-style loop, without delay: the yardstick.

Each step draws 64 sequences, and descends the squared gap between the agent's log-likelihood and the augmented one,

    L = mean (log π_prior + σ R − log π)² + 5000 mean (−1 / log π)

over them and over 24 replayed of the hundred best, drawn in proportion to their score, with Adam (Olivecrona et al.
2017, J. Cheminform. 9, 48; as set in the PMO benchmark, wenhao-gao/mol_opt, main/reinvent). The prior, the assays,
their noise and the calls that never answer are those of the other arms; nothing is learned from a sequence without a
reward.
"""

from __future__ import annotations

import copy
import time
from collections import Counter

import numpy as np
import torch
from torch import Tensor

from aliquot.domain import InvalidDesign, MoleculeSpace, Trajectory
from aliquot.domain.spaces import BOS
from aliquot.trainer.policies import load_policy
from aliquot.trainer.policies.scoring import score
from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine
from benchmarks.delayed.campaign import PATIENCE, Outcome
from benchmarks.delayed.laboratory import Laboratory
from benchmarks.delayed.tasks import TASKS

BATCH, REPLAY, MEMORY = 64, 24, 100
SIGMA, LEARNING_RATE, LIKELIHOOD_PENALTY = 500.0, 5e-4, 5e3

Rewarded = tuple[float, Trajectory]


def run(task: str, calls: int, seed: int) -> Outcome:
    """One run of `calls` calls."""
    started = time.process_time()
    space, laboratory = MoleculeSpace(), Laboratory(TASKS[task], 0, seed)
    counts: Counter[str] = Counter()
    agent = load_policy("zinc-dense", space, None, seed)
    prior = copy.deepcopy(agent)
    engine = TorchRolloutEngine(agent, batch_size=BATCH)
    optimiser = torch.optim.Adam(agent.model.parameters(), lr=LEARNING_RATE)
    random, codec = np.random.default_rng(seed), space.codec()
    rewards: dict[str, float] = {}
    memory: dict[str, Rewarded] = {}
    asked: set[str] = set()
    while laboratory.calls < calls and counts["samples"] < PATIENCE * calls:
        counts["steps"] += 1
        drawn = engine.generate(RolloutRequest([BOS], BATCH, codec.max_tokens, seed * 1_000_003 + counts["steps"]))
        counts["samples"] += len(drawn)
        keys: list[str | None] = []
        for one in drawn:
            try:
                design = codec.decode(one.tokens.tolist())
            except InvalidDesign:
                counts["invalid"] += 1
                keys.append(None)
                continue
            keys.append(design.key)
            counts["repeats"] += design.key in asked
            if design.key not in asked and laboratory.calls < calls:
                asked.add(design.key)
                laboratory.call(design.key, str(design.value))
        rewards |= {answer.key: answer.reward for answer in laboratory.answers()}
        batch: dict[bytes, Rewarded] = {}
        found: dict[str, Rewarded] = {}
        for key, one in zip(keys, drawn, strict=True):
            if key is None or key in rewards:
                value = rewards[key] if key else 0.0
                batch[one.tokens.tobytes()] = (value, one)
                if key:
                    found[key] = (value, one)
        learned = [*batch.values(), *_replayed(memory, random)]
        _step(agent, prior, optimiser, learned)
        engine.update_weights(agent.model.state_dict(), counts["steps"])
        memory = dict(sorted((found | memory).items(), key=lambda item: -item[1][0])[:MEMORY])
    told = {"calls": laboratory.calls, "unanswered": sum(s != s for s in laboratory.scores)} | counts
    return Outcome(laboratory.scores, {k: float(v) for k, v in told.items()}, time.process_time() - started)


def _replayed(memory: dict[str, Rewarded], random: np.random.Generator) -> list[Rewarded]:
    if len(memory) <= REPLAY:
        return []
    values = list(memory.values())
    chances = np.array([value for value, _ in values]) + 1e-10
    picked = random.choice(len(values), REPLAY, replace=False, p=chances / chances.sum())
    return [values[i] for i in picked]


def _step(agent, prior, optimiser, learned: list[Rewarded]) -> None:
    trajectories = [trajectory for _, trajectory in learned]
    with torch.no_grad():
        before = score(prior, trajectories).logp.sum(-1)
    likelihood = score(agent, trajectories).logp.sum(-1)
    values = torch.tensor([value for value, _ in learned])
    optimiser.zero_grad()
    loss(likelihood, before, values).backward()
    optimiser.step()


def loss(likelihood: Tensor, prior: Tensor, values: Tensor) -> Tensor:
    """L of the equation above.

    Args:
        likelihood: log π of whole sequences, nats, float32 [batch].
        prior: log π_prior of the same.
        values: R.
    """
    return ((prior + SIGMA * values - likelihood) ** 2).mean() - LIKELIHOOD_PENALTY * (1.0 / likelihood).mean()
