"""Statements: the parts of a message that its origin signs, whoever forwards it.

Every frame is signed by its sender, and that says enough as long as the sender is the origin. What may travel on is
signed for itself as well.

A forwarder changes little: how old a message is, where it is now, how it travels. All else is its origin's, and is
signed by it. So a statement is the message with what forwarders change left out, in bytes that everybody who decodes
the message arrives at again.

| message | its statements |
|---|---|
| announced, wanted, withdrawn, raised, missed | the message without its age and the way that is left, by its host |
| event, matched-event, digest | each event and whether it is withdrawn, by its publisher |
| any with an event that a gateway brought | the same, by the gateway |
| subscription, digest | each subscription and whether it is withdrawn, by its subscriber |
| event, subscription, digest, renewal | what goes on, its version, where it is held and its issuer reached, by it |
| beacon, unknown, untold, matching-request, query, answer | none: their sender says them of itself, or asks |

Where a telling is to go follows from what its issuer signed, so a route that leads elsewhere is forged.

An id is the name of its host, a colon, and no colon after that, as `node/port.py` makes them, and so is the stream in
which an event is numbered. Without that anybody could withdraw what another announced, or use up another's ids and
numbers.
"""

from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from roamcast.adhoc.context.messages import (
    Digest,
    EventItem,
    EventMessage,
    MatchedEvent,
    Reach,
    Renewal,
    SubscriptionItem,
    SubscriptionMessage,
    telling_id,
)
from roamcast.adhoc.proximity.messages import Announced, Missed, Raised, Wanted, Withdrawn
from roamcast.adhoc.routes import Route
from roamcast.model.event import Event
from roamcast.model.region import Shape
from roamcast.model.subscription import Subscription
from roamcast.multicast.carried import carried_in
from roamcast.multicast.drops import Dropped
from roamcast.node.boundary import Message

_encoder = msgspec.msgpack.Encoder()


class Statement(Struct, frozen=True):
    origin: str
    said: bytes
    carried: bool = False
    """Whether the origin is a gateway that speaks for the publisher."""


def statements_of(message: Message) -> tuple[Statement, ...]:
    """In an order that sender and receiver share; raises `Dropped` when an id is not its host's."""
    match message:
        case Raised(event, age_us=age_us):
            whole = message if age_us == 0 else replace(message, age_us=0)
            statement = by_speaker(event, _encoder.encode(whole))
            owner_of(message.stream, statement.origin)
            return (statement,)
        case Announced(announcement=announcement):
            origin = owner_of(announcement.id, announcement.producer)
            return (Statement(origin, _encoder.encode(replace(message, age_us=0))),)
        case Wanted(subscription_id=wanted_id, consumer=consumer):
            return (Statement(owner_of(wanted_id, consumer), _encoder.encode(replace(message, age_us=0))),)
        case Withdrawn(proximity_id):
            return (Statement(host_in(proximity_id), _encoder.encode(message)),)
        case Missed(asker):
            return (Statement(asker, _encoder.encode(replace(message, left_m=0.0))),)
        case EventMessage(route=route, item=item, withdrawn=withdrawn):
            check_route(route, telling_of_event(item))
            return of_event_item(item, withdrawn)
        case SubscriptionMessage(route=route, item=wanted, withdrawn=withdrawn):
            check_route(route, telling_of_subscription(wanted))
            return of_subscription_item(wanted, withdrawn)
        case Renewal(route=route, issue=issue, issued_us=issued_us, reach=reach, region=region):
            kind: Literal["e", "s"] = "e" if route.id.startswith("e/") else "s"
            telling = Telling(kind, issue, issued_us, reach, region)
            check_route(route, telling)
            return (of_telling(telling, kind == "e" and host_in(issue) != reach.issuer.host),)
        case MatchedEvent(event=event):
            return (of_event(event),)
        case Digest(_, events, subscriptions):
            return (
                *(statement for item in events for statement in of_event_item(item)),
                *(statement for item in subscriptions for statement in of_subscription_item(item)),
            )
        case _:
            return ()


def travels(message: Message) -> bool:
    """Whether others may pass a message on, and so need its origin's signatures."""
    match message:
        case Raised() | Announced() | Wanted() | Missed():
            return message.forward
        case _:
            return True


def is_last_word(message: Message, host: str) -> bool:
    """Whether all that a message states is its host's own and goes no further: its frame's signature is enough."""
    if type(message) is not Raised or message.forward:
        return False
    event = message.event
    return (
        event.publisher.host == host
        and event.body is None
        and host_in(event.id) == host
        and host_in(message.stream) == host
    )


def of_event(event: Event, withdrawn: bool = False) -> Statement:
    return by_speaker(event, _encoder.encode(("event withdrawn" if withdrawn else "event", event)))


def by_speaker(event: Event, said: bytes) -> Statement:
    """By its publisher; what a gateway brought is stated by the gateway, whose publisher is elsewhere (L9)."""
    carried = carried_in(event)
    if carried is not None:
        return Statement(carried.gateway, said, True)
    return Statement(owner_of(event.id, event.publisher.host), said)


def of_subscription(subscription: Subscription, withdrawn: bool) -> Statement:
    origin = owner_of(subscription.id, subscription.subscriber)
    return Statement(origin, _encoder.encode(("subscription", subscription, withdrawn)))


def of_event_item(item: EventItem, withdrawn: bool = False) -> tuple[Statement, ...]:
    event = of_event(item.event, withdrawn)
    return event, of_telling(telling_of_event(item), event.carried)


def of_subscription_item(item: SubscriptionItem, withdrawn: bool = False) -> tuple[Statement, ...]:
    return of_subscription(item.subscription, withdrawn), of_telling(telling_of_subscription(item))


class Telling(Struct, frozen=True):
    """What an issuer says anew with each refresh. Forwarders change the rest of its reach: the age, and its place."""

    kind: Literal["e", "s"]
    issue: str
    issued_us: int
    reach: Reach
    region: Shape


def telling_of_event(item: EventItem) -> Telling:
    return Telling("e", item.event.id, item.event.published_us, item.reach, item.region)


def telling_of_subscription(item: SubscriptionItem) -> Telling:
    return Telling("s", item.subscription.id, item.subscription.issued_us, item.reach, item.region)


def of_telling(telling: Telling, carried: bool = False) -> Statement:
    """By the issuer: whose id it is, or, of an event that gateways brought, one of them."""
    reach, issuer = telling.reach, telling.reach.issuer.host
    said = _encoder.encode(
        ("telling", telling.kind, telling.issue, telling.issued_us, reach.version, reach.region, telling.region)
    )
    return Statement(issuer if carried else owner_of(telling.issue, issuer), said, carried)


def check_route(route: Route, telling: Telling) -> None:
    reach = telling.reach
    if route.target != telling.region:
        raise Dropped("forged", f"'{telling.issue}' on its way to where it is not held")
    if route.id != telling_id(telling.kind, telling.issue, reach.issuer.host, reach.version):
        raise Dropped("forged", f"'{route.id}' is not the way of '{telling.issue}'")


def host_in(own_id: str) -> str:
    """Up to the last colon: a name may have some itself."""
    return own_id.rpartition(":")[0]


def owner_of(own_id: str, host: str) -> str:
    if host_in(own_id) != host:
        raise Dropped("forged", f"'{own_id}' is not an id of '{host}'")
    return host
