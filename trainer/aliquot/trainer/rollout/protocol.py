"""What every rollout engine promises, whatever runs underneath.

A request names a prompt, how many samples, how to draw them and the seed of their random stream; each sample has a
stream of its own (seed, index), so a draw does not depend on its neighbours. What comes back is sealed: tokens,
behaviour log-probs from a float32 log-softmax, the policy version of each token, and the routed experts of a
mixture-of-experts policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from aliquot.domain import AliquotError, Sampling, Trajectory


class RolloutError(AliquotError):
    """The engine could not finish a generation; the request may be issued again, nothing was half-sealed."""


@dataclass(frozen=True)
class RolloutRequest:
    """`samples` generations from one prompt."""

    prompt: Sequence[int]
    """Token ids, `<bos>` included."""
    samples: int
    max_new_tokens: int
    seed: int
    sampling: Sampling = field(default_factory=Sampling)


class RolloutEngine(Protocol):
    """Draws trajectories from the newest policy it was given."""

    version: int
    """Policy version that the next token will be drawn under."""

    def generate(self, request: RolloutRequest) -> list[Trajectory]:
        """All samples of a request, in order.

        Raises:
            RolloutError: the prompt does not fit, or the engine died.
        """
        ...

    def stream(self, request: RolloutRequest) -> Iterator[tuple[int, Trajectory]]:
        """(index, trajectory) of each sample as it ends, in the order in which they end."""
        ...

    def update_weights(self, weights: dict[str, Tensor], version: int) -> float:
        """Swap the weights, between two decode steps if a generation is under way; returns the pause in seconds."""
        ...

    def close(self) -> None: ...
