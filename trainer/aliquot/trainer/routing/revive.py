"""What is done about a dead expert: it starts again as a near copy of the busiest expert of its layer.

A router teaches only the experts it chooses, so an expert that is never chosen never gets better by itself. The copy
takes the busiest expert's row of the router, its selection bias where the family has one, and its weights, each with a
little noise, relative to the size of what is copied; the noise is what lets the two grow apart.

Two things follow, and the caller must know them:

* With k > 1 the twins are mostly chosen together. Where the busiest expert led, its twin takes the last place of the
  top-k, so the policy moves; what was sampled before stays what it was, and under replay it is still scored through
  the experts that were recorded for it.
* An optimiser that keeps moments keeps those of the dead expert. Set the rows that are named here to zero in them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from aliquot.trainer.routing.measures import DEAD_SHARE, dead_experts
from aliquot.trainer.routing.record import RoutingError
from aliquot.trainer.routing.replay import named_routers


@dataclass(frozen=True)
class Revived:
    """What `revive` changed: row `expert` of each of the tensors named, and nothing else."""

    layer: int
    expert: int
    source: int
    """The expert that it is now a near copy of."""
    tensors: tuple[str, ...]
    """Names of parameters and buffers in the model."""


def to_revive(counts: Tensor, least: float = DEAD_SHARE) -> list[tuple[int, int]]:
    """(dead expert, expert to copy) of one layer: each dead one with a busy one of its own, the busiest first.

    Args:
        counts: the layer's load [experts].
        least: less than this part of an even load is dead.
    """
    dead = dead_experts(counts, least)
    busy = [expert for expert in counts.argsort(descending=True, stable=True).tolist() if expert not in dead]
    return list(zip(dead, busy, strict=False))


@torch.no_grad()
def revive(model: nn.Module, layer: int, dead: int, busiest: int, noise: float = 0.01, seed: int = 0) -> Revived:
    """Make a dead expert a near copy of the busiest, in place; the same arguments make the same change.

    Args:
        model: of any family whose experts are fused into tensors of [experts, …], as `transformers` has them.
        layer: MoE layer, counted from 0 as in the metrics.
        dead, busiest: two experts of it.
        noise: standard deviation of what is added, as a fraction of the root mean square of what is copied.
        seed: of the noise.

    Raises:
        RoutingError: no such layer or expert, or experts that are not fused.
    """
    routers = named_routers(model)
    if not 0 <= layer < len(routers):
        raise RoutingError(f"there is no MoE layer {layer}: {type(model).__name__} has {len(routers)}")
    name, router = routers[layer]
    experts: int = router.num_experts
    if dead == busiest or not (0 <= dead < experts and 0 <= busiest < experts):
        raise RoutingError(f"experts {dead} and {busiest} must be two different ones of the layer's {experts}")
    block = name.rpartition(".")[0]
    generator, changed = torch.Generator().manual_seed(seed), []
    for place in (name, f"{block}.experts"):
        module = model.get_submodule(place)
        rows = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        found = [(own, tensor) for own, tensor in rows if tensor.ndim and tensor.shape[0] == experts]
        if not found:
            raise RoutingError(f"{place} holds no tensor with a row for each of its {experts} experts")
        for own, tensor in found:
            copied = tensor[busiest].float()
            drawn = torch.randn(copied.shape, generator=generator).to(copied.device)
            spread = noise * copied.square().mean().sqrt() if copied.ndim else 0.0
            tensor[dead] = (copied + spread * drawn).to(tensor.dtype)
            changed.append(f"{place}.{own}")
    return Revived(layer, dead, busiest, tuple(changed))
