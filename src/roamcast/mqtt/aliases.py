"""Topic aliases: a number that stands for a topic for as long as a connection lasts, in each direction its own."""

from roamcast.mqtt.packets import Publish
from roamcast.mqtt.reasons import ProtocolError, Reason


class AliasesIn:
    """Those that the client made."""

    __slots__ = ("_topics", "alias_max")

    def __init__(self, alias_max: int) -> None:
        self.alias_max = alias_max
        self._topics: dict[int, str] = {}

    def topic_of(self, packet: Publish) -> str:
        alias = packet.topic_alias
        if alias is None:
            return packet.topic
        if alias > self.alias_max:
            raise ProtocolError(
                f"topic alias {alias}, at most {self.alias_max} were granted", Reason.TOPIC_ALIAS_INVALID
            )
        if packet.topic:
            self._topics[alias] = packet.topic
            return packet.topic
        topic = self._topics.get(alias)
        if topic is None:
            raise ProtocolError(f"topic alias {alias} stands for nothing yet")
        return topic


class AliasesOut:
    """Those made towards the client; the one that was not used for longest makes room for a new topic."""

    __slots__ = ("_aliases", "alias_max")

    def __init__(self, alias_max: int) -> None:
        self.alias_max = alias_max
        self._aliases: dict[str, int] = {}

    def use(self, topic: str) -> tuple[str, int]:
        """The topic to write, empty when the client knows the alias, and the alias."""
        alias = self._aliases.pop(topic, None)
        if alias is not None:
            self._aliases[topic] = alias
            return "", alias
        if len(self._aliases) < self.alias_max:
            alias = len(self._aliases) + 1
        else:
            alias = self._aliases.pop(next(iter(self._aliases)))
        self._aliases[topic] = alias
        return topic, alias
