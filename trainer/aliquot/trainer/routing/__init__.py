"""Router replay (R3): which experts each token used is recorded by the sampler and replayed by the trainer."""

from aliquot.trainer.routing.record import RoutingError, RoutingRecord, RoutingShape
from aliquot.trainer.routing.replay import Recording, Replay, Routing, routed, routing_shape

__all__ = ["Recording", "Replay", "Routing", "RoutingError", "RoutingRecord", "RoutingShape", "routed", "routing_shape"]
