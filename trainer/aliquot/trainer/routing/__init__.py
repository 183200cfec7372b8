"""Router replay (R3): which experts each token used is recorded by the sampler and replayed by the trainer."""

from aliquot.trainer.routing.monitors import balance_loss, load_metrics, loads, routing_metrics
from aliquot.trainer.routing.record import RoutingError, RoutingRecord, RoutingShape
from aliquot.trainer.routing.replay import Recording, Replay, Routing, moe_layers, routed, routing_shape
from aliquot.trainer.routing.revive import Revived, revive, to_revive

__all__ = [
    "Recording", "Replay", "Revived", "Routing", "RoutingError", "RoutingRecord", "RoutingShape", "balance_loss",
    "load_metrics", "loads", "moe_layers", "revive", "routed", "routing_metrics", "routing_shape", "to_revive",
]  # fmt: skip
