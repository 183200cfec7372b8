"""One mechanism that records and replays router choices in the MoE families of `transformers`, without forking them.

A router is any module whose class name ends in `TopKRouter`. While it runs under a `Routing`, its one call of
`torch.topk` over the expert scores is intercepted: the ids are replaced and their values gathered from the *live, full*
dense scores. All that follows (renormalisation, scale, dtype) is the model's own code, so no family needs a rule of its
own, and the gradient reaches the router. The other way, recomputing the weights in a forward hook, was as exact but
needs a copy of each family's scoring rule, which goes wrong silently when a family changes.

A `Routing` travels through the model as a keyword argument of its layers, down to the attention that stands beside the
router. So it is part of the graph: when activation checkpointing runs a layer again during backward, that layer gets
the routing of *its own* forward pass, whatever was run in between. Choices are stored by layer, without a cursor, at
the layer's first run, so a second run changes nothing.

Rollout routing replay: Ma et al. 2025, https://arxiv.org/abs/2510.11370.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from aliquot.domain import Trajectory
from aliquot.trainer.routing.measures import gate_mass, overlap
from aliquot.trainer.routing.record import RoutingError, RoutingRecord, RoutingShape


class Routing:
    """What the routers of one forward pass chose, by MoE layer."""

    def __init__(self):
        self.live: dict[int, Tensor] = {}
        """Layer → int64 [tokens, top-k]: the routers' own choices."""
        self.logits: dict[int, Tensor] = {}
        """Layer → float [tokens, experts]: what the routers chose by, with its gradient, for a balancing loss."""

    def choose(self, layer: int, native: Tensor) -> Tensor:
        """Ids int64 [tokens, top-k] to use in place of the router's own."""
        return native

    def replayed(self, layer: int) -> tuple[Tensor, Tensor] | None:
        """(ids int64 [tokens, top-k], bool [tokens]): what was recorded and where; None when nothing is replayed."""
        return None


class Recording(Routing):
    """Lets the routers choose and keeps what they chose."""

    def ids(self) -> Tensor:
        """int64 [tokens, MoE layers, top-k] of the last forward pass."""
        return torch.stack([self.live[layer] for layer in sorted(self.live)], dim=1)


class Replay(Routing):
    """Makes the routers use recorded experts where there is a recording, their own choice elsewhere.

    `live` and `logits` hold the native routing nevertheless, so balance is measured, and a balancing loss taken, of
    what the routers would choose by themselves.

    Args:
        ids: int64 [batch, time, MoE layers, top-k], in the order in which they were recorded.
        recorded: bool [batch, time], false where the router shall choose for itself.
    """

    def __init__(self, ids: Tensor, recorded: Tensor):
        super().__init__()
        self.recorded_ids, self.recorded = ids, recorded

    @classmethod
    def of(cls, trajectories: Sequence[Trajectory], shape: RoutingShape, native: Collection[int] = ()) -> Replay:
        """The replay of right-padded trajectories.

        Args:
            trajectories: those of the batch, in order; one without routed experts is routed natively.
            shape: of the model that will replay them.
            native: places in the batch that shall be routed natively although they have a recording.

        Raises:
            RoutingError: a recording does not fit the model.
        """
        records = [
            None if trajectory.experts is None or row in native else RoutingRecord.of(trajectory, shape)
            for row, trajectory in enumerate(trajectories)
        ]
        return cls.of_records(records, shape, max(len(t.prompt) + len(t.tokens) for t in trajectories) - 1)

    @classmethod
    def of_records(cls, records: Sequence[RoutingRecord | None], shape: RoutingShape, time: int) -> Replay:
        """The replay of records, right-padded to `time` rows; where one is None or says that a row was not recorded,
        the routers choose.
        """
        ids = torch.zeros(len(records), time, shape.layers, shape.top_k, dtype=torch.int64)
        recorded = torch.zeros(len(records), time, dtype=torch.bool)
        for row, record in enumerate(records):
            if record is not None:
                mask = torch.tensor(record.mask)
                ids[row, : len(mask)][mask] = torch.from_numpy(record.ids.astype("int64"))[mask]
                recorded[row, : len(mask)] = mask
        return cls(ids, recorded)

    def to(self, device: torch.device) -> Replay:
        """The same recordings on another device."""
        return Replay(self.recorded_ids.to(device), self.recorded.to(device))

    def choose(self, layer: int, native: Tensor) -> Tensor:
        recorded, where = self.replayed(layer)
        if recorded.shape != native.shape:
            raise RoutingError(f"MoE layer {layer} routes {tuple(native.shape)}; recorded: {tuple(recorded.shape)}")
        return torch.where(where[:, None], recorded, native)

    def replayed(self, layer: int) -> tuple[Tensor, Tensor]:
        return self.recorded_ids[:, :, layer].flatten(0, 1), self.recorded.flatten()

    def overlap(self) -> Tensor:
        """float32 [batch, time, MoE layers]: share of recorded experts that the live router would choose too.

        NaN where there is no recording, so that `nanmean` over any axes is the mean over what was replayed.
        """
        return self._of_recorded([overlap(live, self.replayed(i)[0]) for i, live in sorted(self.live.items())])

    def gate_mass(self) -> Tensor:
        """float32 [batch, time, MoE layers]: softmax probability that the live router gives the recorded experts.

        For routers that score by softmax it is the mass of their own scores; a sigmoid router's logits are read the
        same way. NaN where there is no recording.
        """
        return self._of_recorded([gate_mass(x, self.replayed(i)[0]) for i, x in sorted(self.logits.items())])

    def _of_recorded(self, layers: list[Tensor]) -> Tensor:
        values = torch.stack(layers, dim=-1).unflatten(0, self.recorded.shape)
        return values.masked_fill(~self.recorded[:, :, None], float("nan"))


