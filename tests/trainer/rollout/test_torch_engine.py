"""What the engine seals is what the trainer would compute, and what it draws is what the policy says."""

from __future__ import annotations

import math
import threading
from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats

from aliquot.domain import Sampling, SequenceSpace, StopReason
from aliquot.domain.spaces import BOS, EOS
from aliquot.trainer.policies import Dense, MoE, Policy, Scores, load_policy, read_weights, score, write_weights
from aliquot.trainer.rollout import RolloutEngine, RolloutError, RolloutRequest, TorchRolloutEngine
from aliquot.trainer.routing import Recording, RoutingRecord, routed

SPACE = SequenceSpace(alphabet="dna", min_length=2, max_length=11)
FAMILIES = ["llama", "qwen2", "qwen3", "qwen3_moe", "mixtral", "olmoe", "deepseek_v3"]
DENSE = Dense(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=16, max_positions=32)
MIXTURE = MoE(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=8, experts=4, max_positions=32)


@pytest.fixture
def policy_of(tiny_model):
    def make(family: str, seed: int = 0) -> Policy:
        return Policy.of(tiny_model(family, len(SPACE.codec().vocabulary), seed), SPACE.codec(), family)

    return make


def gap(scores: Scores) -> float:
    """Largest difference between a sealed log-probability and the trainer's."""
    return float((scores.logp - scores.logmu).detach().abs().max())


def request(samples: int = 40, prompt=(BOS,), **changes) -> RolloutRequest:
    return RolloutRequest(list(prompt), samples, max_new_tokens=12, seed=7, **changes)


@pytest.mark.parametrize("family", FAMILIES)
def test_sealed_log_probabilities_are_those_of_the_trainer(family, policy_of):
    """Slots are reused and given up on the way: forty samples through seven slots, prompts read beside them."""
    policy = policy_of(family)
    for prompt in ((BOS,), (BOS, 3, 6)):
        trajectories = TorchRolloutEngine(policy, batch_size=7).generate(request(prompt=prompt))
        scores = score(policy, trajectories)
        assert gap(scores) < 1e-4
        assert all(t.prompt.tolist() == list(prompt) for t in trajectories)


def test_temperature_and_position_masks_are_the_trainers_too(policy_of):
    policy = policy_of("qwen3")
    trajectories = TorchRolloutEngine(policy).generate(request(sampling=Sampling(temperature=1.7)))
    scores = score(policy, trajectories)
    assert gap(scores) < 1e-4
    for trajectory in trajectories:
        assert SPACE.codec().decode(trajectory.tokens.tolist())
        assert trajectory.stop == StopReason.EOS and trajectory.tokens[-1] == EOS


def test_samples_follow_the_exact_distribution():
    """Every sequence of a space of twenty is enumerated with its exact probability; chi-square over 2,000 draws."""
    space = SequenceSpace(alphabet="dna", min_length=1, max_length=2)
    policy = load_policy("fresh", space, DENSE, seed=0)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(1))
    exact = {}
    for length in (1, 2):
        for body in product(range(3, 7), repeat=length):
            logits = policy.model(input_ids=torch.tensor([[BOS, *body]])).logits[0].double()
            logp = 0.0
            for position, token in enumerate([*body, EOS]):
                legal = range(3, 7) if position == 0 else [EOS, *range(3, 7)] if position == 1 else [EOS]
                logp += (logits[position, token] - logits[position][list(legal)].logsumexp(0)).item()
            exact[body] = math.exp(logp)
    assert sum(exact.values()) == pytest.approx(1, abs=1e-6)
    draws = TorchRolloutEngine(policy, batch_size=500).generate(
        RolloutRequest([BOS], 2_000, space.codec().max_tokens, seed=1)
    )
    seen = Counter(tuple(t.tokens[:-1].tolist()) for t in draws)
    expected = np.array([exact[body] * 2_000 for body in exact])
    assert set(seen) <= set(exact) and max(exact.values()) > 2 * min(exact.values())
    assert stats.chisquare([seen[body] for body in exact], expected * 2_000 / expected.sum()).pvalue > 1e-3


