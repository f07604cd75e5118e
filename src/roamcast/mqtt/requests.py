"""SUBSCRIBEs and UNSUBSCRIBEs of one connection that wait for the broker's decision."""

from collections.abc import Sequence

from msgspec import Struct

from roamcast.mqtt.messages import Subscription, subscription_of
from roamcast.mqtt.packets import Subscribe, Unsubscribe
from roamcast.mqtt.reasons import ProtocolError, Reason
from roamcast.mqtt.topics import BadTopicFilter, parse_filter


class Asked(Struct, frozen=True):
    """One line of a SUBSCRIBE: for the broker to decide, or refused already."""

    subscription: Subscription | None
    refusal: Reason = Reason.TOPIC_FILTER_INVALID


class Requests:
    __slots__ = ("_subscribes", "_unsubscribes")

    def __init__(self) -> None:
        self._subscribes: dict[int, tuple[Asked, ...]] = {}
        self._unsubscribes: dict[int, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._subscribes) + len(self._unsubscribes)

    def subscribe(self, packet: Subscribe) -> tuple[Subscription, ...]:
        """Those that the broker is to decide on."""
        self._check_free(packet.packet_id)
        asked: list[Asked] = []
        for wish in packet.wishes:
            try:
                parsed = parse_filter(wish.filter)
            except BadTopicFilter as problem:
                asked.append(Asked(None, problem.reason))
            else:
                asked.append(Asked(subscription_of(wish, parsed, packet.subscription_id, packet.user_properties)))
        self._subscribes[packet.packet_id] = tuple(asked)
        return tuple(each.subscription for each in asked if each.subscription is not None)

    def unsubscribe(self, packet: Unsubscribe) -> None:
        self._check_free(packet.packet_id)
        self._unsubscribes[packet.packet_id] = packet.filters

    def _check_free(self, packet_id: int) -> None:
        if packet_id in self._subscribes or packet_id in self._unsubscribes:
            raise ProtocolError(f"packet identifier {packet_id} is in use")

    def grant(self, packet_id: int, decisions: Sequence[Reason]) -> tuple[Reason, ...] | None:
        """What to tell the client; None if there is no such request."""
        asked = self._subscribes.get(packet_id)
        if asked is None:
            return None
        if len(decisions) != sum(each.subscription is not None for each in asked):
            raise ValueError("one reason for each subscription of the request")
        del self._subscribes[packet_id]
        remaining = iter(decisions)
        return tuple(each.refusal if each.subscription is None else next(remaining) for each in asked)

    def revoke(self, packet_id: int, reasons: Sequence[Reason]) -> tuple[Reason, ...] | None:
        filters = self._unsubscribes.pop(packet_id, None)
        if filters is not None and len(filters) != len(reasons):
            raise ValueError("one reason for each filter of the request")
        return None if filters is None else tuple(reasons)
