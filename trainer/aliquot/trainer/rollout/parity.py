"""Parity mode, a debugging tool: the trainer computes again, step by step, what the sampler did, and both agree bit for
bit.

Scoring runs whole sequences through one forward pass, in float32; sampling runs one token at a time through a cache,
perhaps in bfloat16. Their log-probabilities differ by rounding, and a fault can hide in what looks like rounding. Here
nothing is left to rounding: same dtype, same float32 head, same cache, same kernels on the same shapes. So any
difference is a fault: other weights than were said, a token or an expert that was recorded wrongly, a cache that leaks.

A row of a matrix product may depend, in its last bits, on how many rows stand beside it, and the experts of a mixture
compute over as many tokens as were sent to them. So the neighbours are reproduced too: given all the samples of a
request, in order, and the engine's batch size, each sample stands in the slot it stood in, at the step it stood there,
beside what stood beside it. With a batch size of 1 there are no neighbours, and any samples may be given.

What the same machine, library versions and number of threads compute is compared, and one policy version: keys and
values of a generation during which weights changed cannot be had again from one set of weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from aliquot.domain import AliquotError, StopReason, Trajectory
from aliquot.trainer.policies import Policy, masked_log_softmax
from aliquot.trainer.rollout.sampling import truncated
from aliquot.trainer.rollout.slots import Slots
from aliquot.trainer.rollout.torch_engine import TorchRolloutEngine
from aliquot.trainer.routing import Recording, routed


class ParityError(AliquotError, ValueError):
    """Trajectories that cannot be computed again as they were sampled."""


@dataclass(frozen=True)
class Difference:
    """Where sampler and trainer first part."""

    sample: int
    """Place among the trajectories given."""
    position: int
    """Place of the token among the generated ones, 0 for the first."""
    sealed: float
    """log μ as sealed in the trajectory."""
    recomputed: float
    row: int | None
    """First row of the recorded experts that differs, None when none does up to this position."""
    layer: int | None
    """First MoE layer that differs in it: what differs is at or before its router."""


def stepwise_logprobs(
    policy: Policy, trajectories: Sequence[Trajectory], batch_size: int, max_new_tokens: int
) -> list[Tensor]:
    """float32 [generated tokens] of each trajectory: log-probabilities, computed as the torch engine computes them.

    Args:
        policy: with the weights that the trajectories were drawn under.
        trajectories: all samples of one request, in order; with a batch size of 1, any of them.
        batch_size: of the engine that drew them.
        max_new_tokens: of the request.

    Raises:
        ParityError: they are not of one request and one policy version.
    """
    recomputed = _recomputed(policy, trajectories, batch_size, max_new_tokens)
    return [torch.from_numpy(logprobs) for logprobs, _ in recomputed]


def first_difference(
    policy: Policy, trajectories: Sequence[Trajectory], batch_size: int, max_new_tokens: int
) -> Difference | None:
    """Where sealed and recomputed log-probabilities or experts first differ in any bit; None when they agree.

    The first sample that differs is named, and the first token in it. Arguments and errors are those of
    `stepwise_logprobs`.
    """
    recomputed = _recomputed(policy, trajectories, batch_size, max_new_tokens)
    for sample, (sealed, (logprobs, experts)) in enumerate(zip(trajectories, recomputed, strict=True)):
        last_prompt_row = len(sealed.prompt) - 1
        parted = (
            []
            if experts is None or sealed.experts is None
            else np.argwhere((experts != sealed.experts).any(-1)).tolist()
        )
        tokens = np.flatnonzero(logprobs != sealed.logprobs).tolist()
        tokens += [max(0, row - last_prompt_row) for row, _ in parted]
        if tokens:
            at = min(tokens)
            row, layer = next(((r, i) for r, i in parted if r <= last_prompt_row + at), (None, None))
            return Difference(sample, at, float(sealed.logprobs[at]), float(logprobs[at]), row, layer)
    return None


@torch.inference_mode()
def _recomputed(
    policy: Policy, trajectories: Sequence[Trajectory], batch_size: int, max_new_tokens: int
) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """(log-probs, experts) of each trajectory: the engine's own schedule of slots, every token given, none drawn."""
    if not trajectories:
        return []
    _check(trajectories, max_new_tokens)
    engine = TorchRolloutEngine(policy, batch_size=batch_size, dtype=getattr(torch, trajectories[0].dtype))
    prompt, undrawn = torch.tensor(trajectories[0].prompt, dtype=torch.int64), torch.zeros(max_new_tokens).double()
    rows, capacity = min(batch_size, len(trajectories)), len(prompt) + max_new_tokens
    slots = Slots(rows, prompt, capacity, policy.model.config.num_hidden_layers, policy.routing)
    waiting, found = iter(range(len(trajectories))), {}
    for row, sample in zip(range(rows), waiting, strict=False):
        slots.start(row, sample, undrawn)
    while len(slots.rows):
        for row in _step(engine, slots, trajectories):
            sample = int(slots.sample[row])
            end = len(prompt) + len(trajectories[sample].tokens)
            experts = None if slots.experts is None else slots.experts[row, : end - 1].numpy().copy()
            found[sample] = slots.logp[row, len(prompt) : end].numpy().copy(), experts
            upcoming = next(waiting, None)
            if upcoming is None:
                slots.stop(row)
            else:
                slots.start(row, upcoming, undrawn)
        slots.compact()
    return [found[sample] for sample in range(len(trajectories))]


