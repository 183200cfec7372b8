"""One gradient on a batch of due coefficients and of what is reused: tensors in, dispositions and metrics out.

The whole batch is scored in chunks of like length, then every weight, mask, tier and loss is computed over the whole
batch as a function of log π alone, and the gradient with respect to log π is carried back through the chunks. So a
batch that does not fit in memory gets the gradient that it would have had in one piece, whatever loss it is under
(gradient caching: Gao et al. 2021, https://arxiv.org/abs/2101.06983).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from aliquot.domain import Tier, Trajectory
from aliquot.trainer.anchors import AnchorInputs
from aliquot.trainer.batch import Reused
from aliquot.trainer.config import LearningConfig
from aliquot.trainer.correction import Truncated, diagnose, effective_sample_size
from aliquot.trainer.learning import DivergenceGauge, split_coefficient
from aliquot.trainer.learning.members import Due
from aliquot.trainer.losses import LossInputs, Reinforce
from aliquot.trainer.policies import Policy
from aliquot.trainer.policies.chunks import Scored, score_chunks
from aliquot.trainer.routing import balance_loss


@dataclass(frozen=True)
class Learned:
    """What one step did with one due coefficient."""

    due: Due
    tier: Tier | None
    applied: float
    masked: float
    weight: float
    reason: str


@dataclass(frozen=True)
class Gradient:
    """A gradient that stands in the parameters' `.grad`, and what a step along it would do."""

    learned: list[Learned]
    metrics: dict[str, float]
    scale: float
    """What the learning rate is multiplied by."""
    loads: Tensor | None
    """int64 [MoE layers, experts], native assignments of the batch; None for a dense policy."""


def gradient(
    policy: Policy,
    reference: Policy,
    gauge: DivergenceGauge,
    batch: Sequence[tuple[Due, Trajectory]],
    reused: Sequence[Reused],
    config: LearningConfig,
) -> Gradient:
    """Fill the parameters' gradients, clipped to the greatest norm.

    The tier of a member is that of its behaviour version, read from this batch and those before it. The learning rate
    shall be scaled by √(effective sample size / batch size), the square-root rule of adaptive optimisers (Malladi et
    al. 2022) for a batch that is not full or whose weights are uneven.
    """
    trajectories = [trajectory for _, trajectory in batch] + [one.trajectory for one in reused]
    replay = config.routing.replay and policy.routing is not None
    options = {"replay": replay, "least_overlap": config.routing.least_overlap, "observe": policy.routing is not None}
    scored = score_chunks(policy, trajectories, config.micro_batch_tokens, **options)
    learned, first, back, weights = _decide(scored, batch, gauge, config)
    norm, parts = _backward(policy, reference, scored, learned, reused, first, back, weights, config)

    rows = scored.drawn[: len(batch)].nonzero().flatten()
    lengths = scored.mask.sum(-1)
    live = rows[(first + back)[rows] != 0]
    effective = effective_sample_size(weights[live].sum(-1) / lengths[live])
    metrics = _diagnosed(scored, rows, weights, first, config) | parts | scored.routing
    metrics |= {
        "gradient_norm": norm,
        "ess": effective,
        "masked_fraction": sum(item.masked != 0 for item in learned) / max(1, len(learned)),
        "coefficient_mean_abs": float((first + back).abs().mean()) if len(learned) else 0.0,
        "length": float(lengths.float().mean()),
        "drift": _drift(learned),
        "reused": float(len(reused)),
    }
    share = (len(live) * effective + len(reused)) / config.batch_size
    return Gradient(learned, metrics, math.sqrt(min(1.0, share)), scored.loads)


