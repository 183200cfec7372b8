"""How a test runs one attack of the hostile plugin."""

from __future__ import annotations

from aliquot.isolation.containment import Containment
from aliquot.isolation.host import Failure, Service
from aliquot.isolation.launch import Limits

LIMITS = Limits(memory_mb=512, processes=48, scratch_mb=64)


def contained(plugin: str, *, limits: Limits = LIMITS, isolation="worker", **permitted) -> Service:
    return Service("hostile", plugin, None, limits=limits, containment=Containment(**permitted), isolation=isolation)


def attack(service: Service, name: str, value=None, seconds: float = 20):
    """What came of one attack; a `Failure` fails the test."""
    (result,) = service.call("attack", [[name, value]], seconds=seconds)
    assert not isinstance(result, Failure), result.message
    return result


def failed(service: Service, name: str, value=None, seconds: float = 20) -> Failure:
    """The failure of one attack; a result fails the test. The service must work afterwards."""
    (result,) = service.call("attack", [[name, value]], seconds=seconds)
    assert isinstance(result, Failure), result
    assert service.call("identity", [1, "x"], seconds=20) == [1, "x"]
    return result