def _step(engine: TorchRolloutEngine, slots: Slots, trajectories: Sequence[Trajectory]) -> list[int]:
    """Feed one token per slot and take the next from its trajectory; returns the slots whose sample has ended."""
    rows, position = slots.rows, slots.position
    recording = None if slots.experts is None else Recording()
    output = routed(
        engine._model,
        recording,
        input_ids=slots.tokens[rows, position][:, None],
        position_ids=position[:, None],
        attention_mask=slots.mask(),
        use_cache=True,
        **{engine._cache_argument: slots.cache},
    )
    sampling, start = trajectories[0].sampling, len(slots.prompt)
    logp = masked_log_softmax(output.logits[:, 0], position, engine._legal, sampling.temperature)
    if sampling.truncated:
        logp = truncated(logp, sampling)
    if recording is not None and slots.experts is not None:
        slots.experts[rows, position] = recording.ids().to(slots.experts.dtype)
    ended = []
    for row, sample in enumerate(slots.sample.tolist()):
        if sample < 0:
            continue
        tokens, after = trajectories[sample].tokens, int(position[row]) + 1
        if after >= start:
            token = int(tokens[after - start])
            slots.tokens[row, after], slots.logp[row, after] = token, logp[row, token]
        if after == start + len(tokens) - 1:
            ended.append(row)
    full = position + 1 == slots.tokens.shape[1] - 1
    slots.position = torch.where(full | (slots.sample < 0), position, position + 1)
    return ended


def _check(trajectories: Sequence[Trajectory], max_new_tokens: int) -> None:
    head = trajectories[0]
    for place, t in enumerate(trajectories):
        if t.prompt.tolist() != head.prompt.tolist() or t.sampling != head.sampling or t.dtype != head.dtype:
            raise ParityError(f"trajectory {place} has another prompt, sampling or dtype: give those of one request")
        if {span.version for span in t.versions} != {head.version}:
            raise ParityError(
                f"trajectory {place} is of versions {sorted({span.version for span in t.versions})}, the first of "
                f"{head.version}: parity is for samples drawn under one policy version"
            )
        length = len(t.tokens)
        if length > max_new_tokens or (t.stop == StopReason.LENGTH and length != max_new_tokens):
            raise ParityError(
                f"trajectory {place} has {length} tokens and stopped by {t.stop}: max_new_tokens was not "
                f"{max_new_tokens}"
            )
