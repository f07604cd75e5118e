"""The client of a mesh, played for an MQTT client by the broker that it is connected to (M2, M5, M8, M10).

An MQTT client is at the broker that it connects to, so in a mesh that one is its serving broker, and each CONNECT is
a report (`broker/mesh/client.py`). While it is on its way from one broker to the next, its last one sends
what comes for it to where it will be, and that one keeps it for the client (`predictive`), or keeps it itself. What
the client of the paper tells of its trip is taken from what MQTT clients can say:

    `$roam/me`                 position, velocity, destination, pause: a new trip is reported when that changes;
    `trip`, a user property    of DISCONNECT, or of the will of a client that is cut off: a last report;
    `next`, the same           the broker that it will connect to;
    nothing                    the movement model, from where it is, or from the middle of this broker's cell.

What that client does by itself its broker does for it: it polls (`probing`), and it says that a trip is over whose
time has come (`batch`).
"""

from collections.abc import Iterable

from msgspec.structs import replace

from roamcast.broker.mesh.handover import MeshHandover
from roamcast.broker.mesh.prediction import TRIP_S_MAX, Status, status_of
from roamcast.broker.messages import Attach, Poll
from roamcast.live.broker.content import BadReport, context_reported
from roamcast.live.broker.effects import Remark
from roamcast.live.broker.station import Station
from roamcast.live.broker.visitor import Visitor
from roamcast.model.movement import MovementModel, cell_name
from roamcast.model.subscription import Subscription
from roamcast.mqtt.packets import Pairs
from roamcast.node.boundary import LinkUp

TRIP, NEXT = "trip", "next"
SAID_NAMES = (TRIP, NEXT)
"""User properties with which a client says where it goes."""
POLL_TIMER, REPORT_TIMER = "poll:", "report:"


class Travelling:
    def __init__(self, station: Station) -> None:
        self.station = station
        handover = station.broker.handover
        self.mesh = handover if isinstance(handover, MeshHandover) else None
        """None: brokers are not a mesh, and nobody need know who goes where."""
        self.params = station.broker.params

    def adopt(self, movement: MovementModel | None) -> bool:
        """Goes on with another movement model; whether it is another."""
        self.params = self.station.broker.params
        if self.mesh is None or self.mesh.movement == movement:
            return False
        self.mesh.movement = movement
        return True

    # Reports, which are attachments.

    def attach(self, visitor: Visitor, attach: Attach) -> None:
        if self.mesh is not None:
            visitor.status = self._status(visitor)
            attach = replace(attach, status=visitor.status)
        self.station.tell_broker(visitor, attach)
        if self.mesh is not None:
            self._report_later(visitor)

    def _report(self, visitor: Visitor, wanted: Iterable[Subscription]) -> None:
        """Says to the broker that it is still here, and what has become of its trip."""
        visitor.epoch = max(self.station.now_us, visitor.epoch + 1)
        self.attach(visitor, Attach(visitor.epoch, visitor.acknowledged, "again", tuple(wanted)))

    def admitted(self, visitor: Visitor) -> None:
        """It is connected from now on."""
        if self.mesh is not None:
            self.station.give(LinkUp(visitor.name))
            self._poll_later(visitor)

    def moved(self, visitor: Visitor) -> None:
        """It has reported itself."""
        if self.mesh is None or not visitor.connected:
            return
        now = self._status(visitor)
        if now is not None and (visitor.status is None or not now.same_trip(visitor.status)):
            self._report(visitor, visitor.wanted.values())

    def leaves(self, visitor: Visitor, said: Pairs) -> None:
        """It is about to be gone, and may have said where to."""
        self._cancel(visitor)
        if self.mesh is None:
            return
        given = dict(pair for pair in said if pair[0] in SAID_NAMES)
        if TRIP in given:
            self._take_trip(visitor, given[TRIP])
        if NEXT in given and self.mesh.grid.cell_of(given[NEXT]) is None:
            self.station.emit(Remark("bad_report", f"{visitor.client}: '{given[NEXT]}' is no broker of the mesh"))
        elif NEXT in given:
            visitor.next_broker = given[NEXT]
        if given:
            self._report(visitor, visitor.wanted.values())

    def _take_trip(self, visitor: Visitor, text: str) -> None:
        try:
            visitor.context = context_reported(
                text.encode(), visitor.context, self.station.now_us, self.station.space
            )
        except BadReport as problem:
            self.station.emit(Remark("bad_report", f"{visitor.client}: {problem}"))

    def _status(self, visitor: Visitor) -> Status | None:
        """Where it goes, as far as anybody knows."""
        mesh, now_us = self.mesh, self.station.now_us
        if mesh is None:
            return None
        going_to = mesh.grid.cell_of(visitor.next_broker) if visitor.next_broker else None
        if going_to is not None:
            return Status(now_us, mesh.grid.centre(going_to))
        status = status_of(visitor.context, now_us, self.station.space)
        if status is None and mesh.movement is not None and mesh.movement.residence_s(cell_name(mesh.here)):
            return Status(now_us, mesh.grid.centre(mesh.here))
        return status

    # What the client of the paper does by itself.

    def _poll_later(self, visitor: Visitor) -> None:
        if self.params.handover == "probing":
            at_us = self.station.now_us + round(self.params.mesh.probe_s * 1e6)
            self.station.timers.set(POLL_TIMER + visitor.client, at_us)

    def poll(self, client: str) -> None:
        visitor = self.station.visitors.get(client)
        if visitor is not None and visitor.connected:
            self.station.tell_broker(visitor, Poll(self.station.host, visitor.epoch, visitor.acknowledged))
            self._poll_later(visitor)

    def _report_later(self, visitor: Visitor) -> None:
        """Who is under way gets nothing with `batch`, so the end of the trip must be noticed."""
        status = visitor.status
        if self.params.handover != "batch" or status is None or status.speed_mps == 0:
            self.station.timers.cancel(REPORT_TIMER + visitor.client)
            return
        travel_s = min(status.travel_s(self.station.space), TRIP_S_MAX) or self.params.mesh.report_s
        self.station.timers.set(REPORT_TIMER + visitor.client, self.station.now_us + round(travel_s * 1e6))

    def trip_over(self, client: str) -> None:
        visitor = self.station.visitors.get(client)
        if visitor is not None and visitor.connected:
            self._report(visitor, visitor.wanted.values())

    def _cancel(self, visitor: Visitor) -> None:
        for timer in (POLL_TIMER, REPORT_TIMER):
            self.station.timers.cancel(timer + visitor.client)
