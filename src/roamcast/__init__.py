"""roamcast: publish/subscribe for things that move.

An application has a `start(port)`; through its `Port` it announces, subscribes and raises events. Everything it needs
for that is here. `Client` is for programs that use brokers over the network.
"""

from typing import TYPE_CHECKING

from roamcast.model.event import BadEvent, ContentType, Delivery, Event, EventType
from roamcast.model.filter import BadFilter, Filter, parse_text
from roamcast.model.region import Anchored, Box, Circle, Polygon, rectangle
from roamcast.model.scope import Scope
from roamcast.model.values import BadValue, Instant, Point
from roamcast.node.port import Application, Port

if TYPE_CHECKING:
    from roamcast.client import Client

__version__ = "0.1.0"

__all__ = [
    "Anchored",
    "Application",
    "BadEvent",
    "BadFilter",
    "BadValue",
    "Box",
    "Circle",
    "Client",
    "ContentType",
    "Delivery",
    "Event",
    "EventType",
    "Filter",
    "Instant",
    "Point",
    "Polygon",
    "Port",
    "Scope",
    "__version__",
    "parse_text",
    "rectangle",
]


def __getattr__(name: str) -> object:
    """`Client` needs more than most who import this, so it comes when it is asked for."""
    if name == "Client":
        from roamcast.client import Client

        return Client
    raise AttributeError(f"module 'roamcast' has no attribute '{name}'")
