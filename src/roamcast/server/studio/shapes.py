"""What a page draws, as JSON: points, regions, the circles of a filter's `near`, payloads."""

import math

import msgspec
from msgspec import Struct

from roamcast.broker.mqtt.positions import shown
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.fence import Fence
from roamcast.model.filter.tree import Filter, Near, atoms
from roamcast.model.filter.write import to_text
from roamcast.model.region import Anchored, Box, Circle, Polygon, Region, Shape, placed
from roamcast.model.scope import Scope
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point, Velocity

FENCE = "fence"
SHOWN_US = 5_000_000
"""For so long the regions of an event are drawn that holds for a moment only."""
TYPE = "type"
PAYLOAD_BYTES_MAX = 4_096
"""A longer payload is not told."""

_decoder = msgspec.json.Decoder()


class Drawn(Struct, frozen=True):
    """A region on the map. `publisher` says where the anchor is if it is no client of this broker."""

    id: str
    of: str
    what: str
    region: Region
    until_us: int | None = None
    publisher: Context | None = None

    @property
    def anchor(self) -> str | None:
        return self.region.host if isinstance(self.region, Anchored) else None


def point_json(point: Point | None) -> list[float] | None:
    return None if point is None else [point.x, point.y]


def entity_json(context: Context, connected: bool, now_us: int, space: Space) -> dict[str, object] | None:
    """A client on the map; None if it is not shown, or nobody knows where it is."""
    seen = shown(context, space)
    here = None if seen is None else seen.position_at(now_us, space)
    if seen is None or here is None:
        return None
    kind = context.attributes.get(TYPE)
    return {
        "id": context.host,
        "at": point_json(here),
        "heading_deg": heading_deg(seen.velocity),
        "type": kind if isinstance(kind, str) else None,
        "here": connected,
    }


def heading_deg(velocity: Velocity | None) -> float | None:
    """From north, clockwise; None of who stands still."""
    if velocity is None or (velocity.east == 0 and velocity.north == 0):
        return None
    return round(math.degrees(math.atan2(velocity.east, velocity.north)) % 360, 1)


def shape_json(shape: Shape) -> dict[str, object]:
    match shape:
        case Circle(centre, radius_m):
            return {"circle": {"centre": point_json(centre), "radius_m": radius_m}}
        case Box(low, high):
            return {"box": [point_json(low), point_json(high)]}
        case Polygon(corners):
            return {"polygon": [point_json(corner) for corner in corners]}


def region_json(region: Region) -> dict[str, object]:
    """As it was said: one that is anchored in metres around its host."""
    if isinstance(region, Anchored):
        return {**shape_json(region.shape), "anchored": region.host, "reference": point_json(region.reference)}
    return shape_json(region)


def scope_json(scope: Scope) -> dict[str, object] | None:
    """None: every host."""
    if scope.region is None and scope.filter is None:
        return None
    return {
        "region": None if scope.region is None else region_json(scope.region),
        "filter": None if scope.filter is None else to_text(scope.filter),
    }


def drawn_json(drawn: Drawn, anchor: Context | None, now_us: int, space: Space) -> dict[str, object] | None:
    """None if nobody knows where its anchor is."""
    region = drawn.region
    if isinstance(region, Anchored):
        host = anchor or (drawn.publisher if drawn.publisher and drawn.publisher.host == region.host else None)
        here = None if host is None else host.position_at(now_us, space)
        if here is None:
            return None
        shape = placed(region.shape, here, space, region.reference)
    else:
        shape = region
    return {
        "id": drawn.id,
        "of": drawn.of,
        "what": drawn.what,
        "shape": shape_json(shape),
        "anchored": drawn.anchor,
        "until_us": drawn.until_us,
    }


def payload_json(payload: bytes) -> dict[str, object] | None:
    """What a payload says, if it is a JSON object of moderate length."""
    if not payload or len(payload) > PAYLOAD_BYTES_MAX:
        return None
    try:
        decoded = _decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def near_m(filter_: Filter) -> float | None:
    """How near a filter wants things to its reader: the widest of what it says."""
    return max((each.metres for each in atoms(filter_.root) if isinstance(each, Near)), default=None)


def drawn_of_event(event: Event) -> list[Drawn]:
    until_us = event.published_us + SHOWN_US if event.instantaneous else event.expires_us
    scopes = (("audience", event.audience), ("relevance", event.relevance))
    return [
        Drawn(f"{event.id}/{what}", event.id, what, scope.region, until_us, event.publisher)
        for what, scope in scopes
        if scope.region is not None
    ]


def drawn_of_fence(topic: str, fence: Fence) -> Drawn:
    """`topic` is that of the message which defines it, alone or with others."""
    return Drawn(f"{FENCE}/{fence.name}", topic, FENCE, fence.region)


def drawn_of_subscription(wanted: Subscription, topic: str) -> list[Drawn]:
    name = f"{wanted.subscriber}/{topic}"
    until_us = None if wanted.expires_us == FOREVER_US else wanted.expires_us
    found: list[Drawn] = []
    if wanted.interest.region is not None:
        found.append(Drawn(f"{name}/interest", wanted.subscriber, "interest", wanted.interest.region, until_us))
    metres = near_m(wanted.filter)
    if metres:
        around = Anchored(Circle(Point(0.0, 0.0), metres), wanted.subscriber)
        found.append(Drawn(f"{name}/near", wanted.subscriber, "near", around, until_us))
    return found
