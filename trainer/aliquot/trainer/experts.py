"""Experts that die while a policy learns are given life again, from a count of what the routers chose lately."""

from __future__ import annotations

import torch
from torch import Tensor

from aliquot.trainer.routing import Revived, revive, to_revive
from aliquot.trainer.state import TrainingState

KEEP = 0.9
"""How much of the count of earlier steps stays when a step's is added."""
SETTLED = 20
"""Steps before the first look: as long as it takes until the count is that of many batches."""


@torch.no_grad()
def revive_dead(state: TrainingState, loads: Tensor, step: int) -> list[Revived]:
    """Add a step's loads to the count, and make each dead expert a near copy of a busy one.

    An optimiser's moments of a revived expert belong to the dead one, and are set to zero.

    Args:
        state: whose policy and count are changed.
        loads: int64 [MoE layers, experts], native assignments of the step's batch.
        step: of the trainer; with the layer and the expert it is the seed of the noise.
    """
    state.loads = loads.float() if state.loads is None else KEEP * state.loads + loads
    if step < SETTLED:
        return []
    changed = []
    for layer, counts in enumerate(state.loads):
        for dead, busiest in to_revive(counts):
            one = revive(state.policy.model, layer, dead, busiest, seed=step * 1000 + dead)
            for parameter, moments in _moments(state, one):
                for moment in moments:
                    if moment.shape == parameter.shape:
                        moment[one.expert] = 0.0
            state.loads[layer, dead] = state.loads[layer].mean()
            changed.append(one)
    return changed


def _moments(state: TrainingState, one: Revived):
    """(parameter, its tensors in the optimiser) of what was revived and is learned."""
    named = dict(state.policy.model.named_parameters())
    for name in one.tensors:
        if name in named and named[name] in state.optimiser.state:
            held = state.optimiser.state[named[name]].values()
            yield named[name], [moment for moment in held if isinstance(moment, Tensor)]