def _decide(
    scored: Scored, batch: Sequence[tuple[Due, Trajectory]], gauge: DivergenceGauge, config: LearningConfig
) -> tuple[list[Learned], Tensor, Tensor, Tensor]:
    """(what is done with each due, first coefficients [due], what is taken back [due], weights [all, time])."""
    weights = config.correction.weights(scored.logp, scored.logmu, scored.mask)
    weights = torch.where(scored.drawn[:, None], weights, scored.mask.float())
    own = _k3(scored)
    rows = range(len(batch))
    for version in sorted({t.version for row, (_, t) in enumerate(batch) if scored.drawn[row]}):
        same = [own[row] for row in rows if scored.drawn[row] and batch[row][1].version == version]
        gauge.read(version, sum(k3 for k3, _ in same), sum(tokens for _, tokens in same))

    replace = config.revisions == "replace"
    tiers: list[Tier | None] = []
    parts: list[tuple[float, float, float, str]] = []
    for row, (due, trajectory) in enumerate(batch):
        if not scored.drawn[row]:
            tiers.append(None)
            parts.append((0.0, 0.0, due.coefficient, "not drawn by a policy: nothing to weigh it by"))
            continue
        member, tier = due.member, config.tiers.tier(gauge.of(trajectory.version, *own[row]))
        tiers.append(tier)
        parts.append(split_coefficient(due.coefficient, member.applied, member.masked, tier, replace))
    first = torch.tensor([one[1] for one in parts])
    back = torch.tensor([one[0] + due.taken_back for one, (due, _) in zip(parts, batch, strict=True)])
    scored.keep[: len(batch)] = _kept(scored, first, tiers, config)

    learned = []
    share = scored.keep.sum(-1) / scored.mask.sum(-1)
    for row, ((due, _), its, (unlearn, new, masked, reason)) in enumerate(zip(batch, tiers, parts, strict=True)):
        kept = new * float(share[row])
        if kept != new:
            reason = "; ".join(filter(None, [reason, "held back by a mask"]))
        weight = float(weights[row].sum() / scored.mask[row].sum())
        learned.append(Learned(due, its, unlearn + kept, masked + new - kept, weight, reason))
    return learned, first, back, weights


def _kept(scored: Scored, first: Tensor, tiers: Sequence[Tier | None], config: LearningConfig) -> Tensor:
    """bool [due, time]: what masks leave of first coefficients, those of old samples under one more mask."""
    rows = slice(0, len(first))
    inside = (scored.logp[rows], scored.logmu[rows], scored.mask[rows], first)
    keep = scored.mask[rows].clone()
    for mask in config.masks:
        keep &= mask.keep(*inside)
    old = torch.tensor([tier is Tier.OLD for tier in tiers], dtype=torch.bool)
    if old.any():
        keep[old] &= config.tiers.old_mask.keep(*(tensor[old] for tensor in inside))
    return keep


def _backward(
    policy: Policy, reference: Policy, scored: Scored, learned: Sequence[Learned],
    reused: Sequence[Reused], first: Tensor, back: Tensor, weights: Tensor, config: LearningConfig,
) -> tuple[float, dict[str, float]]:  # fmt: skip
    """(norm before clipping, parts of the loss): gradients now stand in the parameters."""
    leaf = scored.logp.clone().requires_grad_()
    groups = torch.tensor([item.due.group_id for item in learned] + [one.group_id for one in reused])

    def inputs(rows: Sequence[int], coefficients: Tensor, within: Tensor, shaping: Tensor | None = None) -> LossInputs:
        return LossInputs(
            logp=leaf[rows], logmu=scored.logmu[rows], logold=scored.logp[rows], mask=scored.mask[rows],
            weights=within, coefficients=coefficients, groups=groups[rows], batch_size=config.batch_size,
            horizon=policy.codec.max_tokens, shaping=shaping,
        )  # fmt: skip

    dues = list(range(len(learned)))
    fresh = torch.tensor([not item.due.member.disposed and item.tier not in (None, Tier.ANCIENT) for item in learned])
    shaping = torch.zeros_like(scored.logp[dues])
    for one in config.shaping:
        shaping = shaping + one(scored.tokens[dues], scored.mask[dues]) * fresh[:, None]
    total, metrics = config.loss(inputs(dues, first, weights[dues] * scored.keep[dues], shaping))
    total = total + _taken_back(config, scored, inputs, dues, back, weights)
    for kind, loss in dict.fromkeys((one.kind, one.loss) for one in reused):
        rows = [len(learned) + i for i, one in enumerate(reused) if (one.kind, one.loss) == (kind, loss)]
        coefficients = torch.tensor([reused[row - len(learned)].coefficient for row in rows], dtype=torch.float32)
        inside = scored.mask[rows].float() if loss and loss.anchored_at == "behaviour" else weights[rows]
        total = total + (loss or Reinforce())(inputs(rows, coefficients, inside))[0]
    total.backward()
    assert leaf.grad is not None

    values = [item.due.member.value for item in learned] + [one.member.value for one in reused]
    known = torch.tensor([math.nan if value is None else value for value in values])
    for chunk in scored.chunks:
        scores = chunk.scores()
        through = (scores.logp * leaf.grad[chunk.rows, : scores.logp.shape[1]]).sum()
        if config.anchor.type != "none":
            anchor, found = config.anchor(_anchor_inputs(reference, chunk, scores, known, config))
            through = through + anchor
            metrics |= {name: metrics.get(name, 0.0) + value for name, value in found.items()}
        if config.routing.balance and scores.routing is not None:
            uneven = balance_loss(scores.routing, scores.counted, scored.loads)
            through = through + config.routing.balance * uneven * len(scored.mask) / config.batch_size
        through.backward()
    norm = torch.nn.utils.clip_grad_norm_(
        [p for p in policy.model.parameters() if p.requires_grad], config.max_gradient_norm
    )
    return float(norm), metrics | {"loss": float(total.detach())}


