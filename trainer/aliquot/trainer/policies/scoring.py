"""What a policy says of trajectories that exist already: log π of every token, differentiable.

Trajectories are padded on the right. Attention is causal, so what stands after a token cannot reach it, and no
attention mask is needed; nothing at a padded position is ever counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from aliquot.domain import Trajectory
from aliquot.domain.spaces import PAD
from aliquot.trainer.policies.distribution import masked_log_softmax
from aliquot.trainer.policies.policy import Policy
from aliquot.trainer.routing import Recording, Replay, Routing, RoutingError, routed


@dataclass(frozen=True)
class Scores:
    """Column t speaks of token t + 1 of prompt and generation together; time is the longest trajectory less one."""

    logp: Tensor
    """float32 [batch, time], log π of each generated token at the temperature it was drawn at; 0 elsewhere."""
    logmu: Tensor
    """float32 [batch, time], log μ as sealed in the trajectories; 0 elsewhere."""
    mask: Tensor
    """bool [batch, time], true for generated tokens."""
    vocabulary_logp: Tensor
    """float32 [batch, time, vocabulary], −inf where a token may not stand."""
    routing: Routing | None = None
    """What the routers did, natively and in replay; None when nobody asked."""
    counted: Tensor | None = None
    """bool [batch, time], true where a token was fed that another follows."""


def score(
    policy: Policy,
    trajectories: Sequence[Trajectory],
    replay: bool = False,
    least_overlap: float = 0.0,
    observe: bool = False,
) -> Scores:
    """Log-probabilities of trajectories under the policy as it is now.

    Args:
        policy: scored under; gradients reach its model's parameters.
        trajectories: any mixture of lengths, prompts and temperatures.
        replay: send each token through the experts that were recorded for it (R3).
        least_overlap: a trajectory whose recorded and live experts overlap less than this, on average over its tokens
            and layers, is routed natively (a second forward pass, only when there is one).
        observe: keep what the routers did when nothing is replayed.

    Raises:
        RoutingError: a recording does not fit the model.
    """
    device, legal = policy.model.device, policy.legal.to(policy.model.device)
    tokens, logmu, mask = (tensor.to(device) for tensor in _padded(trajectories))
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    positions = torch.arange(inputs.shape[1], device=device).expand_as(inputs)
    temperature = torch.tensor([[[t.sampling.temperature]] for t in trajectories], device=device)

    routing: Routing | None = None
    if replay:
        logits, routing = _replayed(policy, trajectories, inputs, least_overlap)
    else:
        routing = Recording() if observe else None
        logits = routed(policy.model, routing, input_ids=inputs).logits
    vocabulary_logp = masked_log_softmax(logits, positions, legal, temperature)
    chosen = vocabulary_logp.gather(-1, targets[..., None]).squeeze(-1)
    return Scores(torch.where(mask, chosen, 0.0), logmu, mask, vocabulary_logp, routing, targets != PAD)


def _replayed(
    policy: Policy, trajectories: Sequence[Trajectory], inputs: Tensor, least_overlap: float
) -> tuple[Tensor, Replay]:
    """Logits [batch, time, vocabulary] under replay, and the replay."""
    if policy.routing is None:
        raise RoutingError(f"policy {policy.name} has no experts to replay: switch router replay off")
    replay = Replay.of(trajectories, policy.routing).to(inputs.device)
    output = routed(policy.model, replay, input_ids=inputs)
    if native := (replay.overlap().flatten(1).nanmean(1) < least_overlap).nonzero().flatten().tolist():
        replay = Replay.of(trajectories, policy.routing, native).to(inputs.device)
        output = routed(policy.model, replay, input_ids=inputs)
    return output.logits, replay


def _padded(trajectories: Sequence[Trajectory]) -> tuple[Tensor, Tensor, Tensor]:
    """int64 [batch, time + 1] tokens, float32 [batch, time] log μ, bool [batch, time] generated."""
    longest = max(len(t.prompt) + len(t.tokens) for t in trajectories)
    tokens = torch.full((len(trajectories), longest), PAD, dtype=torch.int64)
    logmu = torch.zeros(len(trajectories), longest - 1)
    mask = torch.zeros(len(trajectories), longest - 1, dtype=torch.bool)
    for row, t in enumerate(trajectories):
        start, end = len(t.prompt), len(t.prompt) + len(t.tokens)
        tokens[row, :start] = torch.tensor(t.prompt)
        tokens[row, start:end] = torch.tensor(t.tokens)
        logmu[row, start - 1 : end - 1] = torch.tensor(t.logprobs)
        mask[row, start - 1 : end - 1] = True
    return tokens, logmu, mask
