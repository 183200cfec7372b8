"""How good a prior is: validity, uniqueness, novelty, diversity and expert balance of free samples.

Samples are drawn at temperature 1 without truncation, so the numbers speak of the policy that a campaign starts from.
Definitions follow MOSES (Polykovskiy et al. 2020, https://arxiv.org/abs/1811.12823).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from aliquot.domain import InvalidDesign, Noun, Trajectory
from aliquot.domain.spaces import BOS
from aliquot.trainer.policies import Policy
from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine
from aliquot.trainer.routing import RoutingShape

DIVERSITY_SAMPLE = 2_000
"""Molecules whose pairwise similarities are averaged."""
DEAD_SHARE = 0.01
"""An expert with less than this part of an even load is dead."""


class LayerLoad(Noun):
    """How the tokens of one MoE layer were spread over its experts."""

    share: tuple[float, ...]
    """Fraction of the layer's assignments that went to each expert; sums to 1."""
    dead: tuple[int, ...]
    """Experts with less than one hundredth of an even load."""
    imbalance: float
    """Largest load divided by the mean load; 1 is even."""


class Evaluation(Noun):
    """What free samples of a prior are like."""

    samples: int
    validity: float = Field(ge=0, le=1)
    """Share of the samples that name a molecule of the space."""
    uniqueness: float = Field(ge=0, le=1)
    """Share of the valid ones that differ by canonical SMILES."""
    novelty: float = Field(ge=0, le=1)
    """Share of the unique ones that the corpus does not hold."""
    internal_diversity: float = Field(ge=0, le=1)
    """1 − mean Tanimoto similarity of pairs (Morgan fingerprints, radius 2, 2,048 bits)."""
    mean_tokens: float
    """Tokens a sample, `<eos>` included."""
    experts: tuple[LayerLoad, ...] = ()
    """By MoE layer; empty for a dense model."""


def evaluate(policy: Policy, known: set[str], samples: int, seed: int) -> Evaluation:
    """Draw free samples and judge them.

    Args:
        policy: over a molecule space.
        known: canonical SMILES of the corpus.
    """
    engine = TorchRolloutEngine(policy)
    trajectories = engine.generate(RolloutRequest([BOS], samples, policy.codec.max_tokens, seed))
    valid = []
    for trajectory in trajectories:
        try:
            valid.append(str(policy.codec.decode(trajectory.tokens.tolist()).value))
        except InvalidDesign:
            continue
    unique = list(dict.fromkeys(valid))
    return Evaluation(
        samples=samples,
        validity=len(valid) / samples,
        uniqueness=len(unique) / max(1, len(valid)),
        novelty=sum(smiles not in known for smiles in unique) / max(1, len(unique)),
        internal_diversity=internal_diversity(unique[:DIVERSITY_SAMPLE]),
        mean_tokens=float(np.mean([len(t.tokens) for t in trajectories])),
        experts=expert_load(trajectories, policy.routing) if policy.routing else (),
    )


def internal_diversity(molecules: Sequence[str]) -> float:
    """1 − mean Tanimoto similarity over all pairs of different molecules; 0 for fewer than two."""
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    if len(molecules) < 2:
        return 0.0
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    bits = np.stack([generator.GetFingerprintAsNumPy(Chem.MolFromSmiles(smiles)) for smiles in molecules])
    bits = bits.astype(np.float32)
    both, count = bits @ bits.T, bits.sum(1)
    similarity = both / (count[:, None] + count[None, :] - both)
    pairs = np.triu_indices(len(molecules), k=1)
    return float(1 - similarity[pairs].mean())


def expert_load(trajectories: Sequence[Trajectory], routing: RoutingShape) -> tuple[LayerLoad, ...]:
    """Load of each expert, by MoE layer, over every token that was fed."""
    ids = np.concatenate([t.experts for t in trajectories if t.experts is not None])
    loads = []
    for layer in range(routing.layers):
        counts = np.bincount(ids[:, layer].ravel(), minlength=routing.experts)
        share = counts / counts.sum()
        dead = np.flatnonzero(share * routing.experts < DEAD_SHARE)
        loads.append(
            LayerLoad(
                share=tuple(float(x) for x in share),
                dead=tuple(int(x) for x in dead),
                imbalance=float(share.max() * routing.experts),
            )
        )
    return tuple(loads)
