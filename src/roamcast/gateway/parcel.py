"""An event that crosses a gateway, in its three forms: a parcel, an ad hoc event, a broker's message.

    area            the event itself if it began there, else one with the mark of `multicast/carried.py`
    gateway         a `Parcel`: the event as its publisher raised it, and what goes with it
    broker          subject and payload as any MQTT client sees them, and the user property `origin`

From a parcel to either side and back is the identity. What brokers match by is the origin's own scopes, around its
own publisher. Nodes of an area cannot know where a publisher is that is not among them: there a region that moves
with the publisher lies where the publisher was when it raised the event.

In the proximity protocol an event belongs to a proximity that its producer announced. That of a gateway is wide, one
for each subject; the place in the event's own audience becomes a part of the filter over who receives it.
"""

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from roamcast.client.content import attributes_of, payload_of
from roamcast.client.inbox import ClientEvent
from roamcast.client.packing import ID
from roamcast.model.event import Event, EventType
from roamcast.model.filter.tree import And, Attribute, Filter, Inside
from roamcast.model.region import Anchored, Region, Shape, placed
from roamcast.model.scope import Scope
from roamcast.model.space import Space
from roamcast.model.values import BadValue
from roamcast.mqtt.origin import ORIGIN_PROPERTY, origin_in, origin_of, origin_text
from roamcast.mqtt.packets import Pairs
from roamcast.multicast.carried import Carried, body_of, carried_in

SECOND_US = 1_000_000
EXPIRY_S_MAX = 2**32 - 1
MEANT_FOR_BROKERS = (ID, ORIGIN_PROPERTY, "relevance", "audience", "persist", "publisher")
"""User properties whose meaning is in the origin, or that hold for one tree of brokers alone."""


class Parcel(Struct, frozen=True):
    event: Event
    """As its publisher raised it, with no body."""
    payload: bytes
    """What MQTT clients read."""
    event_type: EventType | None = None
    properties: Pairs = ()


# An area.


def parcel_from_area(event: Event, event_type: EventType | None) -> Parcel:
    """`event_type` is what its subject is known to be in the area."""
    carried = carried_in(event)
    if carried is None:
        return Parcel(replace(event, body=None), payload_of(event.attributes), event_type)
    payload = payload_of(event.attributes) if carried.payload is None else carried.payload
    began = replace(event, relevance=carried.relevance, audience=carried.audience, body=None)
    return Parcel(began, payload, carried.event_type, carried.properties)


def event_for_area(parcel: Parcel, gateway: str, space: Space, proximity: Region | None) -> Event:
    """`proximity` is the gateway's own, where the protocol has such. Raises `BadValue` if a scope has no place: its
    publisher did not know where it was."""
    event = parcel.event
    carried = Carried(
        gateway,
        event.relevance,
        event.audience,
        parcel.event_type,
        None if parcel.payload == payload_of(event.attributes) else parcel.payload,
        parcel.properties,
    )
    audience = fixed(event.audience, event, space)
    if proximity is not None:
        audience = Scope(proximity, as_filter(audience))
    return replace(event, relevance=fixed(event.relevance, event, space), audience=audience, body=body_of(carried))


def fixed(scope: Scope, event: Event, space: Space) -> Scope:
    """The scope with its region where it was when the event was raised."""
    region = scope.region
    if not isinstance(region, Anchored):
        return scope
    naval = event.publisher.position_at(event.published_us, space)
    if region.host != event.publisher.host or naval is None:
        raise BadValue(f"'{event.id}' is for a place around '{region.host}', and it does not say where that is")
    return replace(scope, region=placed(region.shape, naval, space, region.reference))


def as_filter(scope: Scope) -> Filter | None:
    """A scope with a fixed region, or none, as a filter over hosts."""
    region = scope.region
    if region is None:
        return scope.filter
    assert isinstance(region, Shape)
    inside = Inside(Attribute("position"), region)
    return Filter(inside if scope.filter is None else And((inside, scope.filter.root)))


# A broker.


class Publication(Struct, frozen=True):
    """What the client of a gateway is to publish."""

    id: str
    subject: str
    payload: bytes
    properties: Pairs
    expiry_s: int | None


def publication_of(parcel: Parcel, now_us: int) -> Publication:
    event = parcel.event
    left_s = None
    if not event.instantaneous:
        left_s = max(1, math.ceil((event.expires_us - now_us) / SECOND_US))
    origin = origin_text(origin_of(event, parcel.event_type))
    return Publication(
        event.id,
        event.subject,
        parcel.payload,
        ((ORIGIN_PROPERTY, origin), *parcel.properties),
        None if left_s is None or left_s > EXPIRY_S_MAX else left_s,
    )


def parcel_from_broker(subject: str, payload: bytes, properties: Sequence[tuple[str, str]]) -> Parcel:
    """Raises `BadValue`, also for a message of which the broker does not tell the origin."""
    pairs = tuple(properties)
    origin = origin_in(pairs)
    if origin is None:
        raise BadValue(f"'{subject}': the broker does not tell origins, so it cannot be known again")
    event = Event(
        origin.id,
        subject,
        origin.publisher,
        origin.published_us,
        origin.expires_us,
        attributes_of(payload),
        origin.relevance,
        origin.audience,
    )
    others = tuple(pair for pair in pairs if pair[0] not in MEANT_FOR_BROKERS)
    return Parcel(event, payload, origin.event_type, others)


def parcel_of(delivered: ClientEvent) -> Parcel:
    return parcel_from_broker(delivered.subject, delivered.payload, delivered.properties)
