"""How far is the trainer from the sampler, for no other reason than arithmetic?

The shipped policies are sampled by the torch engine in bfloat16 and scored as the trainer scores, in float32, with the
same weights: the dense one, the mixture of experts with its routers choosing anew, and the mixture with the recorded
experts replayed (R3). What differs is measured per token: KL(rollout‖train) by k3, the mean absolute log-ratio, the
share of log-ratios beyond ln 2, and how often a live router would choose another set of experts than was recorded.

Ratios are geometric means over seeds. k3 has a heavy tail: in a mixture without replay, most of it comes from one token
in a thousand, so a seed is thousands of tokens and an interval is wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from aliquot.domain import MoleculeSpace, Trajectory
from aliquot.domain.spaces import BOS
from aliquot.trainer.correction import mismatch
from aliquot.trainer.policies import Policy, load_policy, score
from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine
from aliquot.trainer.routing import Recording, Replay, routed
from benchmarks.harness import Goal, Report, interval

SEEDS = (0, 1, 2, 3, 4, 5, 6, 7)
SAMPLES = 768
"""Molecules a seed, about 38 tokens each."""
CHUNK = 128
MEASURES = ("kl_k3", "log_ratio_mean", "extreme_fraction")


def run(full: bool, say: Callable[[str], None]) -> Report:
    report = Report("mismatch", seeds=list(SEEDS if full else SEEDS[:4]))
    dense, mixture = (load_policy(name, MoleculeSpace(), None, 0) for name in ("zinc-dense", "zinc-moe"))
    found: dict[str, list[float]] = {}
    for seed in report.seeds:
        drawn, routed_draws = _sampled(dense, seed), _sampled(mixture, seed)
        for name, values in (
            ("dense", _mismatch(dense, drawn, replay=False)),
            ("moe_native", _mismatch(mixture, routed_draws, replay=False)),
            ("moe_r3", _mismatch(mixture, routed_draws, replay=True)),
            ("moe", {"router_flip_rate": _flip_rate(mixture, routed_draws)}),
        ):
            for measure, value in values.items():
                found.setdefault(f"{name}.{measure}", []).append(value)
        native, replayed, alone = (found[f"{name}.kl_k3"][-1] for name in ("moe_native", "moe_r3", "dense"))
        found.setdefault("native_over_r3", []).append(native / replayed)
        found.setdefault("r3_over_dense", []).append(replayed / alone)
        say(f"seed {seed}: KL dense {alone:.2e}, MoE native {native:.2e}, MoE with R3 {replayed:.2e}")
    for name, values in found.items():
        if "over" in name:
            mean, low, high = (math.exp(x) for x in interval([math.log(value) for value in values]))
        else:
            mean, low, high = interval(values)
        report.metrics |= {name: mean, f"{name}.low": low, f"{name}.high": high}
    report.goals = [Goal("r3_over_dense", "<=", 1.0), Goal("native_over_r3", ">=", 5.0)]
    return report


def _sampled(policy: Policy, seed: int) -> list[Trajectory]:
    """Shortest first, so that a chunk has little padding."""
    engine = TorchRolloutEngine(policy, dtype=torch.bfloat16)
    request = RolloutRequest([BOS], SAMPLES, policy.codec.max_tokens, seed)
    return sorted(engine.generate(request), key=lambda trajectory: len(trajectory.tokens))


@torch.no_grad()
def _mismatch(policy: Policy, trajectories: Sequence[Trajectory], replay: bool) -> dict[str, float]:
    logp, logmu = [], []
    for chunk in _chunks(trajectories):
        scores = score(policy, chunk, replay=replay)
        logp.append(scores.logp[scores.mask])
        logmu.append(scores.logmu[scores.mask])
    tokens = torch.cat(logp)[None], torch.cat(logmu)[None]
    values = mismatch(*tokens, torch.ones_like(tokens[0], dtype=torch.bool))
    return {name: values[name] for name in MEASURES}


@torch.no_grad()
def _flip_rate(policy: Policy, trajectories: Sequence[Trajectory]) -> float:
    """Share of (token, layer) at which the trainer's router, left alone, chooses another set of experts."""
    assert policy.routing is not None
    flips = total = 0
    for chunk in _chunks(trajectories):
        recorded, live = Replay.of(chunk, policy.routing), Recording()
        longest = recorded.recorded.shape[1]
        inputs = torch.zeros(len(chunk), longest, dtype=torch.int64)
        for row, t in enumerate(chunk):
            whole = torch.tensor([*t.prompt.tolist(), *t.tokens.tolist()][:-1])
            inputs[row, : len(whole)] = whole
        routed(policy.model, live, input_ids=inputs)
        chosen = live.ids().unflatten(0, inputs.shape).sort(-1).values
        differs = (chosen != recorded.recorded_ids.sort(-1).values).any(-1)[recorded.recorded]
        flips, total = flips + int(differs.sum()), total + differs.numel()
    return flips / total


def _chunks(trajectories: Sequence[Trajectory]) -> list[Sequence[Trajectory]]:
    return [trajectories[start : start + CHUNK] for start in range(0, len(trajectories), CHUNK)]
