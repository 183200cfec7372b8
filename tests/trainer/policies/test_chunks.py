"""Chunks of like length: nothing is lost or counted twice, little is padding, and the scores are those of one piece."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.domain import SequenceSpace, StopReason, Trajectory, VersionSpan
from aliquot.domain.spaces import BOS
from aliquot.trainer.policies import Dense, MoE, load_policy, score
from aliquot.trainer.policies.chunks import CHUNK, bucketed, score_chunks

SPACE = SequenceSpace(alphabet="dna", min_length=1, max_length=12)
DENSE = Dense(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=16, max_positions=16)
MIXTURE = MoE(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=8, experts=4, max_positions=16)
lengths = st.lists(st.integers(1, 300), min_size=1, max_size=9)


def cost(chunks: list[list[int]], of: list[int]) -> int:
    return sum(len(rows) * max(of[i] for i in rows) + CHUNK for rows in chunks)


@given(lengths, st.integers(1, 900))
@settings(deadline=None, max_examples=60)
def test_every_row_is_in_one_chunk_and_no_way_to_cut_the_batch_is_cheaper(of, most_tokens):
    chunks = bucketed(of, most_tokens)
    assert sorted(i for rows in chunks for i in rows) == list(range(len(of)))
    order = [i for rows in chunks for i in rows]
    assert [of[i] for i in order] == sorted(of)

    def fits(rows):
        return len(rows) == 1 or len(rows) * max(of[i] for i in rows) <= most_tokens

    assert all(map(fits, chunks))
    inner = range(1, len(of))
    ways = [
        [order[a:b] for a, b in pairwise([0, *cuts, len(of)])]
        for number in range(len(of))
        for cuts in combinations(inner, number)
    ]
    assert cost(chunks, of) == min(cost(way, of) for way in ways if all(map(fits, way)))


def test_like_lengths_stand_together_and_unlike_ones_apart():
    assert bucketed([100, 20, 100, 20, 100], 10_000) == [[1, 3], [0, 2, 4]]
    assert bucketed([100, 99, 98], 10_000) == [[2, 1, 0]]
    assert bucketed([10, 10, 10], 20) == [[0], [1, 2]]


def trajectories(shape: Dense | MoE) -> list[Trajectory]:
    """Of many lengths and two prompts, with foreign experts where there are any; one was drawn by nobody."""
    random, made = np.random.default_rng(0), []
    for row, length in enumerate([12, 2, 3, 11, 3, 2, 12, 1]):
        prompt = [BOS] if row % 3 else [BOS, 3]
        length = min(length, 13 - len(prompt))
        experts = None
        if isinstance(shape, MoE) and row != 4:
            scores = random.random((len(prompt) + length - 1, shape.layers, shape.experts))
            experts = scores.argsort(-1)[..., : shape.experts_per_token].astype(np.uint8)
        made.append(
            Trajectory(
                prompt=prompt,
                tokens=random.integers(3, 7, length),
                logprobs=-random.random(length, dtype=np.float32),
                versions=(VersionSpan(version=0, start=0, end=length),),
                experts=experts,
                engine="none" if row == 5 else "test",
                dtype="float32",
                stop=StopReason.LENGTH,
            )  # fmt: skip
        )
    return made


@pytest.mark.parametrize("most_tokens", [40, 10_000], ids=["scored twice", "kept"])
@pytest.mark.parametrize("shape", [DENSE, MIXTURE], ids=["dense", "moe"])
def test_scores_and_gradients_in_chunks_are_those_in_one_piece(shape, most_tokens, monkeypatch):
    monkeypatch.setattr("aliquot.trainer.policies.chunks.CHUNK", 1)
    policy, batch = load_policy("fresh", SPACE, shape, seed=0), trajectories(shape)
    options = {"replay": isinstance(shape, MoE)}
    pull = torch.randn(len(batch), 12, generator=torch.Generator().manual_seed(0))

    piece = score(policy, batch, **options)
    (piece.logp * pull).sum().backward()
    expected = [parameter.grad.clone() for parameter in policy.model.parameters()]
    policy.model.zero_grad()

    whole = score_chunks(policy, batch, most_tokens, **options)
    assert len(whole.chunks) > 2
    assert not whole.logp.requires_grad
    torch.testing.assert_close(whole.logp, piece.logp.detach(), atol=1e-6, rtol=0)
    assert torch.equal(whole.logmu, piece.logmu) and torch.equal(whole.mask, piece.mask)
    assert torch.equal(whole.keep, whole.mask)
    assert all((chunk.kept is not None) == (most_tokens > 1000) for chunk in whole.chunks)
    for chunk in whole.chunks:
        scores = chunk.scores()
        (scores.logp * pull[chunk.rows, : scores.logp.shape[1]]).sum().backward()
    for parameter, gradient in zip(policy.model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-5)


def test_tokens_entropy_and_who_drew_them_stand_in_the_order_of_the_batch():
    policy, batch = load_policy("fresh", SPACE, DENSE, seed=0), trajectories(DENSE)
    whole = score_chunks(policy, batch, 40)
    p = score(policy, batch).vocabulary_logp.detach().double().exp()
    for row, one in enumerate(batch):
        columns = range(len(one.prompt) - 1, len(one.prompt) - 1 + len(one.tokens))
        assert whole.mask[row].nonzero().flatten().tolist() == list(columns)
        assert whole.tokens[row][whole.mask[row]].tolist() == one.tokens.tolist()
        for column in columns:
            expected = -sum(float(x) * float(x.log()) for x in p[row, column] if x > 0)
            assert float(whole.entropy[row, column]) == pytest.approx(expected, abs=1e-5)
    assert not whole.entropy[~whole.mask].any() and not whole.tokens[~whole.mask].any()
    assert whole.drawn.tolist() == [row != 5 for row in range(len(batch))]


def test_another_policy_scores_the_rows_of_a_chunk_without_the_first_ones_replay():
    policy, reference = (load_policy("fresh", SPACE, MIXTURE, seed) for seed in (0, 1))
    batch = trajectories(MIXTURE)
    for chunk in score_chunks(policy, batch, 40, replay=True).chunks:
        alone = score(reference, [batch[row] for row in chunk.rows])
        assert torch.equal(chunk.scores_of(reference).logp, alone.logp)


def test_the_loads_of_all_chunks_count_each_token_that_was_fed():
    policy, batch = load_policy("fresh", SPACE, MIXTURE, seed=0), trajectories(MIXTURE)
    whole = score_chunks(policy, batch, 40, replay=True)
    fed = sum(len(one.prompt) + len(one.tokens) - 1 for one in batch)
    assert whole.loads.sum(-1).tolist() == [fed * MIXTURE.experts_per_token] * MIXTURE.layers
