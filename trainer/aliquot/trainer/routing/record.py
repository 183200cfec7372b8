"""What a recording of routed experts must look like before anything is trained on it.

Row i holds the experts that were used when token i was the *input*, so a sequence of n tokens has n − 1 rows: the last
sampled token is never fed. Layers are the MoE layers only, in the model's order; `of_all_layers` takes what an engine
returns for all decoder layers. Ids keep the order in which the router gave them: another order of the same ids moves
the logits by rounding.

Sampling engines have been seen to return too few rows, zeros for whole layers, and repeated ids; each of these would
train silently on the wrong experts, so each is an error here. Rows that the engine did not record are said by a mask,
never by a value: every uint8 is somebody's expert.

A generation that is interrupted and taken up again grows by `extended`. For 3 tokens, then 2 more:

    first part     tokens a b c        rows of a, b          (c was drawn, not fed)
    second part    tokens d e          rows of c, d          one row per new token
    together       5 tokens            rows of a, b, c, d
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.domain import AliquotError, Trajectory


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
    """uint8 or uint16 [tokens − 1, MoE layers, top-k]; what stands in a row that is not recorded does not matter."""
    shape: RoutingShape
    tokens: int
    """Length of the sequence, prompt and generated."""
    recorded: np.ndarray | None = None
    """bool [tokens − 1], false where the engine recorded nothing and the router shall choose; None: all recorded."""

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
        rows = np.flatnonzero(self.mask)
        ids = ids[rows]
        if ids.size and int(ids.max()) >= shape.experts:
            row, layer, _ = np.argwhere(ids >= shape.experts)[0]
            named = ids[row, layer].tolist()
            raise RoutingError(f"row {rows[row]}, MoE layer {layer} names experts {named}; there are {shape.experts}")
        if shape.top_k > 1 and (empty := np.flatnonzero((ids == 0).all(axis=(0, 2)))).size and len(ids):
            raise RoutingError(f"MoE layers {empty.tolist()} are all zero: the engine returned no routing for them")
        ordered = np.sort(ids, axis=-1)
        twice = np.argwhere((ordered[..., 1:] == ordered[..., :-1]).any(axis=-1))
        if len(twice):
            row, layer = twice[0]
            raise RoutingError(f"row {rows[row]}, MoE layer {layer} names an expert twice: {ids[row, layer].tolist()}")

    @property
    def mask(self) -> np.ndarray:
        """bool [tokens − 1], true where there is a recording.

        Raises:
            RoutingError: `recorded` is not one bool per row.
        """
        if self.recorded is None:
            return np.ones(self.tokens - 1, dtype=bool)
        if self.recorded.dtype != bool or self.recorded.shape != (self.tokens - 1,):
            raise RoutingError(
                f"`recorded` is {self.recorded.dtype} {self.recorded.shape}; {self.tokens} tokens need bool "
                f"({self.tokens - 1},): one value per row"
            )
        return self.recorded

    @classmethod
    def of(cls, trajectory: Trajectory, shape: RoutingShape) -> RoutingRecord:
        """The record in a sealed trajectory, which must have one.

        Raises:
            RoutingError: it does not fit the model.
        """
        assert trajectory.experts is not None
        return cls(trajectory.experts, shape, len(trajectory.prompt) + len(trajectory.tokens), trajectory.recorded)

    @classmethod
    def of_all_layers(
        cls,
        ids: np.ndarray,
        moe: Sequence[bool],
        shape: RoutingShape,
        tokens: int,
        recorded: np.ndarray | None = None,
    ) -> RoutingRecord:
        """The record in an array over *all* decoder layers, as vLLM returns it: rows of dense layers are zero.

        Args:
            ids: uint8 or uint16 [tokens − 1, decoder layers, top-k].
            moe: which decoder layers are MoE layers (`moe_layers` of the model).

        Raises:
            RoutingError: another number of layers, or an expert named for a dense layer (the layers are not in the
                model's order, or not this model's); and whatever the record itself refuses.
        """
        marked = np.asarray(moe, dtype=bool)
        if ids.ndim != 3 or ids.shape[1] != len(marked) or int(marked.sum()) != shape.layers:
            raise RoutingError(
                f"routed experts have shape {ids.shape}; the model has {len(marked)} decoder layers, {marked.sum()} of "
                f"them MoE layers, and its routers are {shape.layers}"
            )
        said = np.flatnonzero(~marked & ids.any(axis=(0, 2)))
        if said.size:
            raise RoutingError(
                f"decoder layers {said.tolist()} are dense and yet name experts: the recording is of another model, or "
                "its layers are in another order"
            )
        return cls(np.ascontiguousarray(ids[:, marked]), shape, tokens, recorded)

    def extended(self, ids: np.ndarray, recorded: np.ndarray | None = None) -> RoutingRecord:
        """The record of the sequence when it has grown by `len(ids)` tokens; rows that stand stay as they are.

        An engine that reads the first part again returns rows for it too. They are not what its tokens were drawn
        with: give the last rows only, one per new token.

        Args:
            ids: uint8 or uint16 [new tokens, MoE layers, top-k].
            recorded: bool [new tokens], None when all are.

        Raises:
            RoutingError: what is joined is not a record.
        """
        if ids.dtype != self.ids.dtype or ids.shape[1:] != self.ids.shape[1:]:
            raise RoutingError(
                f"rows {ids.dtype} {ids.shape} cannot follow {self.ids.dtype} {self.ids.shape}: layers, top-k and "
                "dtype must be the same"
            )
        masks = None
        if self.recorded is not None or recorded is not None:
            masks = np.concatenate([self.mask, np.ones(len(ids), dtype=bool) if recorded is None else recorded])
        return RoutingRecord(np.concatenate([self.ids, ids]), self.shape, self.tokens + len(ids), masks)
