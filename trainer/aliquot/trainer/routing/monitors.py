"""What the trainer logs of the routers after each forward pass, and what it descends to keep them balanced.

Everything is said of *native* routing: what the live routers would choose, also where recorded experts were replayed
in their place. Names are stable; `{i}` counts MoE layers from 0:

| name                        | value |
| --------------------------- | ----- |
| `router/layer{i}/max_violation` | load of the busiest expert over the mean load, less 1 |
| `router/layer{i}/min_violation` | the same of the idlest expert; −1 is an expert without a token |
| `router/layer{i}/avg_violation` | mean over experts of the absolute values |
| `router/layer{i}/dead_experts`  | experts with less than a hundredth of an even load |
| `router/layer{i}/confidence`    | mean probability mass of the top-k experts |
| `router/layer{i}/overlap`       | share of the recorded experts that the live router would choose too |
| `router/layer{i}/gate_mass`     | mean probability that the live router gives the recorded experts together |
| `router/{name}`                 | mean of `{name}` over the layers; of `dead_experts`, the sum |

`overlap` and `gate_mass` are said only where something was replayed. Nothing is said of a batch without tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aliquot.trainer.routing.measures import balance, confidence, dead_experts, gate_mass, load, overlap, violation
from aliquot.trainer.routing.record import RoutingError
from aliquot.trainer.routing.replay import Routing


@torch.no_grad()
def routing_metrics(routing: Routing, counted: Tensor | None = None) -> dict[str, float]:
    """Every value of the table above, of the routing's last forward pass.

    Args:
        routing: any, after a forward pass.
        counted: bool [batch, time], true where a real token was fed; None counts padding too.
    """
    real = None if counted is None else counted.flatten()
    if real is not None and not real.any():
        return {}
    layers = []
    for layer, live in sorted(routing.live.items()):
        logits = routing.logits[layer]
        mass = confidence(logits, live.shape[-1])
        found = {"confidence": float((mass if real is None else mass[real]).mean())}
        if (replayed := routing.replayed(layer)) is not None:
            recorded, where = replayed
            if where.any():
                found["overlap"] = float(overlap(live, recorded)[where].mean())
                found["gate_mass"] = float(gate_mass(logits, recorded)[where].mean())
        layers.append(found)
    metrics = load_metrics(loads(routing, counted)) if layers else {}
    metrics |= {f"router/layer{i}/{name}": value for i, found in enumerate(layers) for name, value in found.items()}
    for name in layers[0] if layers else ():
        metrics[f"router/{name}"] = sum(found[name] for found in layers) / len(layers)
    return metrics


def load_metrics(counts: Tensor) -> dict[str, float]:
    """The violations and `dead_experts` of the table above, of loads that were added up over batches.

    Args:
        counts: int64 [MoE layers, experts].
    """
    metrics: dict[str, float] = {}
    for i, layer in enumerate(counts):
        named = zip(("max_violation", "min_violation", "avg_violation"), violation(layer), strict=True)
        metrics |= {f"router/layer{i}/{name}": value for name, value in named}
        metrics[f"router/layer{i}/dead_experts"] = float(len(dead_experts(layer)))
    for name in ("max_violation", "min_violation", "avg_violation", "dead_experts"):
        values = [metrics[f"router/layer{i}/{name}"] for i in range(len(counts))]
        metrics[f"router/{name}"] = sum(values) / (1 if name == "dead_experts" else len(values))
    return metrics


def loads(routing: Routing, counted: Tensor | None = None) -> Tensor:
    """int64 [MoE layers, experts]: native assignments in the last forward pass, which add up over batches.

    Args:
        counted: bool [batch, time], true where a real token was fed; None counts padding too.
    """
    real = None if counted is None else counted.flatten()
    layers = sorted(routing.live)
    return torch.stack([load(routing.live[i], routing.logits[i].shape[-1], real) for i in layers])


def balance_loss(routing: Routing, counted: Tensor | None = None, whole: Tensor | None = None) -> Tensor:
    """Scalar with gradient: mean over layers of the balancing loss of native routing; top-k when all is even.

    Each layer is balanced by itself: over all of them together, an expert that is dead in one layer is made up for by
    its namesake in another.

    Args:
        counted: bool [batch, time], true where a real token was fed; None counts padding too.
        whole: int64 [MoE layers, experts], `loads` of a whole batch of which this forward pass is a part: the losses of
            the parts then add up to that of the batch.

    Raises:
        RoutingError: the logits were computed without a gradient, so the loss would teach nothing.
    """
    if torch.is_grad_enabled() and not all(logits.requires_grad for logits in routing.logits.values()):
        raise RoutingError(
            "the routers' logits have no gradient, so a balancing loss would teach nothing: reentrant activation "
            "checkpointing computes them without one (pass use_reentrant=False), and so does a frozen model"
        )
    real = None if counted is None else counted.flatten()
    layers = [
        balance(routing.logits[layer], live, real, None if whole is None else whole[place])
        for place, (layer, live) in enumerate(sorted(routing.live.items()))
    ]
    return torch.stack(layers).mean()