def _taken_back(
    config: LearningConfig, scored: Scored, inputs, dues: list[int], back: Tensor, weights: Tensor
) -> Tensor:
    """Un-learning: by the loss itself where it is linear, else by the policy gradient, truncated but never clipped."""
    if config.loss.revisable:
        return config.loss(inputs(dues, back, weights[dues]))[0]
    if config.loss.anchored_at == "behaviour":
        weights = Truncated().weights(scored.logp, scored.logmu, scored.mask)
    return Reinforce()(inputs(dues, back, weights[dues]))[0]


def _anchor_inputs(reference: Policy, chunk, scores, known: Tensor, config: LearningConfig) -> AnchorInputs:
    with torch.no_grad():
        prior = chunk.scores_of(reference)
    return AnchorInputs(
        vocabulary_logp=scores.vocabulary_logp, reference_vocabulary_logp=prior.vocabulary_logp, logp=scores.logp,
        reference_logp=prior.logp, mask=scores.mask, values=known[chunk.rows], batch_size=config.batch_size,
    )  # fmt: skip


def _diagnosed(
    scored: Scored, rows: Tensor, weights: Tensor, first: Tensor, config: LearningConfig
) -> dict[str, float]:
    logp, logmu, mask = scored.logp[rows], scored.logmu[rows], scored.mask[rows]
    entropy = float(scored.entropy.sum() / scored.mask.sum())
    found = diagnose(
        logp, logmu, mask, weights=weights[rows], truncated=config.correction.truncated(logp, logmu, mask),
        keep=scored.keep[rows], coefficients=first[rows], entropy=entropy,
    )  # fmt: skip
    return found | {"entropy": entropy}


def _k3(scored: Scored) -> list[tuple[float, float]]:
    """(Σ k3, tokens) of each row."""
    d = torch.where(scored.mask, scored.logp - scored.logmu, 0.0).double().clamp(-20, 20)
    return list(zip((d.exp() - d - 1).sum(-1).tolist(), scored.mask.sum(-1).double().tolist(), strict=True))


def _drift(learned: Sequence[Learned]) -> float:
    """Σ |coefficient taken back| · |weight now − weight when it was learned|: how far un-learning misses what was
    learned, since the parameters have moved; weights of before this process began are not known."""
    return sum(
        min(abs(item.applied), abs(item.due.member.applied)) * abs(item.weight - item.due.member.weight)
        for item in learned
        if item.due.member.weight is not None and item.applied * item.due.member.applied < 0
    )
