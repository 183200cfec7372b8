"""A batch scored in chunks of like length, so that little of what is computed is padding.

What the whole batch's weights and losses need of it, log π and what the routers did, is gathered in one place without
gradient. A batch that fits keeps its graphs for the backward pass; a larger one is scored once more, chunk by chunk,
when its turn comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from aliquot.domain import Trajectory
from aliquot.trainer.policies.policy import Policy
from aliquot.trainer.policies.scoring import Scores, score
from aliquot.trainer.routing import load_metrics, loads, routing_metrics

CHUNK = 64
"""What a chunk costs by being one, in tokens: so much padding is borne rather than cut it in two."""


@dataclass
class Chunk:
    """Rows of the batch that are scored together."""

    policy: Policy
    rows: list[int]
    """Their places in the batch, shortest first."""
    trajectories: list[Trajectory]
    options: dict
    kept: Scores | None = None

    def scores(self) -> Scores:
        """Under the policy, with gradient."""
        kept, self.kept = self.kept, None
        return kept or score(self.policy, self.trajectories, **self.options)

    def scores_of(self, other: Policy) -> Scores:
        """Under another policy, as it routes by itself."""
        return score(other, self.trajectories)


@dataclass
class Scored:
    """The whole batch; time is that of its longest row. Nothing here has a gradient."""

    chunks: list[Chunk]
    logp: Tensor
    """float32 [batch, time]."""
    logmu: Tensor
    """float32 [batch, time]."""
    mask: Tensor
    """bool [batch, time]."""
    tokens: Tensor
    """int64 [batch, time], the tokens that log π speaks of; 0 outside the mask."""
    entropy: Tensor
    """float32 [batch, time], nats; 0 outside the mask."""
    drawn: Tensor
    """bool [batch], whether a policy drew it, so that log μ means something."""
    keep: Tensor
    """bool [batch, time], what masks leave of first coefficients; all of the mask until they are applied."""
    routing: dict[str, float] = field(default_factory=dict)
    """`routing_metrics`; what is said of loads, of the whole batch, the rest, means over the chunks by their rows."""
    loads: Tensor | None = None
    """int64 [MoE layers, experts], native assignments; None for a dense policy."""


def score_chunks(policy: Policy, trajectories: Sequence[Trajectory], most_tokens: int, **options) -> Scored:
    """Score a batch.

    Args:
        policy: scored under.
        trajectories: in the order of the batch.
        most_tokens: padded tokens that one backward pass holds.
        options: those of `score`.
    """
    lengths = [len(t.prompt) + len(t.tokens) - 1 for t in trajectories]
    parts = [Chunk(policy, rows, [trajectories[i] for i in rows], options) for rows in bucketed(lengths, most_tokens)]
    fits = sum(len(part.rows) * max(lengths[i] for i in part.rows) for part in parts) <= most_tokens
    shape = (len(trajectories), max(lengths))
    whole = Scored(
        parts, torch.zeros(shape), torch.zeros(shape), torch.zeros(shape, dtype=torch.bool),
        torch.zeros(shape, dtype=torch.int64), torch.zeros(shape),
        torch.tensor([t.engine != "none" for t in trajectories]), torch.zeros(shape, dtype=torch.bool),
    )  # fmt: skip
    for part in parts:
        with torch.set_grad_enabled(fits):
            scores = score(policy, part.trajectories, **options)
        part.kept = scores if fits else None
        time = scores.logp.shape[1]
        whole.logp[part.rows, :time] = scores.logp.detach().cpu()
        whole.logmu[part.rows, :time] = scores.logmu.cpu()
        whole.mask[part.rows, :time] = scores.mask.cpu()
        whole.entropy[part.rows, :time] = _entropy(scores).cpu()
        if scores.routing is not None:
            _observe(whole, scores, len(part.rows) / len(trajectories))
    if whole.loads is not None:
        whole.routing |= load_metrics(whole.loads)
    for row, trajectory in enumerate(trajectories):
        whole.tokens[row][whole.mask[row]] = torch.tensor(trajectory.tokens, dtype=torch.int64)
    whole.keep |= whole.mask
    return whole


def bucketed(lengths: Sequence[int], most_tokens: int) -> list[list[int]]:
    """Places of a batch, by length, in the chunks that cost least together: tokens with padding, and `CHUNK` for each.

    No chunk of more than one row holds more than `most_tokens`.
    """
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    best = [(0, 0)]  # by number of rows: what the first of them cost, and where the last chunk among them begins
    for end in range(1, len(order) + 1):
        longest = lengths[order[end - 1]]
        most_rows = max(1, most_tokens // longest)
        starts = range(max(0, end - most_rows), end)
        best.append(min((best[start][0] + (end - start) * longest + CHUNK, start) for start in starts))
    chunks: list[list[int]] = []
    end = len(order)
    while end:
        start = best[end][1]
        chunks.insert(0, order[start:end])
        end = start
    return chunks


def _observe(whole: Scored, scores: Scores, share: float) -> None:
    assert scores.routing is not None
    for name, value in routing_metrics(scores.routing, scores.counted).items():
        whole.routing[name] = whole.routing.get(name, 0.0) + share * value
    found = loads(scores.routing, scores.counted)
    whole.loads = found if whole.loads is None else whole.loads + found


@torch.no_grad()
def _entropy(scores: Scores) -> Tensor:
    logp = scores.vocabulary_logp.detach()
    legal = torch.isfinite(logp)
    return -(logp.exp() * logp.masked_fill(~legal, 0.0)).masked_fill(~legal, 0.0).sum(-1) * scores.mask
