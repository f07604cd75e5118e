"""The state machine of a live broker: MQTT sessions on top of the broker of the protocols (L2, L3, L8).

    connections  --inputs-->  Core  --effects-->  connections, links, journal
                               |  MqttBorder: sessions of clients, and what they get in which form
                               |  Audience: which of the clients here get an event
                               |  Broker (broker): routing, counterparts, roaming

States of a client here: unknown; *coming* (its session is being looked for, or fetched from its old broker; it waits
for CONNACK); *connected*; *away* (its session waits for it, here or until another broker claims it).

What must not be lost comes by `handle` and is logged by the runtime first (`inputs.py`). `passing` and
`heard_passing` carry QoS 0, which changes nothing here and is not logged. `Core` reads no clock and draws no random
numbers, so the same inputs make the same state again: that is how a broker that was killed recovers.

Guarantee: what was acknowledged to a publisher reaches every session whose subscription wants it, once and in the
order of its publisher, wherever the session's client goes meanwhile and whichever broker is killed meanwhile, within
the bounds of queues and patience (docs/PROTOCOL.md, section 7).
"""

import traceback
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from roamcast.broker.modulators.limits import Limits
from roamcast.broker.mqtt.admission import Admission
from roamcast.broker.mqtt.announcing import Announcing
from roamcast.broker.mqtt.audience import Audience
from roamcast.broker.mqtt.effects import AnyEffect, Deny, Dismiss, Remark
from roamcast.broker.mqtt.events import Events
from roamcast.broker.mqtt.groups import Groups
from roamcast.broker.mqtt.inputs import (
    Announced,
    AnyGiven,
    Arrived,
    Asked,
    Finished,
    Fired,
    Heard,
    Left,
    LinkChanged,
    Published,
    Received,
    Released,
    Reported,
    ReportedTogether,
    Restarted,
    Withdrew,
)
from roamcast.broker.mqtt.keeping import Keeping
from roamcast.broker.mqtt.lasting import Lasting
from roamcast.broker.mqtt.passing import Passing
from roamcast.broker.mqtt.publishing import Publishing
from roamcast.broker.mqtt.retained import Retained
from roamcast.broker.mqtt.station import Station
from roamcast.broker.mqtt.stored import BadState, check_same_kind, dumped, loaded
from roamcast.broker.mqtt.subscribing import Subscribing
from roamcast.broker.mqtt.travelling import Travelling
from roamcast.broker.params import BrokerParams
from roamcast.model.context import Context
from roamcast.model.movement import MovementModel
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.mqtt.batches import Batch
from roamcast.mqtt.limits import SessionLimits
from roamcast.mqtt.reasons import Reason
from roamcast.node import boundary


class CoreParams(Struct, frozen=True, forbid_unknown_fields=True):
    """How much a broker keeps for its clients, and how long one that comes waits for its session."""

    session: SessionLimits = SessionLimits()
    retained_messages_max: int = 100_000
    retained_bytes_max: int = 256 * 1024 * 1024
    lasting_messages_max: int = 1_000
    """Messages with `persist`, of all topics: each is looked at once a second."""
    lasting_bytes_max: int = 16 * 1024 * 1024
    advertised_topics_max: int = 100_000
    """With `protocol.advertisements`, topics that are advertised for clients here; beyond, the one that was published
    to longest ago is not any more."""
    advertised_idle_s: float = 3_600.0
    """How long a topic stays advertised to which nobody publishes."""
    modulators: Limits = Limits()
    """What a modulator of a subscription is granted."""
    reminder_wait_s: float = 10.0
    """How long a client that comes waits until it is known where its session is; then it is to try again later."""

    def __post_init__(self) -> None:
        if self.advertised_topics_max < 1:
            raise ValueError(f"advertised_topics_max is {self.advertised_topics_max}; give 1 or more")
        if not 1 <= self.advertised_idle_s < float("inf"):
            raise ValueError(f"advertised_idle_s is {self.advertised_idle_s}; give seconds, 1 or more")


