"""User properties of MQTT as the model's values: filters, scopes and lifetimes (docs/PROTOCOL.md, sections 3 and 4).

A filter is CQL2, as text or JSON. A scope is a filter over hosts, or a JSON object with a place in it
(`model/scope_text.py`).
"""

import msgspec

from roamcast.model.filter import EVERYTHING, BadFilter, Filter
from roamcast.model.filter.tree import over_neighbours
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.scope_text import ScopeText, read_filter
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US
from roamcast.mqtt.messages import SECOND_US, Message
from roamcast.mqtt.messages import Subscription as Asked
from roamcast.mqtt.origin import ORIGIN_PROPERTY
from roamcast.mqtt.packets import Pairs

SUBSCRIBE_NAMES = ("filter", "interest", "publishers", "modulator", "expiry", ORIGIN_PROPERTY)
PERSIST = "persist"
WITHDRAW = "withdraw"
OWN_ID = "id"
"""A publisher's own name for a message, by which it can withdraw it."""
PUBLISH_NAMES = ("relevance", "audience", PERSIST, WITHDRAW)


ID_SIGN = "\0"
"""Between client and topic filter in the id of a subscription: neither can hold it."""


def subscription_id(client: str, text: str) -> str:
    return f"{client}{ID_SIGN}{text}"


def text_of(subscription: str) -> str:
    """The topic filter in a subscription's id."""
    return subscription.partition(ID_SIGN)[2]


class BadProperty(ValueError):
    """A user property of ours that cannot be understood; the message names it and says what is allowed."""


def ours(pairs: Pairs, names: tuple[str, ...]) -> dict[str, str]:
    """Those of the user properties that mean something to the broker. One that comes twice says nothing for sure."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in names:
            if name in found:
                raise BadProperty(f"'{name}' appears twice")
            found[name] = value
    return found


def filter_of(name: str, text: str) -> Filter:
    try:
        found = read_filter(text)
    except BadFilter as problem:
        # Without the caret below it: libmosquitto takes a packet with a line break in its reason string for broken,
        # and connects again and again without a word.
        raise BadProperty(f"{name}: {str(problem).splitlines()[0]}") from problem
    if over_neighbours(found):
        raise BadProperty(f"{name}: a broker does not know neighbours; only ad hoc nodes of the context protocol do")
    return found


_scope_decoder = msgspec.json.Decoder(ScopeText)


def scope_of(name: str, text: str, host: str, space: Space) -> Scope:
    if text.lstrip()[:1] != "{" or '"op"' in text:
        return Scope(None, filter_of(name, text))
    try:
        given = _scope_decoder.decode(text)
        region = given.region(host, space)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BadProperty(f"{name}: {problem}") from problem
    return Scope(region, None if given.filter is None else filter_of(name, given.filter))


def subscription_of(client: str, asked: Asked, now_us: int, space: Space) -> Subscription:
    """What a client asks for, in the model's words; raises `BadProperty`."""
    said = ours(asked.user_properties, SUBSCRIBE_NAMES)
    if said.get(ORIGIN_PROPERTY, "true") not in ("true", "false"):
        raise BadProperty(f"{ORIGIN_PROPERTY}: '{said[ORIGIN_PROPERTY]}' is neither true nor false")
    expires_us = FOREVER_US
    if "expiry" in said:
        expires_us = now_us + _seconds("expiry", said["expiry"]) * SECOND_US
    return Subscription(
        subscription_id(client, asked.filter.text),
        client,
        asked.filter.pattern,
        now_us,
        expires_us,
        filter_of("filter", said["filter"]) if "filter" in said else EVERYTHING,
        scope_of("interest", said["interest"], client, space) if "interest" in said else EVERYWHERE,
        scope_of("publishers", said["publishers"], client, space) if "publishers" in said else EVERYWHERE,
        said.get("modulator", ""),
    )


def _seconds(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise BadProperty(f"{name}: '{text}' is not a whole number of seconds")
    return int(text)


def is_lasting(message: Message) -> bool:
    """Whether it stays until it expires; `check_lasting` has found that it can."""
    return bool(message.user_properties) and (PERSIST, "true") in message.user_properties


def must_reach_all(message: Message) -> bool:
    """Whether every broker must have it: what is retained, lasts, or withdraws what lasts."""
    return message.retain or (bool(message.user_properties) and (is_lasting(message) or withdrawn_by(message) != ""))


def withdrawn_by(message: Message) -> str:
    """The `id` of the message that this one withdraws; empty for any other message."""
    return value_of(message, WITHDRAW)


def own_id_of(message: Message) -> str:
    return value_of(message, OWN_ID)


def value_of(message: Message, name: str) -> str:
    return next((value for each, value in message.user_properties if each == name), "")


def check_lasting(message: Message) -> None:
    """Raises `BadProperty`."""
    if not message.user_properties:
        return
    found = ours(message.user_properties, (PERSIST, WITHDRAW, ORIGIN_PROPERTY))
    if WITHDRAW in found and (not found[WITHDRAW] or len(found) > 1 or message.retain):
        raise BadProperty(f"{WITHDRAW}: give the id of an own message, in one that neither lasts nor is retained")
    said = found.get(PERSIST, "false")
    if said not in ("true", "false"):
        raise BadProperty(f"{PERSIST}: '{said}' is neither true nor false")
    if said == "true" and message.expires_us is None:
        raise BadProperty(f"{PERSIST}: a message that stays needs a Message Expiry Interval")


def scopes_of(client: str, pairs: Pairs, space: Space) -> tuple[Scope, Scope]:
    """Relevance and audience of a publication; raises `BadProperty`."""
    said = ours(pairs, PUBLISH_NAMES)
    return (
        scope_of("relevance", said["relevance"], client, space) if "relevance" in said else EVERYWHERE,
        scope_of("audience", said["audience"], client, space) if "audience" in said else EVERYWHERE,
    )


def is_common(asked: Asked) -> bool:
    """A member of a group that wants every message of its topics, under the group's own name."""
    shared = asked.filter
    return shared.text == f"$share/{shared.group}/{shared.pattern}" and not any(
        name in SUBSCRIBE_NAMES for name, _ in asked.user_properties
    )
