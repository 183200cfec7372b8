"""One gradient step on a batch of due coefficients: tensors in, dispositions and metrics out; no ledger here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from aliquot.domain import AliquotError, Tier, Trajectory
from aliquot.trainer.config import LearningConfig
from aliquot.trainer.correction import effective_sample_size, mismatch, truncated_weights
from aliquot.trainer.learning import DivergenceGauge, split_coefficient
from aliquot.trainer.learning.book import Due
from aliquot.trainer.losses import kl_to_reference, policy_gradient
from aliquot.trainer.policies import Policy
from aliquot.trainer.policies.scoring import Scores, score


class NonFiniteGradient(AliquotError):
    """A gradient that would destroy the policy."""


@dataclass(frozen=True)
class Learned:
    """What one step did with one due coefficient."""

    due: Due
    tier: Tier
    applied: float
    masked: float
    weight: float
    reason: str


def gradient_step(
    policy: Policy,
    reference: Policy,
    optimiser: torch.optim.Optimizer,
    gauge: DivergenceGauge,
    batch: Sequence[tuple[Due, Trajectory]],
    config: LearningConfig,
) -> tuple[list[Learned], dict[str, float]]:
    """Learn a batch and say what was done with each member.

    The tier of a member is that of its behaviour version, read from this batch and those before it. The learning rate
    is scaled by √(effective sample size / batch size), the square-root rule of adaptive optimisers (Malladi et al.
    2022) for a batch that is not full or whose weights are uneven.

    Raises:
        NonFiniteGradient: the gradient is infinite or not a number; nothing was learned and all stays due.
    """
    trajectories = [trajectory for _, trajectory in batch]
    scores = _score(policy, trajectories, config)
    with torch.no_grad():
        anchor_scores = score(reference, trajectories)
    own = []
    for row in range(len(trajectories)):
        d = (scores.logp.detach() - scores.logmu)[row][scores.mask[row]].double().clamp(-20, 20)
        own.append((float((d.exp() - d - 1).sum()), float(len(d))))
    for version in sorted({trajectory.version for trajectory in trajectories}):
        rows = [own[row] for row, trajectory in enumerate(trajectories) if trajectory.version == version]
        gauge.read(version, sum(k3 for k3, _ in rows), sum(tokens for _, tokens in rows))

    weights = truncated_weights(scores.logp, scores.logmu, scores.mask, config.correction)
    lengths = scores.mask.sum(-1)
    gaps = ((scores.logmu - scores.logp.detach()) * scores.mask).sum(-1) / lengths
    learned = []
    for row, (due, trajectory) in enumerate(batch):
        tier = config.tiers.tier(gauge.of(trajectory.version, *own[row]))
        member = due.member
        applied, masked, reason = split_coefficient(
            due.coefficient, member.applied, member.masked, tier, float(gaps[row]), config.tiers
        )
        weight = float(weights[row].sum() / lengths[row])
        learned.append(Learned(due, tier, applied, masked, weight, reason))

    coefficients = torch.tensor([item.applied for item in learned], dtype=torch.float32)
    loss = policy_gradient(scores.logp, weights, coefficients, config.batch_size)
    anchor = kl_to_reference(scores.vocabulary_logp, anchor_scores.vocabulary_logp, scores.mask, config.batch_size)
    optimiser.zero_grad(set_to_none=True)
    (loss + config.anchor.coefficient * anchor).backward()
    norm = torch.nn.utils.clip_grad_norm_(policy.model.parameters(), config.max_gradient_norm)

    metrics = mismatch(scores.logp, scores.logmu, scores.mask)
    live = coefficients != 0
    effective = effective_sample_size((weights.sum(-1) / lengths)[live])
    for group in optimiser.param_groups:
        group["lr"] = config.learning_rate * math.sqrt(effective * int(live.sum()) / config.batch_size)
    if not torch.isfinite(norm):
        raise NonFiniteGradient(
            f"the gradient of {len(batch)} samples is {float(norm)}; the parameters were left as they were. Resume "
            "from the last checkpoint with a lower `learning.learning_rate`"
        )
    optimiser.step()
    legal = torch.isfinite(scores.vocabulary_logp)
    p_log_p = torch.where(legal, scores.vocabulary_logp.exp() * scores.vocabulary_logp.masked_fill(~legal, 0.0), 0.0)
    metrics |= {
        "loss": float(loss.detach()),
        "anchor_kl": float(anchor.detach()),
        "entropy": float((-p_log_p.sum(-1) * scores.mask).sum().detach() / scores.mask.sum()),
        "gradient_norm": float(norm),
        "learning_rate": optimiser.param_groups[0]["lr"],
        "ess": effective,
        "truncated_fraction": float((weights[scores.mask] >= config.correction.cap).float().mean()),
        "masked_fraction": sum(item.masked != 0 for item in learned) / len(learned),
        "coefficient_mean_abs": float(coefficients.abs().mean()),
        "length": float(lengths.float().mean()),
    }
    if scores.overlap is not None:
        metrics["router_overlap"] = float(scores.overlap.mean())
    return learned, metrics


def _score(policy: Policy, trajectories: Sequence[Trajectory], config: LearningConfig) -> Scores:
    """Scores with recorded experts replayed, but natively for rows whose routing has moved too far."""
    if not config.routing.replay or all(trajectory.experts is None for trajectory in trajectories):
        return score(policy, trajectories)
    return score(policy, trajectories, replay=True, least_overlap=config.routing.least_overlap)