@pytest.mark.parametrize("family", ["qwen3", "qwen3_moe"])
def test_a_sample_does_not_depend_on_its_neighbours(family, policy_of):
    policy = policy_of(family)
    together = TorchRolloutEngine(policy, batch_size=16).generate(request(12))
    alone = TorchRolloutEngine(policy, batch_size=1).generate(request(12))
    assert [t.tokens.tolist() for t in together] == [t.tokens.tolist() for t in alone]
    assert len({tuple(t.tokens.tolist()) for t in together}) > 6


def test_the_same_request_gives_the_same_trajectories_to_the_byte(policy_of):
    policy = policy_of("qwen3_moe")
    one, two = (TorchRolloutEngine(policy).generate(request()) for _ in range(2))
    assert [t.digest for t in one] == [t.digest for t in two]


@pytest.mark.parametrize("family", ["qwen3_moe", "mixtral", "olmoe", "deepseek_v3"])
def test_recorded_experts_are_those_of_a_native_pass_but_for_ties(family, policy_of):
    policy = policy_of(family)
    assert policy.routing is not None
    differing = total = 0
    for trajectory in TorchRolloutEngine(policy).generate(request(20)):
        whole = [*trajectory.prompt.tolist(), *trajectory.tokens.tolist()]
        record = RoutingRecord(trajectory.experts, policy.routing, len(whole))
        recording = Recording()
        routed(policy.model, recording, input_ids=torch.tensor([whole[:-1]]))
        differing += int((np.sort(record.ids, -1) != np.sort(recording.ids().numpy(), -1)).sum())
        total += record.ids.size
    assert differing <= 0.005 * total


def test_a_dense_policy_records_no_experts(policy_of):
    assert all(t.experts is None for t in TorchRolloutEngine(policy_of("qwen3")).generate(request(3)))


def test_an_update_between_two_steps_shows_in_the_version_spans(policy_of):
    """What ended before the update is version 4 throughout, what was under way is split at one place for all."""
    policy, newer = policy_of("qwen3"), policy_of("qwen3", seed=1)
    engine = TorchRolloutEngine(policy, version=4)
    stream = engine.stream(request(60))
    trajectories = dict([next(stream)])
    pause = engine.update_weights(newer.model.state_dict(), version=5)
    assert pause > 0 and engine.version == 5
    trajectories |= dict(stream)
    split = {t.versions[0].end for t in trajectories.values() if len(t.versions) == 2}
    assert len(split) == 1
    edge = split.pop()
    under_old, under_new = score(policy, list(trajectories.values())), score(newer, list(trajectories.values()))
    for row, trajectory in enumerate(trajectories.values()):
        assert [span.version for span in trajectory.versions] in ([4], [4, 5])
        before = under_old.logp[row, :edge] - under_old.logmu[row, :edge]
        assert float(before.detach().abs().max()) < 1e-4
        if len(trajectory.versions) == 2:
            after = under_new.logp[row, edge] - under_new.logmu[row, edge]
            assert abs(after.item()) > 1e-6  # the keys and values before it are the older version's


def test_samples_that_start_after_an_update_are_wholly_of_the_new_version(policy_of):
    policy, newer = policy_of("qwen3_moe"), policy_of("qwen3_moe", seed=1)
    engine = TorchRolloutEngine(policy, version=1, batch_size=4)
    stream = engine.stream(request(40))
    first = [next(stream)]
    engine.update_weights(newer.model.state_dict(), version=2)
    fresh = [t for _, t in [*first, *stream] if t.version == 2]
    assert len(fresh) >= 30
    scores = score(newer, fresh)
    assert gap(scores) < 1e-4


