"""What a recording of routed experts must look like before anything is trained on it.

Row i holds the experts that were used when token i was the *input*, so a sequence of n tokens has n − 1 rows: the last
sampled token is never fed. Layers are the MoE layers only, in the model's order. Ids keep the order in which the
router gave them: another order of the same ids moves the logits by rounding.

Sampling engines have been seen to return too few rows, zeros for whole layers, and repeated ids; each of these would
train silently on the wrong experts, so each is an error here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.domain import AliquotError


class RoutingError(AliquotError, ValueError):
    """Recorded experts that cannot be replayed, or a model whose routers cannot be reached."""


@dataclass(frozen=True)
class RoutingShape:
    """What the routers of one model choose from."""

    layers: int
    """MoE layers, dense ones not counted."""
    top_k: int
    """Experts per token and layer."""
    experts: int
    """Experts per layer."""

    @property
    def dtype(self) -> np.dtype:
        """uint8 up to 256 experts, uint16 above."""
        return np.dtype(np.uint8 if self.experts <= 256 else np.uint16)


@dataclass(frozen=True)
class RoutingRecord:
    """The experts of one sequence, proven replayable at birth.

    Raises:
        RoutingError: wrong dtype or shape, an expert that does not exist, or the same expert twice in one row. A layer
            that an engine left at zero is such a repetition; with one expert per token nothing tells it from a
            true choice of expert 0.
    """

    ids: np.ndarray
    """uint8 or uint16 [tokens − 1, MoE layers, top-k]."""
    shape: RoutingShape
    tokens: int
    """Length of the sequence, prompt and generated."""

    def __post_init__(self):
        ids, shape = self.ids, self.shape
        expected = (self.tokens - 1, shape.layers, shape.top_k)
        if ids.dtype not in (np.uint8, np.uint16):
            raise RoutingError(f"routed experts are uint8 or uint16, not {ids.dtype}")
        if ids.shape != expected:
            raise RoutingError(
                f"routed experts have shape {ids.shape}; {self.tokens} tokens through {shape.layers} MoE layers with "
                f"top-{shape.top_k} need {expected}: one row per token but the last, MoE layers only"
            )
        if ids.size and int(ids.max()) >= shape.experts:
            row, layer, _ = np.argwhere(ids >= shape.experts)[0]
            named = ids[row, layer].tolist()
            raise RoutingError(f"row {row}, MoE layer {layer} names experts {named}; there are {shape.experts}")
        if shape.top_k > 1 and (empty := np.flatnonzero((ids == 0).all(axis=(0, 2)))).size and len(ids):
            raise RoutingError(f"MoE layers {empty.tolist()} are all zero: the engine returned no routing for them")
        ordered = np.sort(ids, axis=-1)
        twice = np.argwhere((ordered[..., 1:] == ordered[..., :-1]).any(axis=-1))
        if len(twice):
            row, layer = twice[0]
            raise RoutingError(f"row {row}, MoE layer {layer} names an expert twice: {ids[row, layer].tolist()}")
