"""SUBSCRIBEs and UNSUBSCRIBEs of one connection that wait for the broker's decision."""

from msgspec import Struct
from msgspec.structs import replace

from roamcast.mqtt.messages import Subscription, subscription_of
from roamcast.mqtt.packets import Subscribe, Unsubscribe
from roamcast.mqtt.reasons import FAILURE_FROM, ProtocolError, Reason
from roamcast.mqtt.session import Session
from roamcast.mqtt.topics import BadTopicFilter, parse_filter


class Granted(Struct, frozen=True):
    """A subscription with the QoS that it was given; `replaced` says that the filter was subscribed before."""

    subscription: Subscription
    replaced: bool


class Asked(Struct, frozen=True):
    """One line of a SUBSCRIBE: for the broker to decide, or refused already."""

    subscription: Subscription | None
    refusal: Reason = Reason.TOPIC_FILTER_INVALID


class Requests:
    __slots__ = ("_session", "_subscribes", "_unsubscribes")

    def __init__(self, session: Session) -> None:
        self._session = session
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

    def grant(self, packet_id: int, decisions: list[Reason]) -> tuple[list[Reason], list[Granted]] | None:
        """What to tell the client, and what is in the session now; None if there is no such request.

        A new filter beyond the session's bound is refused whatever the broker decided.
        """
        asked = self._subscribes.get(packet_id)
        if asked is None:
            return None
        if len(decisions) != sum(each.subscription is not None for each in asked):
            raise ValueError("one reason for each subscription of the request")
        del self._subscribes[packet_id]
        remaining = iter(decisions)
        told: list[Reason] = []
        granted: list[Granted] = []
        for each in asked:
            reason = each.refusal if each.subscription is None else next(remaining)
            if each.subscription is not None and reason < FAILURE_FROM:
                if self._is_full_for(each.subscription):
                    reason = Reason.QUOTA_EXCEEDED
                else:
                    subscription = replace(each.subscription, qos=int(reason))
                    granted.append(Granted(subscription, self._session.subscribe(subscription)))
            told.append(reason)
        return told, granted

    def _is_full_for(self, subscription: Subscription) -> bool:
        held = self._session.subscriptions
        return subscription.filter.text not in held and len(held) >= self._session.limits.subscriptions_max

    def revoke(self, packet_id: int, refused: dict[str, Reason]) -> list[Reason] | None:
        filters = self._unsubscribes.pop(packet_id, None)
        if filters is None:
            return None
        told: list[Reason] = []
        for text in filters:
            if text in refused:
                told.append(refused[text])
            else:
                told.append(Reason.SUCCESS if self._session.unsubscribe(text) else Reason.NO_SUBSCRIPTION_EXISTED)
        return told
