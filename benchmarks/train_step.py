"""What does a trainer's step cost beyond forward pass, backward pass and optimiser, which no trainer can spare?

One batch of fresh proposals, as a campaign's policy draws them, is learned over and over in two ways that take turns.
Ours is `aliquot.trainer.step.gradient` and a step of the optimiser: importance weights, masks, tiers, diagnostics, and
for the mixture of experts the replay of what the sampler routed. The bare step pads the batch into one rectangle, runs
the same model over it as it routes by itself, descends −Σ A log π, and steps the same optimiser. `overhead` is the
ratio of their medians, less one. With `anchor`, ours holds the policy to a reference, and the bare step runs the
reference over the batch too, without using it.

Time is the processor's, of this one thread: what else runs on the machine shall not count.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Sequence

import torch

from aliquot.domain import MoleculeSpace, Trajectory
from aliquot.domain.spaces import BOS, PAD
from aliquot.trainer.anchors import KLAnchor
from aliquot.trainer.anchors.none import NoAnchor
from aliquot.trainer.config import LearningConfig
from aliquot.trainer.learning import DivergenceGauge
from aliquot.trainer.learning.members import Due, Member
from aliquot.trainer.policies import Policy, load_policy
from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine
from aliquot.trainer.step import gradient
from benchmarks.harness import Goal, Report

POLICIES = {"dense": "zinc-dense", "moe": "zinc-moe"}
ROWS, GROUP, SEED = 64, 8, 0
RATE = 1e-6
"""Of learning: the policies shall not move, so that every step does the same work."""
WARM_UP, QUICK, FULL = 2, 15, 60
"""Steps of each kind."""

Step = Callable[[], None]


def run(full: bool, say: Callable[[str], None]) -> Report:
    report = Report("train_step", seeds=[SEED])
    for kind, name in POLICIES.items():
        policy = load_policy(name, MoleculeSpace(), None, SEED)
        drawn = TorchRolloutEngine(policy).generate(RolloutRequest([BOS], ROWS, policy.codec.max_tokens, seed=SEED))
        report.metrics[f"{kind}.tokens"] = float(sum(len(one.tokens) for one in drawn))
        for suffix, anchored in (("", False), (".anchor", True)):
            ours, bare = _medians(
                _ours(policy, drawn, anchored), _bare(policy, drawn, anchored), FULL if full else QUICK
            )
            overhead = ours / bare - 1
            report.metrics |= {
                f"{kind}{suffix}.seconds": ours,
                f"{kind}{suffix}.bare_seconds": bare,
                f"{kind}{suffix}.overhead": overhead,
            }
            say(f"{name}{suffix}: {ours:.3f} s against {bare:.3f} s, overhead {overhead:+.1%}")
        report.goals.append(Goal(f"{kind}.overhead", "<=", 0.15))
    return report


def _ours(policy: Policy, drawn: Sequence[Trajectory], anchored: bool) -> Step:
    policy, reference = copy.deepcopy(policy), policy
    config = LearningConfig(batch_size=ROWS, anchor=KLAnchor() if anchored else NoAnchor())
    batch = [
        (Due(row // GROUP, Member(row, row, one.version, 0.0, value=0.5), float(coefficient)), one)
        for row, (one, coefficient) in enumerate(zip(drawn, _coefficients(), strict=True))
    ]
    gauge, optimiser = DivergenceGauge(), _optimiser(policy.model)

    def step() -> None:
        gradient(policy, reference, gauge, batch, [], config)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def _bare(policy: Policy, drawn: Sequence[Trajectory], anchored: bool) -> Step:
    model, reference, coefficients = copy.deepcopy(policy.model), policy.model, _coefficients()
    optimiser = _optimiser(model)
    sequences = [torch.tensor([*one.prompt, *one.tokens]) for one in drawn]

    def step() -> None:
        tokens = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=PAD)
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        if anchored:
            with torch.no_grad():
                reference(input_ids=inputs).logits.log_softmax(-1)
        logp = model(input_ids=inputs).logits.log_softmax(-1).gather(-1, targets[..., None]).squeeze(-1)
        loss = -(coefficients[:, None] * logp * (targets != PAD)).sum() / ROWS
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def _coefficients() -> torch.Tensor:
    return torch.randn(ROWS, generator=torch.Generator().manual_seed(SEED))


def _optimiser(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.0)


def _medians(ours: Step, bare: Step, steps: int) -> tuple[float, float]:
    """Seconds a step of each, taking turns."""
    took: tuple[list[float], list[float]] = ([], [])
    for i in range(WARM_UP + steps):
        for seconds, step in zip(took, (ours, bare), strict=True):
            started = time.process_time()
            step()
            if i >= WARM_UP:
                seconds.append(time.process_time() - started)
    return statistics.median(took[0]), statistics.median(took[1])
