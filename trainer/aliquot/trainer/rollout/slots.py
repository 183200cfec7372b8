"""The key-value cache and the token buffers of one generation, as slots that samples pass through.

A slot holds one sample at a time at a position of its own; when its sample ends, the next one starts there at position
0, and a mask hides what the previous one left behind. A new sample reads its prompt one token a step beside the others,
so every step is one forward pass of one token per slot. When no sample is left to start, slots are given up.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from aliquot.domain.spaces import PAD
from aliquot.trainer.routing import RoutingShape


class _SlotLayer(CacheLayerMixin):
    """Keys and values of one layer, [slots, capacity, heads, width], written at each slot's own position."""

    def __init__(self, slots: Slots):
        super().__init__()
        self.slots = slots

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        rows, capacity = self.slots.tokens.shape
        self.keys, self.values = (
            states.new_zeros(rows, capacity, states.shape[1], states.shape[3]) for states in (key_states, value_states)
        )
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        keys, values, longest = self.keys, self.values, self.slots.longest
        assert keys is not None and values is not None
        place = (self.slots.rows, self.slots.position)
        keys[place], values[place] = key_states[:, :, 0], value_states[:, :, 0]
        return keys[:, :longest].transpose(1, 2), values[:, :longest].transpose(1, 2)

    def keep(self, rows: Tensor) -> None:
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]

    def get_seq_length(self) -> int:
        return self.slots.longest - 1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.slots.longest, 0

    def get_max_length(self) -> int:
        return self.slots.tokens.shape[1]


class Slots:
    """State of the samples that are under way.

    Args:
        rows: samples at a time.
        prompt: int64 [prompt tokens].
        capacity: longest sequence, prompt included.
        layers: decoder layers of the model.
        routing: of the model, None for a dense one.
    """

    def __init__(self, rows: int, prompt: Tensor, capacity: int, layers: int, routing: RoutingShape | None):
        device = prompt.device
        self.prompt = prompt
        self.rows = torch.arange(rows, device=device)
        self.sample = torch.full((rows,), -1, device=device)
        """int64 [slots]: number of the sample in each slot, −1 for none."""
        self.position = torch.zeros(rows, dtype=torch.int64, device=device)
        """int64 [slots]: place of the token that is fed next."""
        self.longest = 1
        """Places in use by the slot that is furthest."""
        self.tokens = torch.full((rows, capacity), PAD, device=device)
        self.uniform = torch.zeros(rows, capacity, dtype=torch.float64, device=device)
        self.logp = torch.zeros(rows, capacity, device=device)
        self.version = torch.zeros(rows, capacity, dtype=torch.int64, device=device)
        self.experts = None
        if routing is not None:
            kind = torch.uint8 if routing.experts <= 256 else torch.uint16
            shape = (rows, capacity, routing.layers, routing.top_k)
            self.experts = torch.zeros(shape, dtype=kind, device=device)
        self._layers = [_SlotLayer(self) for _ in range(layers)]
        self.cache = Cache(layers=list(self._layers))

    def start(self, row: int, sample: int, uniform: Tensor) -> None:
        """Put a sample into a slot; `uniform` [new tokens] is its stream."""
        self.sample[row], self.position[row] = sample, 0
        self.tokens[row, : len(self.prompt)] = self.prompt
        self.uniform[row, len(self.prompt) :] = uniform

    def mask(self) -> Tensor:
        """bool [slots, 1, 1, longest]: what the token at each slot's position may attend to."""
        self.longest = int(self.position.max()) + 1
        places = torch.arange(self.longest, device=self.rows.device)
        return (places <= self.position[:, None])[:, None, None]

    def stop(self, row: int) -> None:
        """Leave a slot without a sample; what it computes from now on is ignored."""
        self.sample[row] = -1

    def compact(self) -> None:
        """Give up the slots without a sample, once they are a quarter of all."""
        kept = (self.sample >= 0).nonzero().flatten()
        if (len(self.rows) - len(kept)) * 4 < max(1, len(self.rows)):
            return
        for name in ("sample", "position", "tokens", "uniform", "logp", "version"):
            setattr(self, name, getattr(self, name)[kept])
        if self.experts is not None:
            self.experts = self.experts[kept]
        for layer in self._layers:
            layer.keep(kept)
        self.rows = self.rows[: len(kept)]
