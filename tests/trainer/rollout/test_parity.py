"""Sampler and trainer agree bit for bit when the trainer repeats what the sampler did."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aliquot.domain import Sampling, SequenceSpace, VersionSpan
from aliquot.domain.spaces import BOS
from aliquot.trainer.policies import Policy, score
from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine
from aliquot.trainer.rollout.parity import ParityError, first_difference, stepwise_logprobs

SPACE = SequenceSpace(alphabet="dna", min_length=4, max_length=11)
NEW, PROMPT = 6, (BOS, 3, 6)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])


@pytest.fixture
def policy_of(tiny_model):
    def make(family: str) -> Policy:
        width = {"intermediate_size": 16, "moe_intermediate_size": 16}  # of an expert: what a bfloat16 kernel asks for
        model = tiny_model(family, len(SPACE.codec().vocabulary), num_hidden_layers=2, **width)
        return Policy.of(model, SPACE.codec(), family)

    return make


def drawn(policy, dtype=torch.float32, batch_size=5, samples=14, sampling=None):
    """Slots are used again and given up on the way; some samples end by themselves, some at the limit."""
    engine = TorchRolloutEngine(policy, version=3, batch_size=batch_size, dtype=dtype)
    return engine.generate(RolloutRequest(PROMPT, samples, NEW, seed=5, sampling=sampling or Sampling()))


@dtypes
@pytest.mark.parametrize(
    ("family", "batch_size"),
    [("qwen3", 1), ("qwen3_moe", 1), ("qwen3", 5), ("qwen3_moe", 5), ("mixtral", 5), ("deepseek_v3", 5)],
)
def test_stepwise_log_probabilities_are_the_sealed_ones_bit_for_bit(family, dtype, batch_size, policy_of):
    policy = policy_of(family)
    trajectories = drawn(policy, dtype, batch_size)
    assert len({t.stop for t in trajectories}) == 2
    for found, t in zip(stepwise_logprobs(policy, trajectories, batch_size, NEW), trajectories, strict=True):
        assert torch.equal(found, torch.tensor(t.logprobs))
    assert first_difference(policy, trajectories, batch_size, NEW) is None


@dtypes
def test_without_neighbours_any_samples_may_be_given_in_any_order(dtype, policy_of):
    policy = policy_of("qwen3_moe")
    some = drawn(policy, dtype, batch_size=1)[4:9][::-1]
    assert first_difference(policy, some, 1, NEW) is None


def test_what_parity_finds_equal_scoring_finds_only_close(policy_of):
    """Otherwise the test above would show nothing that scoring does not."""
    policy = policy_of("qwen3_moe")
    scores = score(policy, drawn(policy, torch.bfloat16))
    assert not torch.equal(scores.logp, scores.logmu)


def test_temperature_and_truncation_are_repeated(policy_of):
    policy = policy_of("qwen3")
    trajectories = drawn(policy, sampling=Sampling(temperature=1.7, top_k=3, min_p=0.05))
    assert first_difference(policy, trajectories, 5, NEW) is None


def test_other_weights_are_found_at_the_first_token_they_reach(policy_of):
    """The changed embedding is of the one token that `at` is the first input to hold."""
    policy = policy_of("qwen3_moe")
    trajectories = drawn(policy)
    changed = 4
    reached = {i: t.tokens.tolist().index(changed) for i, t in enumerate(trajectories) if changed in t.tokens[:-1]}
    policy.model.set_input_embeddings(
        torch.nn.Embedding.from_pretrained(policy.model.model.embed_tokens.weight.clone())
    )
    with torch.no_grad():
        policy.model.get_input_embeddings().weight[changed] += 0.5
    found = first_difference(policy, trajectories, 5, NEW)
    assert found is not None and found.sample == min(reached) and found.position == reached[found.sample] + 1
    assert found.sealed == trajectories[found.sample].logprobs[found.position] != found.recomputed


def test_an_expert_that_was_recorded_wrongly_is_found_where_it_stands(policy_of):
    policy = policy_of("qwen3_moe")
    trajectories = drawn(policy)
    experts = trajectories[2].experts.copy()
    experts[4, 1] = experts[4, 1][::-1]
    trajectories[2] = trajectories[2].model_copy(update={"experts": experts})
    found = first_difference(policy, trajectories, 5, NEW)
    assert found is not None and (found.sample, found.position, found.row, found.layer) == (2, 2, 4, 1)
    assert found.sealed == found.recomputed


def test_a_log_probability_that_is_off_by_one_bit_is_found(policy_of):
    policy = policy_of("qwen3")
    trajectories = drawn(policy)
    logprobs = trajectories[1].logprobs.copy()
    logprobs[1] = np.nextafter(logprobs[1], np.float32(-np.inf))
    trajectories[1] = trajectories[1].model_copy(update={"logprobs": logprobs})
    found = first_difference(policy, trajectories, 5, NEW)
    assert found is not None and (found.sample, found.position, found.row, found.layer) == (1, 1, None, None)


def test_of_no_trajectories_there_is_nothing_to_say(policy_of):
    assert stepwise_logprobs(policy_of("qwen3"), [], 1, NEW) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": np.array([BOS], dtype=np.int32)}, "another prompt, sampling or dtype"),
        ({"dtype": "bfloat16"}, "another prompt, sampling or dtype"),
        ({"versions": (VersionSpan(version=4, start=0, end=99),)}, "drawn under one policy version"),
    ],
)
def test_trajectories_that_were_not_drawn_together_are_refused(change, message, policy_of):
    policy = policy_of("qwen3")
    trajectories = drawn(policy, samples=3)
    trajectories[1] = trajectories[1].model_copy(update=change)
    with pytest.raises(ParityError, match=message):
        stepwise_logprobs(policy, trajectories, 5, NEW)


def test_another_limit_than_the_requests_is_refused(policy_of):
    policy = policy_of("qwen3")
    with pytest.raises(ParityError, match="max_new_tokens was not 12"):
        stepwise_logprobs(policy, drawn(policy), 5, 12)
