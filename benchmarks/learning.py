"""Does the policy learn, or does the campaign only select?

For each seed the drug-like example campaign is run twice, with learning on and off. Then the policy that each run
ended with is sampled afresh, unselected, at temperature 1 without truncation, and every sample gets the reward that a
perfect laboratory would have given it: the objective of the noise-free assays and the verifiers' scores, or the floor
when it is invalid or a verifier refuses it. The effect is the difference of the two means over the standard deviation
of the untrained policy's rewards.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from aliquot.campaigns.load import load
from aliquot.campaigns.run import CampaignRun
from aliquot.campaigns.spec import CampaignSpec
from aliquot.clock import VirtualClock
from aliquot.domain import InvalidDesign
from aliquot.domain.spaces import BOS
from aliquot.lab_adapters import create_lab
from aliquot.ledger import lineages as branches
from aliquot.trainer.policies import load_policy, read_weights
from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine
from aliquot.verifiers.ladder import VerifierLadder
from benchmarks.harness import Goal, Report, interval

CAMPAIGN = Path(__file__).parents[1] / "examples" / "campaigns" / "druglike.yaml"
SEEDS = (0, 1, 2, 3, 4)
SAMPLES = 1024
STATEFUL = ("diversity", "novelty")
"""Verifiers with a memory: they judge a campaign's history, not a sample."""


def run(full: bool, say: Callable[[str], None]) -> Report:
    report = Report("learning", seeds=list(SEEDS if full else SEEDS[:3]))
    effects, accepted_effects = [], []
    for seed in report.seeds:
        rewards = {}
        for learning in (False, True):
            spec = load(CAMPAIGN, [f"seed={seed}", f"learning.enabled={str(learning).lower()}"])
            rewards[learning] = _rewards(spec, _weights_after(spec), seed=10_000 + seed)
        off, on = rewards[False], rewards[True]
        deviation = off["reward"].std()
        effects.append(float((on["reward"].mean() - off["reward"].mean()) / deviation))
        inside = {k: r["reward"][r["accepted"]] for k, r in rewards.items()}
        accepted_effects.append(float((inside[True].mean() - inside[False].mean()) / inside[False].std()))
        for name, found in (("off", off), ("on", on)):
            report.metrics[f"seed{seed}.{name}.reward"] = float(found["reward"].mean())
            report.metrics[f"seed{seed}.{name}.validity"] = float(found["valid"].mean())
            report.metrics[f"seed{seed}.{name}.unique"] = found["unique"]
        report.metrics[f"seed{seed}.effect"] = effects[-1]
        say(f"seed {seed}: {off['reward'].mean():.3f} → {on['reward'].mean():.3f}, effect {effects[-1]:.2f} sd")
    for name, values in (("effect", effects), ("effect_among_accepted", accepted_effects)):
        mean, low, high = interval(values)
        report.metrics |= {name: mean, f"{name}.low": low, f"{name}.high": high}
    report.metrics["validity"] = min(report.metrics[f"seed{seed}.on.validity"] for seed in report.seeds)
    report.goals = [Goal("effect", ">=", 0.5), Goal("effect.low", ">=", 0.0), Goal("validity", ">=", 0.9)]
    return report


def _weights_after(spec: CampaignSpec) -> dict:
    """The newest weights that a run of the campaign leaves."""
    with tempfile.TemporaryDirectory() as folder, CampaignRun.create(spec, Path(folder) / "run") as campaign:
        campaign.run(lambda _: None, threading.Event())
        with campaign.ledger.read() as session:
            newest = branches.newest_version(session, campaign.campaign_id)
        assert newest is not None
        return read_weights(campaign.folder / "weights" / newest.weights)


def _rewards(spec: CampaignSpec, weights: dict, seed: int) -> dict:
    """Rewards of unselected samples as a perfect laboratory would give them."""
    codec, objective = spec.space.codec(), spec.objective
    engine = TorchRolloutEngine(load_policy(spec.policy.init, spec.space, spec.policy.architecture, spec.seed))
    engine.update_weights(weights, 1)
    designs, valid = [], []
    for trajectory in engine.generate(RolloutRequest([BOS], SAMPLES, codec.max_tokens, seed)):
        try:
            designs.append(codec.decode(trajectory.tokens.tolist()))
            valid.append(True)
        except InvalidDesign:
            valid.append(False)
    lab = create_lab(spec.lab.type, spec.lab.config, VirtualClock())
    pointwise = tuple(ref for ref in spec.verifiers if ref.type not in STATEFUL)
    rewards, accepted = [], []
    with VerifierLadder(pointwise, kind=spec.space.type) as ladder:
        for design, judgement in zip(designs, ladder.verify(designs), strict=True):
            accepted.append(bool(judgement.accepted))
            scores = {name: v.score for name, v in judgement.verdicts.items() if v.score is not None}
            known = lab.true_value(design) | scores if judgement.accepted else None
            rewards.append(float(objective.value(known)) if known else objective.floor)
    lab.close()
    invalid = valid.count(False)
    return {
        "reward": np.array(rewards + [objective.floor] * invalid),
        "accepted": np.array(accepted + [False] * invalid),
        "valid": np.array(valid),
        "unique": len({d.key for d in designs}) / max(1, len(designs)),
    }
