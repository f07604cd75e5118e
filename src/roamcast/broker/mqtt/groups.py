"""Groups of shared subscriptions whose members are at several brokers: each message goes to one member in all.

Every broker knows every member: that a client joins a group, leaves it, or is connected or away, is a message that
goes to all brokers and is kept by them, as a retained one is (`keeping.py`), under a topic that no client can name.
So it spreads, is handed to brokers that meet, and of two that contradict each other the later one holds. The broker
at which a member is connected knows best: what others say of it that is not so, because they were cut off or their
clocks are ahead, it contradicts.

The broker at which a message is published chooses the member, in turn, and the choice travels with the message. It is
a client and not a broker: wherever the client goes meanwhile, the message comes to its session, as any other does. A
broker that has heard of no member yet chooses none; then each broker that has some lets one of them have it.

Only members that want everything of their topics can be chosen from afar. A group of which all have filters, scopes,
modulators or an expiry is a group at each broker; where some have, the others are chosen.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct

from roamcast.broker.messages import Notified
from roamcast.broker.mqtt.effects import Remark
from roamcast.broker.mqtt.events import Events
from roamcast.broker.mqtt.properties import is_common
from roamcast.broker.mqtt.retained import Retained
from roamcast.broker.router import CLIENT
from roamcast.model.context import Context
from roamcast.model.topics import TopicTrie
from roamcast.mqtt.messages import Choice, Message
from roamcast.mqtt.messages import Subscription as Asked

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

GROUP_TOPIC = "$roam/group/"
Key: TypeAlias = tuple[str, str]
"""Group and pattern."""


CONNECTED, AWAY, GONE = b"connected", b"away", b""
"""What is said of a member. Nothing is kept of one that is gone."""


class Member(Struct, frozen=True, array_like=True):
    client: str
    group: str
    pattern: str


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Member)


class Groups:
    def __init__(self, border: "MqttBorder", events: Events, retained: Retained) -> None:
        self.border = border
        self.events = events
        self.retained = retained
        self.members: dict[Key, dict[str, bool]] = {}
        """By group, its members in the order of their names, and whether each is connected."""
        self._tree: TopicTrie[Key] = TopicTrie()
        self._turns: dict[Key, int] = {}
        """How many messages each group has had from here."""
        self._passing_turns: dict[Key, int] = {}
        """Of QoS 0, which is not logged: it must not change whose turn it is with the others."""
        self.doubtful: dict[Member, None] = {}
        """Of whom another broker has said since somebody looked that they are away or gone."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_tree": None, "_passing_turns": {}}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update({"doubtful": {}, **state})
        self._tree = TopicTrie()
        for key in self.members:
            self._tree.add(key[1], key[0], key)

    # Of clients here.

    def joined(self, client: str, asked: Iterable[Asked], connected: bool) -> None:
        for each in asked:
            if is_common(each) and each.filter.group is not None:
                member = Member(client, each.filter.group, each.filter.pattern)
                self._tell(member, CONNECTED if connected else AWAY)

    def left(self, client: str, asked: Iterable[Asked]) -> None:
        for each in asked:
            if is_common(each) and each.filter.group is not None:
                self._tell(Member(client, each.filter.group, each.filter.pattern), GONE)

    def left_all(self, client: str) -> None:
        """It has begun anew: its last session, at whichever broker, will not say any more that it has left."""
        for group, pattern in [key for key, members in self.members.items() if client in members]:
            self._tell(Member(client, group, pattern), GONE)

    def _tell(self, member: Member, state: bytes) -> None:
        known = self.members.get((member.group, member.pattern), {}).get(member.client)
        if (GONE if known is None else CONNECTED if known else AWAY) == state:
            return
        message = Message(GROUP_TOPIC + _encoder.encode(member).hex(), state, 1, True)
        before = self.retained.of.get(message.topic)
        # Later than what it contradicts, though the clock of another broker may be ahead of this one's.
        now_us = self.border.now_us if before is None else max(self.border.now_us, before[0].published_us + 1)
        event = self.events.event_of(Context(self.border.host), message, now_us)
        self.border.finish(self.border.route(Notified(event, 0), CLIENT))

    # Of clients anywhere.

    def heard(self, topic: str, state: bytes, from_here: bool) -> None:
        """What holds now of a member, and whether this broker said it."""
        try:
            member = _decoder.decode(bytes.fromhex(topic.removeprefix(GROUP_TOPIC)))
        except (msgspec.MsgspecError, ValueError) as problem:
            self.border.emit(Remark("bad_hand_over", f"{topic}: {problem}"))
            return
        if state != CONNECTED and not from_here:
            self.doubtful[member] = None
        key = (member.group, member.pattern)
        members = {**self.members.get(key, {}), member.client: state == CONNECTED}
        if state == GONE:
            del members[member.client]
        if members:
            self.members[key] = dict(sorted(members.items()))
            self._tree.add(member.pattern, member.group, key)
        elif key in self.members:
            del self.members[key]
            self._tree.remove(member.pattern, member.group)
            self._turns.pop(key, None)
            self._passing_turns.pop(key, None)

    def insist(self) -> None:
        """Contradicts what was said of members that are connected here."""
        doubtful, self.doubtful = self.doubtful, {}
        for member in doubtful:
            session = self.border.sessions.get(member.client)
            if session is not None and session.connected:
                mine = (each for each in session.asked if each.filter.group == member.group)
                self.joined(member.client, (each for each in mine if each.filter.pattern == member.pattern), True)

    def choose(self, topic: str, passing: bool) -> tuple[Choice, ...]:
        """Of each group that wants a message of this topic, who is to have it."""
        if not self.members:
            return ()
        return tuple(Choice(*key, self._turn(key, passing)) for key in sorted(self._tree.matching(topic)))

    def _turn(self, key: Key, passing: bool) -> str:
        members = self.members[key]
        names = [name for name, connected in members.items() if connected] or list(members)
        turns = self._passing_turns if passing else self._turns
        turn = turns.get(key, 0)
        turns[key] = turn + 1
        return names[turn % len(names)]
