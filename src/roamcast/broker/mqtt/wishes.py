"""What each subscription of a client asks for, in which form it sees a message, and which clients see it alike."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from roamcast.broker.mqtt.events import asks_origin
from roamcast.broker.session import Session
from roamcast.model.filter import EVERYTHING
from roamcast.model.scope import EVERYWHERE
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US
from roamcast.mqtt.messages import Form, Message
from roamcast.mqtt.messages import Subscription as Asked
from roamcast.mqtt.origin import ORIGIN_PROPERTY

RETAINED = "\0retained"
"""Stands first among the subscriptions of a delivery that was there before them."""
Shape: TypeAlias = tuple[str, int, int | None, bool]
"""Which messages two subscriptions show alike: topic filter, QoS, identifier, and whether origins are told."""
TELLS_ORIGIN = (ORIGIN_PROPERTY, "true")
Group: TypeAlias = tuple[str, str]
"""Of a shared subscription: its name and the pattern."""


class Receivers(Struct, frozen=True):
    """Clients that see a message alike."""

    clients: tuple[str, ...]
    retain_as_published: bool
    subscription_ids: tuple[int, ...]


Plan: TypeAlias = list[Receivers]


class Entry(Struct, frozen=True):
    client: str
    asked: Asked
    wanted: Subscription
    plain: bool
    """Whether it wants every message of its topics."""
    group: Group | None
    shape: Shape | None = None
    """None: a modulator says what its client sees."""
    observed: str | None = None
    """The id of the subscription, where the model has words for it."""


Recipients: TypeAlias = list[tuple[str, list[Entry]]]
"""Clients, with those of their subscriptions that want something."""
AskedBy: TypeAlias = list[tuple[str, list[Asked]]]
"""The same, as the clients asked for it."""


class Route(Struct, frozen=True):
    """Who gets every message of a topic, whatever it says."""

    reliable: Recipients
    """By QoS 1 or 2."""
    others: AskedBy
    plan: Plan
    """The same others."""


def entry_of(client: str, asked: Asked, wanted: Subscription) -> Entry:
    shape = (asked.filter.text, asked.qos, asked.subscription_id, TELLS_ORIGIN in asked.user_properties)
    observed = wanted.id if asked.filter.group is None and not asked.no_local else None
    group = group_of(asked)
    return Entry(client, asked, wanted, is_plain(asked, wanted), group, None if wanted.modulator else shape, observed)


def asked_of(entries: Iterable[Entry]) -> list[Asked]:
    return [each.asked for each in entries]


def alike(recipients: AskedBy) -> Plan:
    """By whether they want to see that a message is retained, and by their own identifiers."""
    found: dict[tuple[bool, tuple[int, ...]], list[str]] = {}
    for client, asked in recipients:
        retain = any(each.retain_as_published for each in asked)
        found.setdefault((retain, ids_of(asked)), []).append(client)
    return [Receivers(tuple(clients), *form) for form, clients in found.items()]


def ids_of(asked: Iterable[Asked]) -> tuple[int, ...]:
    """The identifiers of subscriptions that a client sees with a message."""
    return tuple(sorted({each.subscription_id for each in asked if each.subscription_id is not None}))


def is_plain(asked: Asked, wanted: Subscription) -> bool:
    return is_simple(wanted) and is_own(asked, wanted)


def is_own(asked: Asked, wanted: Subscription) -> bool:
    """Whether its client gets what it wants whoever else does, and as it was published."""
    own = not asked.no_local and asked.filter.group is None and TELLS_ORIGIN not in asked.user_properties
    return own and not wanted.modulator


def is_simple(wanted: Subscription) -> bool:
    """Whether nothing but the subject of an event and its own scopes decides."""
    return wanted.filter == EVERYTHING and not is_scoped(wanted) and wanted.expires_us == FOREVER_US


def is_scoped(wanted: Subscription) -> bool:
    return wanted.interest != EVERYWHERE or wanted.publishers != EVERYWHERE


def group_of(asked: Asked) -> Group | None:
    group = asked.filter.group
    return None if group is None else (group, asked.filter.pattern)


def client_of(entry: Entry) -> str:
    return entry.client


def asked_by(session: Session, names: Iterable[str]) -> list[Asked]:
    """Those of its subscriptions with these names that are there still."""
    known, told = session.subscriptions, session.attachment.told
    if session.attachment.claim is not None and told is not None:
        # It has gone on, and wants nothing here any more: what was held for it is seen as its last broker said.
        known = {each.name: each for each in told.interests}
    asked = [known[name].asked for name in names if name in known]
    return [each for each in asked if each is not None]


def form_of(message: Message, asked: Sequence[Asked], retained: bool = False) -> Form:
    """How a client sees a message: as its subscriptions say, or as it was published if they are gone."""
    if len(asked) == 1 and not (retained or message.retain):
        # Nearly always.
        [only] = asked
        ids = () if only.subscription_id is None else (only.subscription_id,)
        return Form(min(message.qos, only.qos), False, ids, bool(only.user_properties) and asks_origin(asked))
    granted = max((each.qos for each in asked), default=message.qos)
    retain = retained or (message.retain and any(each.retain_as_published for each in asked))
    all_ids = tuple(sorted({each.subscription_id for each in asked if each.subscription_id is not None}))
    return Form(min(message.qos, granted), retain, all_ids, asks_origin(asked))
