"""Rollouts in torch, on one device: the embedded default.

Always true here: a decode step runs under one policy version, and every token carries the version it was drawn under.
Weights change only between two steps; sequences under way go on with the keys and values of the older version, as in
PipelineRL (Piché et al. 2025, https://arxiv.org/abs/2509.19128). The recorded log-probability is that of the
distribution the token was drawn from, by the function the trainer uses.
"""

from __future__ import annotations

import copy
import inspect
import threading
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from aliquot.domain import Sampling, StopReason, Trajectory, VersionSpan
from aliquot.domain.spaces import EOS
from aliquot.trainer.policies import Policy, masked_log_softmax
from aliquot.trainer.rollout.protocol import RolloutError, RolloutRequest
from aliquot.trainer.rollout.sampling import draw, truncated, uniforms
from aliquot.trainer.rollout.slots import Slots
from aliquot.trainer.routing import Recording, routed


class TorchRolloutEngine:
    """Implements `RolloutEngine` over a Hugging Face causal LM, of which it keeps a copy of its own.

    Args:
        policy: drawn from; later changes of its weights arrive by `update_weights` only.
        version: of the policy as given.
        batch_size: sequences that are decoded together.
        dtype: float32 or bfloat16; the output head stays in float32.
        device: where to decode.
    """

    def __init__(
        self,
        policy: Policy,
        version: int = 0,
        batch_size: int = 128,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
    ):
        self.version, self.batch_size = version, batch_size
        self._model = _sampler(policy.model, dtype, device)
        self._legal, self._routing = policy.legal.to(device), policy.routing
        self._context, self._device = policy.context, torch.device(device)
        self._dtype = str(dtype).removeprefix("torch.")
        parameters = inspect.signature(self._model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self._turn, self._updating = threading.Lock(), threading.Lock()
        self._may_step = threading.Event()
        self._may_step.set()

    def generate(self, request: RolloutRequest) -> list[Trajectory]:
        """All samples of a request, in order.

        Raises:
            RolloutError: the prompt does not fit, or the engine died.
        """
        return [trajectory for _, trajectory in sorted(self.stream(request), key=lambda pair: pair[0])]

    def stream(self, request: RolloutRequest) -> Iterator[tuple[int, Trajectory]]:
        """(index, trajectory) of each sample as it ends, in the order in which they end.

        Raises:
            RolloutError: the prompt does not fit, or the engine died.
        """
        prompt, waiting = self._prompt(request), iter(range(request.samples))
        rows, capacity = min(self.batch_size, request.samples), len(prompt) + request.max_new_tokens
        slots = Slots(rows, prompt, capacity, self._model.config.num_hidden_layers, self._routing)
        for row, sample in zip(range(rows), waiting, strict=False):
            slots.start(row, sample, uniforms(request.seed, sample, request.max_new_tokens))
        while len(slots.rows):
            self._may_step.wait()
            with self._turn, torch.inference_mode():
                ended = self._step(slots, request.sampling)
                finished = [(int(slots.sample[row]), self._sealed(slots, row, request.sampling)) for row in ended]
                for row in ended:
                    upcoming = next(waiting, None)
                    if upcoming is None:
                        slots.stop(row)
                    else:
                        slots.start(row, upcoming, uniforms(request.seed, upcoming, request.max_new_tokens))
                slots.compact()
            yield from finished

    def update_weights(self, weights: dict[str, Tensor], version: int) -> float:
        """Swap the weights, between two decode steps if a generation is under way; returns the pause in seconds.

        Raises:
            RolloutError: names or shapes are not those of the policy; the weights stay as they were.
        """
        with self._updating:
            self._may_step.clear()
            try:
                with self._turn:
                    started = time.perf_counter()
                    self._check(weights)
                    self._model.load_state_dict(weights)
                    self.version = version
            finally:
                self._may_step.set()
            return time.perf_counter() - started

    def close(self) -> None:
        """Nothing is held that the garbage collector does not free."""

    def _step(self, slots: Slots, sampling: Sampling) -> list[int]:
        """Feed one token per slot and draw the next; returns the slots whose sample has ended."""
        rows, position = slots.rows, slots.position
        recording = None if self._routing is None else Recording()
        output = routed(
            self._model,
            recording,
            input_ids=slots.tokens[rows, position][:, None],
            position_ids=position[:, None],
            attention_mask=slots.mask(),
            use_cache=True,
            **{self._cache_argument: slots.cache},
        )
        logp = masked_log_softmax(output.logits[:, 0], position, self._legal, sampling.temperature)
        if sampling.truncated:
            logp = truncated(logp, sampling)
        if recording is not None and slots.experts is not None:
            slots.experts[rows, position] = recording.ids().to(slots.experts.dtype)
        after = position + 1
        token = draw(logp, slots.uniform[rows, after]).clamp(max=logp.shape[-1] - 1)
        chosen = logp.gather(1, token[:, None]).squeeze(1)
        if not bool(torch.isfinite(chosen).all()):
            raise RolloutError(f"policy version {self.version} gives probabilities that are not finite: roll it back")
        drawing = after >= len(slots.prompt)
        slots.tokens[rows, after] = torch.where(drawing, token, slots.tokens[rows, after])
        slots.logp[rows, after] = chosen
        slots.version[rows, after] = self.version
        full = after == slots.tokens.shape[1] - 1
        ended = (slots.sample >= 0) & drawing & ((token == EOS) | full)
        slots.position = torch.where(full | (slots.sample < 0), position, after)
        return ended.nonzero().flatten().tolist()

    def _sealed(self, slots: Slots, row: int, sampling: Sampling) -> Trajectory:
        start, tokens = len(slots.prompt), slots.tokens[row]
        body = tokens[start:]
        stops = (body == EOS).nonzero()
        end = start + (int(stops[0]) + 1 if len(stops) else len(body))
        experts = None if slots.experts is None else slots.experts[row, : end - 1].cpu().numpy().copy()
        return Trajectory(
            prompt=slots.prompt.cpu().numpy().astype(np.int32),
            tokens=tokens[start:end].cpu().numpy().astype(np.int32),
            logprobs=slots.logp[row, start:end].cpu().numpy().copy(),
            versions=_spans(slots.version[row, start:end].cpu().numpy()),
            experts=experts,
            sampling=sampling,
            engine=f"torch {torch.__version__}",
            dtype=self._dtype,
            stop=StopReason.EOS if len(stops) else StopReason.LENGTH,
        )

    def _prompt(self, request: RolloutRequest) -> Tensor:
        width = self._legal.shape[1]
        if not len(request.prompt) or not all(0 <= int(token) < width for token in request.prompt):
            raise RolloutError(f"a prompt is one or more token ids from 0 to {width - 1}, not {list(request.prompt)}")
        if request.samples < 1 or request.max_new_tokens < 1:
            raise RolloutError(f"samples={request.samples}, max_new_tokens={request.max_new_tokens}: both start at 1")
        if (wanted := len(request.prompt) + request.max_new_tokens) > self._context:
            raise RolloutError(
                f"{len(request.prompt)} prompt tokens and {request.max_new_tokens} new ones make {wanted}; the context "
                f"of the policy is {self._context}: shorten the prompt or lower max_new_tokens"
            )
        return torch.tensor(list(request.prompt), dtype=torch.int64, device=self._device)

    def _check(self, weights: dict[str, Tensor]) -> None:
        own = {name: tensor.shape for name, tensor in self._model.state_dict().items()}
        given = {name: tensor.shape for name, tensor in weights.items()}
        if own != given:
            odd = sorted(name for name in own.keys() | given.keys() if own.get(name) != given.get(name))
            raise RolloutError(
                f"weights do not fit the policy at {len(odd)} names, the first is {odd[0]}: expected "
                f"{own.get(odd[0], 'nothing')}, got {given.get(odd[0], 'nothing')}"
            )


def _sampler(model: PreTrainedModel, dtype: torch.dtype, device: str | torch.device) -> PreTrainedModel:
    """A copy for sampling. The head stays in float32: rounding logits moves probabilities more than all before it
    does (ScaleRL, https://arxiv.org/abs/2510.13786)."""
    sampler = copy.deepcopy(model)
    head = copy.deepcopy(sampler.get_output_embeddings())
    nn.Module.to(sampler, device=device, dtype=dtype)
    if dtype != torch.float32:
        head.to(device).register_forward_pre_hook(_in_float32)
        sampler.set_output_embeddings(head)
    return sampler.eval().requires_grad_(False)


def _in_float32(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(argument.float() for argument in args)


def _spans(versions: np.ndarray) -> tuple[VersionSpan, ...]:
    edges = [0, *(np.flatnonzero(np.diff(versions)) + 1).tolist(), len(versions)]
    return tuple(
        VersionSpan(version=int(versions[start]), start=start, end=end)
        for start, end in zip(edges, edges[1:], strict=False)
    )
