"""Scores of sealed trajectories: each token's own log-probability, whatever stands beside it in the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aliquot.domain import Sampling, SequenceSpace, StopReason, Trajectory, VersionSpan
from aliquot.domain.spaces import BOS, EOS
from aliquot.trainer.policies import Dense, MoE, load_policy, score
from aliquot.trainer.routing import Recording, RoutingError, routed

SPACE = SequenceSpace(alphabet="dna", min_length=1, max_length=8)
DENSE = Dense(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=16, max_positions=16)
MIXTURE = MoE(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=8, experts=4, max_positions=16)


def trajectory(prompt, tokens, experts=None, temperature=1.0) -> Trajectory:
    return Trajectory(
        prompt=prompt, tokens=tokens, logprobs=-np.arange(1, len(tokens) + 1, dtype=np.float32),
        versions=(VersionSpan(version=0, start=0, end=len(tokens)),), experts=experts,
        sampling=Sampling(temperature=temperature), engine="test", dtype="float32", stop=StopReason.LENGTH,
    )  # fmt: skip


def test_scores_are_the_log_softmax_of_each_sequence_alone():
    policy = load_policy("fresh", SPACE, DENSE, seed=0)
    batch = [
        trajectory([BOS], [3, 4, 5, EOS]),
        trajectory([BOS, 6, 6], [5, 3], temperature=2.0),
        trajectory([BOS], [EOS + 1] * 8),
    ]
    scores = score(policy, batch)
    assert scores.logp.shape == scores.logmu.shape == scores.mask.shape == (3, 8)
    for row, t in enumerate(batch):
        whole = [*t.prompt.tolist(), *t.tokens.tolist()]
        logits = policy.model(input_ids=torch.tensor([whole])).logits[0].double() / t.sampling.temperature
        columns = range(len(t.prompt) - 1, len(whole) - 1)
        for column, sealed in zip(columns, t.logprobs, strict=True):
            allowed = policy.legal[min(column, len(policy.legal) - 1)]
            expected = logits[column, whole[column + 1]] - logits[column][allowed].logsumexp(0)
            assert scores.logp[row, column].item() == pytest.approx(expected.item(), abs=1e-5)
            assert float(scores.logmu[row, column]) == sealed
        outside = ~scores.mask[row]
        assert scores.mask[row].nonzero().flatten().tolist() == list(columns)
        assert not scores.logp[row][outside].any() and not scores.logmu[row][outside].any()


def test_every_row_of_the_vocabulary_distribution_sums_to_one():
    policy = load_policy("fresh", SPACE, DENSE, seed=0)
    total = score(policy, [trajectory([BOS], [3, 4]), trajectory([BOS], [3] * 8)]).vocabulary_logp.exp().sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_gradients_reach_the_policy_and_are_finite():
    policy = load_policy("fresh", SPACE, DENSE, seed=0)
    score(policy, [trajectory([BOS], [3, 4, EOS]), trajectory([BOS], [5] * 8)]).logp.sum().backward()
    gradients = [p.grad for p in policy.model.parameters()]
    assert all(g is not None and torch.isfinite(g).all() for g in gradients)


def own_experts(policy, prompt, tokens) -> np.ndarray:
    recording = Recording()
    routed(policy.model, recording, input_ids=torch.tensor([[*prompt, *tokens][:-1]]))
    return recording.ids().numpy().astype(np.uint8)


def overlap(scores) -> torch.Tensor:
    """Share of the recorded experts that the live router would choose too, of each row with a recording."""
    share = scores.routing.overlap().flatten(1).nanmean(1)
    return share[~share.isnan()]


def test_replaying_own_experts_scores_as_native_routing_does():
    policy = load_policy("fresh", SPACE, MIXTURE, seed=0)
    bodies = [[3, 4, 5, EOS], [6, 3]]
    batch = [trajectory([BOS], body, own_experts(policy, [BOS], body)) for body in bodies]
    replayed, native = score(policy, batch, replay=True), score(policy, batch)
    torch.testing.assert_close(replayed.logp, native.logp, atol=1e-6, rtol=0)
    assert native.routing is None
    assert overlap(replayed).tolist() == pytest.approx([1.0, 1.0], abs=0.2)


def test_a_row_whose_routing_has_moved_too_far_falls_back_and_the_others_do_not():
    policy = load_policy("fresh", SPACE, MIXTURE, seed=0)
    body = [3, 4, 5, EOS]
    own = own_experts(policy, [BOS], body)
    foreign = np.stack([np.setdiff1d(np.arange(4), row) for row in own.reshape(-1, 2)]).reshape(own.shape)
    mixed = own.copy()
    mixed[:, 1] = foreign[:, 1]
    batch = [trajectory([BOS], body, ids.astype(np.uint8)) for ids in (foreign, mixed)] + [trajectory([BOS], body)]
    native = score(policy, [trajectory([BOS], body)]).logp[0]
    kept, fallen = score(policy, batch, replay=True), score(policy, batch, replay=True, least_overlap=0.3)
    assert len(overlap(kept)) == 2 and len(overlap(fallen)) == 1
    assert float(overlap(kept)[0]) < 0.3 < float(overlap(kept)[1])
    assert not torch.allclose(kept.logp[0], native, atol=1e-4)
    torch.testing.assert_close(fallen.logp[0], native, atol=1e-6, rtol=0)
    torch.testing.assert_close(fallen.logp[1], kept.logp[1], atol=1e-6, rtol=0)
    torch.testing.assert_close(kept.logp[2], native, atol=1e-6, rtol=0)


def test_a_dense_policy_has_nothing_to_replay():
    with pytest.raises(RoutingError, match="switch router replay off"):
        score(load_policy("fresh", SPACE, DENSE, seed=0), [trajectory([BOS], [3, EOS])], replay=True)
