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

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from roamcast.broker.mesh.handover import MeshHandover
from roamcast.broker.mesh.prediction import TRIP_S_MAX, Status, status_of
from roamcast.broker.messages import Attach, Poll
from roamcast.broker.mqtt.content import BadReport, context_reported
from roamcast.broker.mqtt.effects import Remark
from roamcast.broker.session import Session
from roamcast.model.context import Context
from roamcast.model.movement import MovementModel, cell_name
from roamcast.mqtt.packets import Pairs

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

TRIP, NEXT = "trip", "next"
SAID_NAMES = (TRIP, NEXT)
"""User properties with which a client says where it goes."""
POLL_TIMER, REPORT_TIMER = "poll:", "report:"


class Travelling:
    def __init__(self, border: "MqttBorder") -> None:
        self.border = border

    @cached_property
    def mesh(self) -> MeshHandover | None:
        """None: brokers are not a mesh, and nobody need know who goes where."""
        handover = self.border.broker.handover
        return handover if isinstance(handover, MeshHandover) else None

    def adopt(self, movement: MovementModel | None) -> bool:
        """Goes on with another movement model; whether it is another."""
        if self.mesh is None or self.mesh.movement == movement:
            return False
        self.mesh.movement = movement
        return True

    # Reports, which are attachments.

    def attach(self, client: str, attach: Attach) -> None:
        border, status = self.border, None
        if self.mesh is not None:
            session = border.sessions.get(client)
            known = attach.session.context if attach.session is not None else None
            context = session.context if session is not None else known or Context(client)
            status = self._status(context, "" if session is None else session.next_broker)
            if status is not None and session is not None and session.came_us:
                status = replace(status, stayed_us=max(0, border.now_us - session.came_us))
            attach = replace(attach, status=status)
        border.finish(border.broker.handover.attach(border.now_us, client, attach))
        session = border.sessions.get(client)
        if self.mesh is not None and session is not None:
            session.status = status
            self._report_later(session)

    def _report(self, session: Session) -> None:
        """Says to the broker that it is still here, and what has become of its trip."""
        epoch = max(self.border.now_us, session.epoch + 1)
        self.attach(session.client, Attach(epoch, 0, "again", None))

    def admitted(self, session: Session) -> None:
        """It is connected from now on."""
        if self.mesh is not None:
            session.came_us = self.border.now_us
            self.border.finish(self.mesh.linked(self.border.now_us, session.client))
            # Sessions say who is connected; a link is a client's of the papers.
            self.border.links.pop(session.client, None)
            self._poll_later(session)

    def moved(self, session: Session) -> None:
        """It has reported itself."""
        if self.mesh is None or not session.connected:
            return
        now = self._status(session.context, session.next_broker)
        if now is not None and (session.status is None or not now.same_trip(session.status)):
            self._report(session)

    def leaves(self, session: Session, said: Pairs) -> None:
        """It is about to be gone, and may have said where to."""
        self._cancel(session)
        if self.mesh is None:
            return
        given = dict(pair for pair in said if pair[0] in SAID_NAMES)
        if TRIP in given:
            self._take_trip(session, given[TRIP])
        if NEXT in given and self.mesh.grid.cell_of(given[NEXT]) is None:
            self.border.emit(Remark("bad_report", f"{session.client}: '{given[NEXT]}' is no broker of the mesh"))
        elif NEXT in given:
            session.next_broker = given[NEXT]
        if given:
            self._report(session)

    def _take_trip(self, session: Session, text: str) -> None:
        try:
            session.context = context_reported(text.encode(), session.context, self.border.now_us, self.border.space)
        except BadReport as problem:
            self.border.emit(Remark("bad_report", f"{session.client}: {problem}"))

    def _status(self, context: Context, next_broker: str) -> Status | None:
        """Where it goes, as far as anybody knows."""
        mesh, now_us = self.mesh, self.border.now_us
        if mesh is None:
            return None
        going_to = mesh.grid.cell_of(next_broker) if next_broker else None
        if going_to is not None:
            return Status(now_us, mesh.grid.centre(going_to))
        status = status_of(context, now_us, self.border.space)
        if status is None and mesh.movement is not None and mesh.movement.residence_s(cell_name(mesh.here)):
            return Status(now_us, mesh.grid.centre(mesh.here))
        return status

    # What the client of the paper does by itself.

    def _poll_later(self, session: Session) -> None:
        if self.border.params.handover == "probing":
            at_us = self.border.now_us + round(self.border.params.mesh.probe_s * 1e6)
            self.border.timers.set(POLL_TIMER + session.client, at_us)

    def poll(self, client: str) -> None:
        session = self.border.sessions.get(client)
        if session is not None and session.connected:
            poll = Poll(self.border.host, session.epoch, 0)
            self.border.finish(self.border.broker.handover.hear_client(self.border.now_us, poll, client))
            self._poll_later(session)

    def _report_later(self, session: Session) -> None:
        """Who is under way gets nothing with `batch`, so the end of the trip must be noticed."""
        status = session.status
        if self.border.params.handover != "batch" or status is None or status.speed_mps == 0:
            self.border.timers.cancel(REPORT_TIMER + session.client)
            return
        travel_s = min(status.travel_s(self.border.space), TRIP_S_MAX) or self.border.params.mesh.report_s
        self.border.timers.set(REPORT_TIMER + session.client, self.border.now_us + round(travel_s * 1e6))

    def trip_over(self, client: str) -> None:
        session = self.border.sessions.get(client)
        if session is not None and session.connected:
            self._report(session)

    def _cancel(self, session: Session) -> None:
        for timer in (POLL_TIMER, REPORT_TIMER):
            self.border.timers.cancel(timer + session.client)