class Core:
    publishing_kind = Publishing
    subscribing_kind = Subscribing

    def __init__(
        self,
        host: str,
        life: int,
        broker: BrokerParams | None = None,
        params: CoreParams | None = None,
        space: Space | None = None,
        graph: MovementGraph | None = None,
        movement: MovementModel | None = None,
    ) -> None:
        """`life` tells this broker's state from one that was made anew: it stays the same when it is restored."""
        params = self.params = params or CoreParams()
        space = space or Plane()
        self.host = host
        self.space = space
        self.events = Events(host, life, space)
        self.station = Station(host, life, broker or BrokerParams(), space, self.events, params.session, movement)
        self.station.border.modulator_limits = params.modulators
        self.travelling = Travelling(self.station)
        self.audience = Audience(space, graph)
        self.retained = Retained(params.retained_messages_max, params.retained_bytes_max)
        self.lasting = Lasting(params.lasting_messages_max, params.lasting_bytes_max)
        self.groups = Groups(self.station, self.events, self.retained)
        self.keeping = Keeping(self.station, self.events, self.retained, self.lasting, self.groups)
        self.announcing = Announcing(self.station, params.advertised_topics_max, params.advertised_idle_s)
        self.publishing = self.publishing_kind(
            self.station, self.audience, self.events, self.keeping, self.announcing, self.travelling
        )
        self.subscribing = self.subscribing_kind(
            self.station, self.audience, self.retained, self.groups, self.travelling
        )
        self.admission = Admission(
            self.station, self.subscribing, self.publishing, self.travelling, params.reminder_wait_s
        )

    def handle(self, now_us: int, given: AnyGiven) -> list[AnyEffect]:
        """Whatever is given, nothing is raised: a mistake of ours costs one client its connection, and the log can
        still be read again, for it happens there too."""
        self.station.now_us = now_us
        client = getattr(given, "client", None)
        self._guarded(lambda: self._handle(given), type(given).__name__, client if isinstance(client, str) else None)
        self._guarded(self.announcing.let_out, "letting out", None)
        return self.station.take_effects()

    def _guarded(self, action: Callable[[], None], what: str, client: str | None) -> None:
        try:
            action()
        except Exception as problem:
            self._mistaken(what, client, problem)

    def _mistaken(self, what: str, client: str | None, problem: Exception) -> None:
        where = traceback.extract_tb(problem.__traceback__)[-1]
        place = f"{where.filename.rsplit('/', 1)[-1]}:{where.lineno}"
        self.station.emit(Remark("internal_error", f"{what} at {place}: {problem!r}"))
        if client is not None:
            session = self.station.sessions.get(client)
            arrival = 0 if session is None else session.arrival
            self._guarded(lambda: self.admission.left(Left(client, None, False)), "leaving", None)
            self.station.emit(Deny(client, Reason.UNSPECIFIED_ERROR, "a mistake in the broker", arrival))
            self.station.emit(Dismiss(client, Reason.UNSPECIFIED_ERROR, "a mistake in the broker"))

    def _handle(self, given: AnyGiven) -> None:
        match given:
            case Published():
                self.publishing.publish(given)
            case Finished(rows):
                self._finished(rows)
            case Received():
                self.station.received(given)
            case Released():
                self.publishing.released(given)
            case Reported() | ReportedTogether():
                self.subscribing.reported(given)
            case Heard(peer, data):
                self._heard(peer, data)
            case Asked():
                self.subscribing.subscribe(given)
            case Withdrew():
                self.subscribing.unsubscribe(given)
            case Arrived():
                self.admission.arrived(given)
            case Left():
                self.admission.left(given)
            case LinkChanged(peer, up):
                self.station.link(peer, up)
                self.admission.look_around()
            case Fired(timer):
                self._fired(timer)
            case Announced(topic):
                self.announcing.announce(topic)
            case Restarted():
                self.admission.restarted()

    def _heard(self, peer: str, data: bytes) -> None:
        """Each message of a frame as if it had come alone: a mistake with one costs none of the others."""
        for message in self.station.messages_in(peer, data):
            self._guarded(partial(self._heard_message, peer, message), "Heard", None)

    def _heard_message(self, peer: str, message: boundary.Message) -> None:
        self.station.heard(peer, message)
        self.admission.look_around()
        self.keeping.hand_over()
        self.groups.insist()

    def _finished(self, rows: tuple[tuple[str, tuple[int, ...]], ...]) -> None:
        """A mistake with one client is no reason to forget the others."""
        for client, numbers in rows:
            try:
                self.station.finished(client, numbers)
            except Exception as problem:
                self._mistaken("Finished", client, problem)

    def _fired(self, timer: str) -> None:
        if not self.station.timers.take(timer):
            return
        kind = timer.split(":", 1)[0]
        own: dict[str, Callable[[str], None]] = {
            "session": self.admission.session_over,
            "will": self.admission.will_due,
            "reminder": self.admission.reminder_over,
            "expiry": self.subscribing.expired,
            "lasting": self.publishing.look_for_newcomers,
            "advertised": self.announcing.look_for_idle,
            "poll": self.travelling.poll,
            "report": self.travelling.trip_over,
        }
        if kind in own:
            own[kind](timer.split(":", 1)[1])
        else:
            self.station.fired(timer)
            self.admission.look_around()

    def reported(self, now_us: int, context: Context) -> bool:
        """A report that need not be an input of its own: the last one of each client is enough for what comes after
        it (`ReportedTogether`), as long as no neighbour or overlay can ask what was before, nobody keeps a journal,
        and no trip is told to a mesh. False if it must be given."""
        station = self.station
        if station.observation.on or station.has_neighbours() or self.travelling.mesh is not None:
            return False
        station.now_us = now_us
        try:
            self.subscribing.moved(context)
        except Exception:
            # As an input it fails again, where what has to follow from that is known.
            return False
        return True

    def passing(self, now_us: int, passing: Sequence[tuple[str, Batch]]) -> list[AnyEffect]:
        """Messages of QoS 0 of clients here, in the order in which they came."""
        self.station.now_us = now_us
        try:
            self.publishing.pass_on(passing)
        except Exception as problem:
            self._mistaken("passing", None, problem)
        return self.station.take_effects()

    def heard_passing(self, now_us: int, peer: str, passing: Passing) -> list[AnyEffect]:
        """One from a neighbour."""
        self.station.now_us = now_us
        self._guarded(lambda: self.publishing.heard_passing(peer, passing), "heard passing", None)
        return self.station.take_effects()

    def snapshot(self) -> bytes:
        """All of it, for `restored`."""
        return dumped(self)

    def adopt(
        self,
        broker: BrokerParams,
        params: CoreParams,
        graph: MovementGraph | None,
        movement: MovementModel | None = None,
    ) -> bool:
        """Goes on with other bounds and models of movement; whether they are others. What was made under the old
        ones stays. Not logged: whoever calls this takes a snapshot, or the log would be read again with these.
        Raises `BadState` for what cannot change."""
        before = self.station.broker.params
        check_same_kind(before, broker)
        is_same = (broker, params) == (before, self.params) and same_graph(graph, self.audience.graph)
        self.station.broker.adopt(broker)
        if not self.travelling.adopt(movement) and is_same:
            return False
        self.params = params
        self.station.border.modulator_limits = params.modulators
        self.retained.messages_max, self.retained.bytes_max = params.retained_messages_max, params.retained_bytes_max
        self.lasting.messages_max, self.lasting.bytes_max = params.lasting_messages_max, params.lasting_bytes_max
        self.announcing.topics_max = params.advertised_topics_max
        self.announcing.idle_us = round(params.advertised_idle_s * 1e6)
        self.admission.reminder_wait_us = round(params.reminder_wait_s * 1e6)
        self.station.border.keep_within(params.session)
        self.audience.walk_on(graph)
        return True

    @staticmethod
    def restored(state: bytes) -> "Core":
        """Raises `BadState`. The bytes are this broker's own, from a directory that is its own."""
        core = loaded(state)
        if not isinstance(core, Core):
            raise BadState(f"the stored state is a {type(core).__name__}")
        return core

    def next_timer(self) -> tuple[int, str] | None:
        """The timer that is due first."""
        return self.station.timers.first()


def same_graph(one: MovementGraph | None, other: MovementGraph | None) -> bool:
    return (None if one is None else one.neighbours) == (None if other is None else other.neighbours)
