"""The user property `origin`: where an event was first published, if it came through a gateway (L9).

A gateway publishes at a broker what somebody else raised in an ad hoc area. The event is still that publisher's: it
keeps its id, its publisher with place and attributes, its times and its scopes, and all of that is in this property.
The other way round a subscription may ask for it, and then brokers tell the origin of everything that they deliver to
it: MQTT itself does not say who published a message. docs/PROTOCOL.md, section 15.
"""

import msgspec
from msgspec import Struct

from roamcast.model.context import Context
from roamcast.model.event import Event, EventType
from roamcast.model.region import check_region
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Space
from roamcast.model.values import BadValue
from roamcast.mqtt.packets import Pairs

ORIGIN_PROPERTY = "origin"
"""Of a publication: the origin as JSON. Of a subscription: `true` asks for it."""
SPEAKING_TOPIC = "$roam/origin"
"""Who may publish to this may speak for others; nobody ever does publish to it."""


class Origin(Struct, frozen=True, omit_defaults=True):
    id: str
    publisher: Context
    published_us: int
    expires_us: int
    relevance: Scope = EVERYWHERE
    audience: Scope = EVERYWHERE
    event_type: EventType | None = None
    """As it was announced in the area that it comes from: what its attributes are, how it wants to be delivered."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Origin)


def origin_of(event: Event, event_type: EventType | None = None) -> Origin:
    return Origin(
        event.id,
        event.publisher,
        event.published_us,
        event.expires_us,
        event.relevance,
        event.audience,
        event_type,
    )


def origin_text(origin: Origin) -> str:
    return _encoder.encode(origin).decode()


def origin_in(pairs: Pairs) -> Origin | None:
    """What a message says of its origin; raises `BadValue` if that cannot be understood."""
    said = [value for name, value in pairs if name == ORIGIN_PROPERTY]
    if not said:
        return None
    if len(said) > 1:
        raise BadValue(f"'{ORIGIN_PROPERTY}' appears twice")
    try:
        return _decoder.decode(said[0])
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BadValue(f"{ORIGIN_PROPERTY}: {problem}") from problem


def check_origin(origin: Origin, space: Space) -> None:
    """Raises `BadValue` for places that are not in this space."""
    for point in (origin.publisher.position, origin.publisher.destination):
        if point is not None:
            space.check(point)
    for scope in (origin.relevance, origin.audience):
        if scope.region is not None:
            check_region(scope.region, space)
