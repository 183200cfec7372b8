"""The numbers of a model card, against counts by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

import aliquot.trainer.pretraining.evaluate as module
from aliquot.domain import MoleculeSpace, StopReason, Trajectory, VersionSpan
from aliquot.domain.spaces import BOS
from aliquot.trainer.policies import load_policy
from aliquot.trainer.pretraining.evaluate import evaluate, expert_load, internal_diversity
from aliquot.trainer.routing import RoutingShape


def trajectory(tokens, experts=None) -> Trajectory:
    return Trajectory(
        prompt=[BOS], tokens=tokens, logprobs=np.full(len(tokens), -1.0, np.float32),
        versions=(VersionSpan(version=0, start=0, end=len(tokens)),), experts=experts, engine="test", dtype="float32",
        stop=StopReason.EOS,
    )  # fmt: skip


def test_validity_uniqueness_and_novelty_count_what_they_say(monkeypatch):
    """Six samples: five valid, of which two name ethanol; of the four different ones, one is in the corpus."""
    policy = load_policy("fresh", MoleculeSpace(), None, seed=0)
    texts = ["CCO", "OCC", "CCN", "c1ccccc1", "CC(=O)O", "C1CC"]
    drawn = [trajectory(policy.codec.encode_text(text)) for text in texts]
    monkeypatch.setattr(module, "TorchRolloutEngine", lambda policy: SimpleNamespace(generate=lambda request: drawn))
    found = evaluate(policy, {"CCN", "CCCC"}, samples=6, seed=0)
    assert found.validity == pytest.approx(5 / 6)
    assert found.uniqueness == pytest.approx(4 / 5)
    assert found.novelty == pytest.approx(3 / 4)
    assert found.mean_tokens == pytest.approx(np.mean([4, 4, 4, 9, 8, 5]))
    assert found.experts == ()


def test_an_untrained_policy_is_evaluated_without_a_valid_sample():
    found = evaluate(load_policy("fresh", MoleculeSpace(max_tokens=8), None, seed=0), set(), samples=3, seed=1)
    assert 0 <= found.validity <= 1 and 0 <= found.internal_diversity <= 1


def test_internal_diversity_agrees_with_rdkit():
    molecules = ["CCO", "CCN", "c1ccccc1O", "CC(=O)Nc1ccccc1"]
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = [generator.GetFingerprint(Chem.MolFromSmiles(smiles)) for smiles in molecules]
    pairs = [DataStructs.TanimotoSimilarity(a, b) for i, a in enumerate(prints) for b in prints[i + 1 :]]
    assert internal_diversity(molecules) == pytest.approx(1 - np.mean(pairs), abs=1e-6)
    assert internal_diversity(["CCO"]) == 0


def test_load_imbalance_and_dead_experts_by_layer():
    """Layer 0 spreads four tokens evenly over four experts; layer 1 never leaves experts 0 and 1."""
    ids = np.array([[[0, 1], [0, 1]], [[2, 3], [0, 1]], [[0, 2], [1, 0]], [[1, 3], [1, 0]]], dtype=np.uint8)
    even, skewed = expert_load([trajectory([3] * 4, ids)], RoutingShape(layers=2, top_k=2, experts=4))
    assert even.share == (0.25, 0.25, 0.25, 0.25) and even.imbalance == 1 and even.dead == ()
    assert skewed.share == (0.5, 0.5, 0, 0) and skewed.imbalance == 2 and skewed.dead == (2, 3)