def test_weights_change_from_another_thread_while_it_generates(policy_of):
    policy, newer = policy_of("qwen3"), policy_of("qwen3", seed=1)
    engine = TorchRolloutEngine(policy, batch_size=2)
    begun = threading.Event()

    def update():
        begun.wait()
        engine.update_weights(newer.model.state_dict(), version=1)

    thread = threading.Thread(target=update)
    thread.start()
    seen = []
    for _, trajectory in engine.stream(request(60)):
        begun.set()
        seen.append(trajectory.versions[-1].version)
    thread.join()
    assert set(seen) == {0, 1} and seen == sorted(seen)


def test_published_weights_reach_the_engine_through_a_file(policy_of, tmp_path):
    policy, newer = policy_of("qwen3_moe"), policy_of("qwen3_moe", seed=1)
    engine = TorchRolloutEngine(policy)
    write_weights(tmp_path / "1.safetensors", newer.model)
    engine.update_weights(read_weights(tmp_path / "1.safetensors"), version=1)
    expected = TorchRolloutEngine(newer, version=1).generate(request(5))
    assert [t.digest for t in engine.generate(request(5))] == [t.digest for t in expected]


def test_weights_of_another_shape_are_refused_and_nothing_changes(policy_of):
    policy = policy_of("qwen3")
    engine = TorchRolloutEngine(policy)
    before = [t.digest for t in engine.generate(request(3))]
    wrong = dict(policy_of("qwen3", seed=1).model.state_dict())
    wrong["model.norm.weight"] = torch.ones(3)
    with pytest.raises(RolloutError, match="model.norm.weight"):
        engine.update_weights(wrong, version=1)
    assert engine.version == 0 and [t.digest for t in engine.generate(request(3))] == before


def test_training_the_policy_does_not_move_the_engine(policy_of):
    policy = policy_of("qwen3")
    engine = TorchRolloutEngine(policy)
    before = [t.digest for t in engine.generate(request(3))]
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(1.0)
    assert [t.digest for t in engine.generate(request(3))] == before


@pytest.mark.parametrize("shape", [DENSE, MIXTURE], ids=["dense", "moe"])
def test_bfloat16_sampling_is_close_and_says_so(shape):
    policy = load_policy("fresh", SPACE, shape, seed=0)
    engine = TorchRolloutEngine(policy, dtype=torch.bfloat16)
    trajectories = engine.generate(request())
    scores = score(policy, trajectories)
    assert trajectories[0].dtype == "bfloat16"
    assert 0 < gap(scores) < 0.05
    engine.update_weights(load_policy("fresh", SPACE, shape, seed=1).model.state_dict(), version=1)
    scores = score(load_policy("fresh", SPACE, shape, seed=1), engine.generate(request()))
    assert gap(scores) < 0.05


def test_the_protocol_is_kept_and_streams_hold_every_sample_once(policy_of):
    engine: RolloutEngine = TorchRolloutEngine(policy_of("qwen3"), batch_size=5)
    assert sorted(index for index, _ in engine.stream(request(23))) == list(range(23))
    engine.close()


def test_a_generation_that_reaches_its_limit_says_so(policy_of):
    short = RolloutRequest([BOS], 6, max_new_tokens=1, seed=0)
    trajectories = TorchRolloutEngine(policy_of("qwen3")).generate(short)
    assert {t.stop for t in trajectories} == {StopReason.LENGTH}
    assert {len(t.tokens) for t in trajectories} == {1}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (RolloutRequest([], 1, 5, 0), "one or more token ids"),
        (RolloutRequest([99], 1, 5, 0), "from 0 to 6"),
        (RolloutRequest([BOS], 1, 64, 0), "make 65; the context of the policy is 64"),
        (RolloutRequest([BOS], 0, 5, 0), "start at 1"),
    ],
)
def test_a_request_that_does_not_fit_is_refused(bad, message, policy_of):
    with pytest.raises(RolloutError, match=message):
        TorchRolloutEngine(policy_of("qwen3")).generate(bad)


def test_a_policy_that_has_diverged_is_reported_and_seals_nothing(policy_of):
    policy = policy_of("qwen3")
    with torch.no_grad():
        policy.model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(RolloutError, match="policy version 3 gives probabilities that are not finite"):
        TorchRolloutEngine(policy, version=3).generate(request(4))
