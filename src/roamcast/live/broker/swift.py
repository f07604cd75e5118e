"""The short way through a broker, for messages that came together (`mqtt/runs.py`) and need nothing but handing on.

A run takes it if who gets it depends on its topic alone, all of them are here, nobody writes a journal, and
nothing of it must outlive this process. With QoS 0 nothing ever must. With QoS 1 nothing must if everybody who gets
it with QoS 1 has a session that ends with its connection: when the broker dies so do these sessions, and what was
promised to the publisher is promised to nobody any more. So such a run changes no state that is logged, and need not
be logged itself.

The one thing that it changes are numbers: deliveries of QoS 1 take the next of the client's session, as all others
do, so that their packet identifiers are never those of another delivery. As long as the broker is alone they are
nobody else's concern. When it meets a neighbour, to which such a session may go, the whole state is stored
(`server.py`): what is said on a stream must be the same when the log is read again.
"""

from msgspec import Struct

from roamcast.live.broker.audience import PLANS_MAX, Audience
from roamcast.live.broker.effects import HandTogether, Remark
from roamcast.live.broker.station import Station
from roamcast.live.broker.visitor import Visitor, packet_id_of
from roamcast.live.broker.wishes import Plan
from roamcast.mqtt.runs import Run, ids_from

STEPS_MAX = 64
"""How often free identifiers are looked for further on, for a client that keeps some in use for very long."""


class Group(Struct, frozen=True, gc=False):
    """Clients that see a run alike."""

    clients: tuple[str, ...]
    qos: int
    """The best that they want."""
    subscription_ids: tuple[int, ...]


class Swift:
    def __init__(self, station: Station, audience: Audience) -> None:
        self.station = station
        self.audience = audience
        self._known: dict[str, tuple[Plan, list[Group]]] = {}
        """By topic, the groups made of a plan, as long as that holds."""
        self.unlogged = False
        """Whether numbers were taken since the whole state was last asked for."""

    def groups(self, client: str, run: Run) -> list[Group] | None:
        """Who gets a run, if it may take the short way."""
        station = self.station
        if station.chronicle.on or client not in station.visitors or station.has_neighbours():
            return None
        plan = self.audience.plain(run.topic)
        if plan is None:
            return None
        known = self._known.get(run.topic)
        groups = known[1] if known is not None and known[0] is plan else self._groups_of(run.topic, plan)
        if run.qos:
            for group in groups:
                if group.qos and not all(map(self._is_fleeting, group.clients)):
                    return None
        return groups

    def _groups_of(self, topic: str, plan: Plan) -> list[Group]:
        if len(self._known) >= PLANS_MAX:
            self._known.clear()
        groups = [
            Group(
                clients,
                max(each.qos for each in asked),
                tuple(sorted({each.subscription_id for each in asked if each.subscription_id is not None})),
            )
            for asked, clients in plan
        ]
        self._known[topic] = (plan, groups)
        return groups

    def _is_fleeting(self, client: str) -> bool:
        """Whether its session ends with its connection, and nothing of it is still to come from elsewhere."""
        visitor = self.station.visitors.get(client)
        if visitor is None or visitor.session.expiry_s or not visitor.connected:
            return False
        if visitor.session.holder is None:
            # That it is let in is not stored yet: on the disk its session may be one that outlives connections.
            return False
        session = self.station.broker.border.sessions.get(visitor.name)
        return session is not None and session.attached and session.awaits is None and not session.quiet

    def hand(self, client: str, run: Run, groups: list[Group]) -> None:
        onlooker = self.station.chronicle.onlooker
        if onlooker is not None:
            onlooker.published_together(self.station.visitors[client].context, run, groups)
        for group in groups:
            if run.qos and group.qos:
                numbered = [(client, self._number(client, run.count)) for client in group.clients]
                clients = tuple(client for client, first_id in numbered if first_id)
                first_ids = tuple(first_id for _, first_id in numbered if first_id)
                self.station.emit(HandTogether(run, clients, 1, first_ids, group.subscription_ids))
            else:
                self.station.emit(HandTogether(run, group.clients, 0, (), group.subscription_ids))

    def _number(self, client: str, count: int) -> int:
        """The packet identifier of the first of so many deliveries; 0 if there is no room for them."""
        visitor = self.station.visitors[client]
        for _ in range(STEPS_MAX):
            first_id = packet_id_of(self._take_numbers(visitor, count))
            if visitor.session.are_free(ids_from(first_id, count)):
                return first_id
        self.station.emit(Remark("delivery_dropped", client))
        return 0

    def _take_numbers(self, visitor: Visitor, count: int) -> int:
        self.unlogged = True
        counterpart = self.station.broker.border.sessions[visitor.name].counterpart
        first = max(visitor.last + 1, counterpart.next_number)
        visitor.last = first + count - 1
        counterpart.next_number = first + count
        return first
