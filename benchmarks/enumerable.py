"""A policy so small that all of its sequences can be listed, so that gradients are exact sums and not estimates.

A logit for every (prefix, next token): the parameters θ are a float64 table [prefixes, VOCABULARY]. Every sequence has
STEPS tokens. For sequence s, with fixed advantage A(s), the objective is J = Σₛ π(s) A(s), and its gradient

    g = Σₛ π(s) A(s) ∇ log π(s).

A behaviour policy μ stands at `gap` from π: its logits are π's plus `gap` times a fixed standard normal table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch import Tensor

VOCABULARY, STEPS = 4, 3


@dataclass(frozen=True)
class Enumerable:
    """Policy π, behaviour policy μ and advantages over all sequences [S]; D = prefixes · VOCABULARY parameters."""

    logits: Tensor
    """θ, float64 [prefixes, VOCABULARY]."""
    behaviour_logits: Tensor
    """Of μ, in the same places."""
    advantages: Tensor
    """A, float64 [S], of mean 0 under π, as a baseline leaves them."""

    @cached_property
    def logp(self) -> Tensor:
        """log π of each token, float64 [S, STEPS]."""
        return log_probabilities(self.logits)

    @cached_property
    def logmu(self) -> Tensor:
        """log μ of each token, float64 [S, STEPS]."""
        return log_probabilities(self.behaviour_logits)

    @cached_property
    def mask(self) -> Tensor:
        """True everywhere, bool [S, STEPS]."""
        return torch.ones(len(self.advantages), STEPS, dtype=torch.bool)

    @cached_property
    def probability(self) -> Tensor:
        """π of each sequence, float64 [S]."""
        return self.logp.sum(-1).exp()

    @cached_property
    def drawn(self) -> Tensor:
        """μ of each sequence, float64 [S]."""
        return self.logmu.sum(-1).exp()

    @cached_property
    def scores(self) -> Tensor:
        """∇ log π of each token, float64 [S, STEPS, D]: one-hot of the token less π, in the row of its prefix."""
        table = torch.zeros(len(self.advantages), STEPS, *self.logits.shape, dtype=torch.float64)
        row, step = torch.arange(len(self.advantages))[:, None], torch.arange(STEPS)
        table[row, step, prefixes()] = -self.logits.softmax(-1)[prefixes()]
        table[row, step, prefixes(), sequences()] += 1.0
        return table.flatten(2)

    @cached_property
    def gradient(self) -> Tensor:
        """g, float64 [D]."""
        return (self.probability * self.advantages) @ self.scores.sum(1)

    def sample(self, size: int, generator: torch.Generator) -> Tensor:
        """Which sequences μ draws, int64 [size]."""
        return torch.multinomial(self.drawn, size, replacement=True, generator=generator)


def enumerable(gap: float, seed: int = 0) -> Enumerable:
    """The same π, advantages and direction of the gap for one seed, whatever the gap."""
    generator = torch.Generator().manual_seed(seed)
    shape = (sum(VOCABULARY**step for step in range(STEPS)), VOCABULARY)
    logits, direction = (torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(2))
    rewards = torch.rand(VOCABULARY**STEPS, dtype=torch.float64, generator=generator)
    baseline = log_probabilities(logits).sum(-1).exp() @ rewards
    return Enumerable(logits, logits + gap * direction, rewards - baseline)


def log_probabilities(logits: Tensor) -> Tensor:
    """Log-probability of each token of each sequence, [S, STEPS], differentiable."""
    return logits.log_softmax(-1)[prefixes(), sequences()]


@cache
def sequences() -> Tensor:
    """Every sequence, int64 [S, STEPS], S = VOCABULARY^STEPS."""
    return torch.cartesian_prod(*[torch.arange(VOCABULARY)] * STEPS)


@cache
def prefixes() -> Tensor:
    """The table's row of the prefix before each token, int64 [S, STEPS]: shorter prefixes first, each read as a number
    in base VOCABULARY."""
    columns, first, value = [], 0, torch.zeros(VOCABULARY**STEPS, dtype=torch.int64)
    for step in range(STEPS):
        columns.append(first + value)
        first, value = first + VOCABULARY**step, value * VOCABULARY + sequences()[:, step]
    return torch.stack(columns, dim=1)
