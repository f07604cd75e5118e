"""roamcast: publish/subscribe for things that move.

An application has a `start(port)`; through its `Port` it announces, subscribes and raises events. Everything it needs
for that is here. `Client` is for programs that use brokers over the network.
"""

from typing import TYPE_CHECKING

from roamcast.on_demand import on_demand

if TYPE_CHECKING:
    from roamcast.client import Client
    from roamcast.model.event import BadEvent, ContentType, Delivery, Event, EventType
    from roamcast.model.filter import BadFilter, Filter, parse_text
    from roamcast.model.region import Anchored, Box, Circle, Polygon, rectangle
    from roamcast.model.scope import Scope
    from roamcast.model.values import BadValue, Instant, Point
    from roamcast.node.port import Application, Port

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


__getattr__ = on_demand(
    "roamcast",
    {
        "client": ("Client",),
        "model.event": ("BadEvent", "ContentType", "Delivery", "Event", "EventType"),
        "model.filter": ("BadFilter", "Filter", "parse_text"),
        "model.region": ("Anchored", "Box", "Circle", "Polygon", "rectangle"),
        "model.scope": ("Scope",),
        "model.values": ("BadValue", "Instant", "Point"),
        "node.port": ("Application", "Port"),
    },
)