def routing_shape(model: nn.Module) -> RoutingShape | None:
    """What the model's routers choose from, or None when it has none (a dense model).

    Raises:
        RoutingError: its layers differ in the number of experts or in top-k.
    """
    shapes = {(router.top_k, router.num_experts) for _, router in named_routers(model)}
    if len(shapes) > 1:
        raise RoutingError(f"MoE layers differ in (top-k, experts): {sorted(shapes)}; one record cannot hold them")
    return RoutingShape(len(named_routers(model)), *shapes.pop()) if shapes else None


def moe_layers(model: PreTrainedModel) -> tuple[bool, ...]:
    """Which decoder layers have a router, in order: what `RoutingRecord.of_all_layers` is told."""
    routed_layers = {int(part) for name, _ in named_routers(model) for part in name.split(".") if part.isdigit()}
    return tuple(layer in routed_layers for layer in range(model.config.num_hidden_layers))


def routed(model: nn.Module, routing: Routing | None, **inputs: Any):
    """The model's own output under a routing; with None, a plain forward pass.

    Raises:
        RoutingError: the model has no router, or the routing did not reach each of them.
    """
    if routing is None:
        return model(**inputs)
    layers: int = model.__dict__.get("_routed_layers") or _attach(model)
    routing.live.clear()
    routing.logits.clear()
    output = model(**inputs, routing=routing)
    if len(routing.live) != layers:
        raise RoutingError(
            f"{type(model).__name__} took the routing to {len(routing.live)} of {layers} routers: its layers do not "
            "pass keyword arguments to their attention, so this family cannot be replayed"
        )
    return output


def named_routers(model: nn.Module) -> list[tuple[str, Any]]:
    """Named routers in the order of the layers; what an adapter keeps as `original_module` does not count."""
    return [
        (name, module)
        for name, module in model.named_modules()
        if type(module).__name__.lower().endswith("topkrouter") and "original_module" not in name
    ]


def _attach(model: nn.Module) -> int:
    """Make every router listen, once per model; a deep copy of the model listens too, on its own."""
    routers = named_routers(model)
    if not routers:
        raise RoutingError(f"{type(model).__name__} has no router that can be recorded or replayed")
    for layer, (name, router) in enumerate(routers):
        _attention_beside(model, name).register_forward_pre_hook(partial(_hand_over, router), with_kwargs=True)
        router._routing, router._routing_layer = None, layer
        router.forward = MethodType(_routed_forward, router)
    model.__dict__["_routed_layers"] = len(routers)
    return len(routers)


def _attention_beside(model: nn.Module, router: str) -> nn.Module:
    parent = router
    while "." in parent:
        parent = parent.rpartition(".")[0]
        for child in model.get_submodule(parent).children():
            if type(child).__name__.endswith("Attention"):
                return child
    raise RoutingError(f"no attention module stands beside {router}: this family cannot be replayed")


def _hand_over(router: nn.Module, attention: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    router._routing = kwargs.pop("routing", None)
    return args, kwargs


def _routed_forward(router: Any, hidden_states: Tensor):
    routing: Routing | None
    routing, router._routing = router._routing, None
    if routing is None:
        return type(router).forward(router, hidden_states)
    with _Choice(routing, router._routing_layer, router.top_k, router.num_experts) as choice:
        output = type(router).forward(router, hidden_states)
    if choice.made != 1:
        raise RoutingError(f"{type(router).__name__} calls topk over its experts {choice.made} times, expected once")
    routing.logits.setdefault(router._routing_layer, output[0])
    return output


class _Choice(TorchFunctionMode):
    """Intercepts the one `topk` that selects experts."""

    def __init__(self, routing: Routing, layer: int, top_k: int, experts: int):
        super().__init__()
        self.routing, self.layer, self.top_k, self.experts, self.made = routing, layer, top_k, experts, 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        if func not in (torch.topk, Tensor.topk) or output.indices.shape[-1] != self.top_k:
            return output
        scores = args[0] if args else kwargs["input"]
        if scores.ndim != 2 or scores.shape[-1] != self.experts:
            return output
        self.made += 1
        self.routing.live.setdefault(self.layer, output.indices)
        ids = self.routing.choose(self.layer, output.indices)
        return torch.return_types.topk((scores.gather(1, ids), ids))
