"""Stored state of earlier versions, brought forward one version at a time.

A state is an object graph. What a version has added is set here as a new broker would have it, and what it has
dropped is removed; whatever else differs in a class must be read by that class itself. Each function takes a state of
the version it is listed under to the next. `tests/broker/mqtt/kept` has a directory that each version wrote.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from roamcast.broker.logical.following import FORMER_MAX
from roamcast.broker.mqtt.anchors import Anchors
from roamcast.broker.mqtt.fencing import Fencing
from roamcast.broker.mqtt.giving import Giving
from roamcast.broker.mqtt.owners import Owners
from roamcast.broker.mqtt.walking import Walking
from roamcast.broker.stream import Stream, size_bytes

if TYPE_CHECKING:
    from roamcast.broker.mqtt.core import Core


def to_13(core: "Core") -> None:
    """MQTT clients whose subscriptions read their own place are followed from broker to broker. Those from before
    stay as they are, wide, until they are subscribed to again."""
    border = core.border
    border.judges_when_published = True
    border.walking = Walking(border)
    core.broker.logical.following.former = deque(maxlen=FORMER_MAX)
    vars(core.broker.logical).pop("measures", None)
    vars(border.publishing).pop("travelling", None)
    for session in border.sessions.values():
        session.stated_us = session.residence_us = 0


def to_14(core: "Core") -> None:
    """Sessions in a mesh know since when their client is here."""
    for session in core.border.sessions.values():
        vars(session).setdefault("came_us", 0)


def to_15(core: "Core") -> None:
    """What waits for a neighbour may be on the disk, brokers tell each other whose client ids are, and they know
    fences, and sessions those that their clients are in."""
    core.border.owners = core.border.keeping.owners = Owners(core.border, core.events)
    neighbours = core.broker.neighbours
    neighbours.disk, neighbours.segments, neighbours.confirming = core.border.linking, 0, {}
    neighbours.router.lost = {}
    for stream in neighbours.streams.of.values():
        known = vars(stream)
        new = vars(Stream(stream.peer, stream.peer_life))
        known.pop("spared", None)
        vars(stream).update({**new, **known})
        stream.waiting_bytes = sum([size_bytes(each.message) for each in stream.waiting])
    core.border.fencing = Fencing(core.border, core.events)
    for session in core.border.sessions.values():
        session.fence_stays, session.fences_known = {}, -1


def to_16(core: "Core") -> None:
    """Fences may move with clients, and sessions know when their client's last place came."""
    fencing = core.border.fencing
    fencing.anchors = Anchors(core.border, core.events)
    for session in core.border.sessions.values():
        session.fixed_us = 0


def to_17(core: "Core") -> None:
    """Retained messages are given to new subscriptions in portions, and sessions know how long theirs are."""
    border = core.border
    for session in border.sessions.values():
        session.subscriptions_bytes = sum(each.size_bytes for each in session.subscriptions.values())
    border.giving = Giving(border, border.audience, border.retained)
    vars(border.subscribing).pop("retained", None)


UPGRADES: Mapping[int, Callable[["Core"], None]] = {12: to_13, 13: to_14, 14: to_15, 15: to_16, 16: to_17}


def upgrade(core: "Core", version: int, to: int) -> None:
    for number in range(version, to):
        UPGRADES[number](core)


def reaches(version: int, to: int) -> bool:
    """Whether there is a way from one to the other."""
    return version <= to and all(number in UPGRADES for number in range(version, to))
