"""A Trajectory: the sealed record of one generation, with all that a trainer will need when the result finally comes.

Lifecycle: a rollout engine makes it, the ledger seals it (content hash over every field), and nobody changes it after.
For the generation `<bos> C C O <eos>`, with 4 generated tokens and a 2-layer, top-2 mixture of experts:

    prompt       [1]                          <bos>
    tokens       [3, 3, 5, 2]                 what was generated, its <eos> included
    logprobs     [-1.2, -0.9, -2.3, -0.4]     log μ(token | before it), float32
    versions     [(7, 0, 3), (8, 3, 4)]       tokens 0..2 under policy version 7, token 3 under version 8
    experts      uint8 [4, 2, 2]              row i: experts used when position i was the *input*
                                              (prompt and generated, the last token is never fed)
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from aliquot.domain.base import Noun


class StopReason(StrEnum):
    """Why a generation ended."""

    EOS = "eos"
    LENGTH = "length"


class VersionSpan(Noun):
    """Tokens `start` (included) to `end` (excluded) were drawn under one policy version."""

    version: int
    start: int = Field(ge=0)
    end: int = Field(ge=1)


class Sampling(Noun):
    """How the tokens were drawn. The defaults are the only settings from which an importance ratio is unbiased."""

    temperature: float = Field(default=1.0, gt=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=-1, ge=-1)
    min_p: float = Field(default=0.0, ge=0, lt=1)

    @property
    def truncated(self) -> bool:
        """Whether probability mass was cut away, which biases the ratio unless the cut is replayed."""
        return self.top_p < 1 or self.top_k > 0 or self.min_p > 0


def _array(dtypes: tuple[type, ...], dims: int):
    def check(value: Any) -> np.ndarray:
        array = np.asarray(value)
        if array.dtype not in [np.dtype(d) for d in dtypes]:
            array = array.astype(dtypes[0], casting="same_kind" if array.size else "unsafe")
        if array.ndim != dims:
            raise ValueError(f"expected {dims} dimensions, got shape {array.shape}")
        array = np.ascontiguousarray(array)
        array.setflags(write=False)
        return array

    return check


IntArray = Annotated[
    np.ndarray,
    PlainValidator(_array((np.int32,), 1)),
    PlainSerializer(lambda a: a.tolist()),
    WithJsonSchema({"type": "array", "items": {"type": "integer"}}),
]
FloatArray = Annotated[
    np.ndarray,
    PlainValidator(_array((np.float32,), 1)),
    PlainSerializer(lambda a: a.tolist()),
    WithJsonSchema({"type": "array", "items": {"type": "number"}}),
]
ExpertArray = Annotated[
    np.ndarray,
    PlainValidator(_array((np.uint8, np.uint16), 3)),
    PlainSerializer(lambda a: a.tolist()),
    WithJsonSchema({"type": "array", "items": {"type": "array"}}),
]


MaskArray = Annotated[
    np.ndarray,
    PlainValidator(_array((np.bool_,), 1)),
    PlainSerializer(lambda a: a.tolist()),
    WithJsonSchema({"type": "array", "items": {"type": "boolean"}}),
]


class Trajectory(Noun):
    """One generation, immutable. Raises a `ValueError` at birth when lengths disagree or a log-prob is not finite."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    prompt: IntArray
    """int32 [prompt tokens], `<bos>` included."""
    tokens: IntArray
    """int32 [generated tokens], the closing `<eos>` included when there is one."""
    logprobs: FloatArray
    """float32 [generated tokens], natural log of the behaviour probability, from a float32 log-softmax."""
    versions: tuple[VersionSpan, ...]
    """Policy version of each token, as spans that cover `tokens` without gap or overlap."""
    experts: ExpertArray | None = None
    """uint8 or uint16 [prompt + generated − 1, MoE layers, experts per token], or None for a dense policy."""
    recorded: MaskArray | None = None
    """bool, one for each row of `experts`: false where the engine recorded nothing, and what stands in the row means
    nothing; None: every row is recorded."""
    sampling: Sampling = Sampling()
    engine: str
    """Which rollout engine, with its version."""
    dtype: str
    """Arithmetic of the sampler: `float32` or `bfloat16`."""
    stop: StopReason

    @model_validator(mode="after")
    def _whole(self):
        n = len(self.tokens)
        if len(self.logprobs) != n or n == 0 or len(self.prompt) == 0:
            raise ValueError(
                f"{len(self.prompt)} prompt tokens, {n} tokens, {len(self.logprobs)} log-probs: unequal or empty"
            )
        if not np.isfinite(self.logprobs).all() or (self.logprobs > 1e-4).any():
            raise ValueError("log-probs must be finite and not positive")
        edge = 0
        for span in self.versions:
            if span.start != edge or span.end <= span.start:
                raise ValueError("version spans must cover the tokens without gap or overlap")
            edge = span.end
        if edge != n:
            raise ValueError(f"version spans cover {edge} of {n} tokens")
        if self.experts is not None and len(self.experts) != len(self.prompt) + n - 1:
            raise ValueError(f"{len(self.experts)} rows of experts for {len(self.prompt)} + {n} − 1 positions")
        if self.recorded is not None and (self.experts is None or len(self.recorded) != len(self.experts)):
            rows = "no" if self.experts is None else len(self.experts)
            raise ValueError(f"`recorded` says of {len(self.recorded)} rows of experts; there are {rows}")
        return self

    @property
    def version(self) -> int:
        """The oldest policy version among its tokens: what staleness is measured from."""
        return min(span.version for span in self.versions)

    @property
    def digest(self) -> str:
        """sha256 over every field, hex."""
        hasher = hashlib.sha256()
        head = self.model_dump_json(include={"versions", "sampling", "engine", "dtype", "stop"})
        hasher.update(head.encode())
        for array in (self.prompt, self.tokens, self.logprobs, self.experts, self.recorded):
            if array is not None:
                hasher.update(f"{array.dtype}{array.shape}".encode())
                hasher.update(array.tobytes())
        return hasher.hexdigest()
