"""The state machine of a live broker: MQTT sessions on top of the broker of the protocols (L2, L3, L8).

    connections  --inputs-->  Core  --effects-->  connections, links, journal
                               |  MqttBorder: sessions of clients, and what they get in which form
                               |  Audience: which of the clients here get an event
                               |  Broker (broker): routing, counterparts, roaming

States of a client here: unknown; *coming* (its session is being looked for, or fetched from its old broker; it waits
for CONNACK); *connected*; *away* (its session waits for it, here or until another broker claims it).

What must not be lost comes by `handle` and is logged by the runtime first (`inputs.py`). `passing` and
`heard_passing` carry QoS 0, which changes nothing here and is not logged. `passing_reliably` and `finish_unlogged`
change windows of sessions that end with their connections, and nothing else (decision 0047). `Core` reads no clock
and draws no random numbers, so the same inputs make the same state again: so a broker that was killed recovers.

Guarantee: what was acknowledged to a publisher reaches every session whose subscription wants it, once and in the
order of its publisher, wherever the session's client goes meanwhile and whichever broker is killed meanwhile, within
the bounds of queues and patience (docs/PROTOCOL.md, section 7).
"""

import traceback
from collections.abc import Callable, Sequence
from functools import partial

from roamcast.broker.broker import Broker
from roamcast.broker.mqtt.effects import AnyEffect, Deny, Dismiss, HangUp, Remark
from roamcast.broker.mqtt.events import Events
from roamcast.broker.mqtt.inputs import (
    Announced,
    AnyGiven,
    Arrived,
    Asked,
    Ended,
    Fetched,
    Finished,
    Fired,
    Forbidden,
    GoOn,
    Heard,
    Left,
    LinkChanged,
    Overspent,
    Published,
    PublishedByMany,
    PublishedTogether,
    Received,
    Released,
    Reported,
    ReportedTogether,
    Restarted,
    Withdrew,
)
from roamcast.broker.mqtt.mqtt_border import MqttBorder
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.mqtt.passing import Passing
from roamcast.broker.mqtt.payloads import Payloads
from roamcast.broker.mqtt.stored import STATE_VERSION, BadState, check_same_kind, dumped, loaded
from roamcast.broker.mqtt.upgrades import upgrade
from roamcast.broker.params import BrokerParams
from roamcast.model.context import Context
from roamcast.model.movement import MovementModel
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.mqtt.batches import Batch
from roamcast.mqtt.reasons import Reason


class Core:
    def __init__(
        self,
        host: str,
        life: int,
        broker: BrokerParams | None = None,
        params: CoreParams | None = None,
        space: Space | None = None,
        graph: MovementGraph | None = None,
        movement: MovementModel | None = None,
        border: Callable[[Broker, Events, CoreParams, MovementGraph | None], MqttBorder] = MqttBorder,
    ) -> None:
        """`life` tells this broker's state from one that was made anew: it stays the same when it is restored."""
        given = self.params = params or CoreParams()
        self.host = host
        self.space = space = space or Plane()
        self.events = Events(host, life, space)
        self.events.payloads = Payloads(given.payloads)

        def make(of: Broker) -> MqttBorder:
            self.border = border(of, self.events, given, graph)
            return self.border

        self.broker = Broker(host, broker or BrokerParams(), life, space, graph, movement, make)

    def handle(self, now_us: int, given: AnyGiven) -> list[AnyEffect]:
        """Whatever is given, nothing is raised: a mistake of ours costs one client its connection, and the log can
        still be read again, for it happens there too."""
        border = self.border
        border.now_us = now_us
        try:
            self._handle(given)
        except Exception as problem:
            client = getattr(given, "client", None)
            self._mistaken(type(given).__name__, client if isinstance(client, str) else None, problem)
        if border.settled_together:
            self._guarded(border.announcing.let_out, "letting out", None)
        return border.take_effects()

    def _guarded(self, action: Callable[[], None], what: str, client: str | None) -> None:
        try:
            action()
        except Exception as problem:
            self._mistaken(what, client, problem)

    def _mistaken(self, what: str, client: str | None, problem: Exception) -> None:
        where = traceback.extract_tb(problem.__traceback__)[-1]
        place = f"{where.filename.rsplit('/', 1)[-1]}:{where.lineno}"
        self.border.emit(Remark("internal_error", f"{what} at {place}: {problem!r}"))
        if client is not None:
            session = self.border.sessions.get(client)
            arrival = 0 if session is None else session.arrival
            self._guarded(lambda: self.border.admission.left(Left(client, None, False)), "leaving", None)
            self.border.emit(Deny(client, Reason.UNSPECIFIED_ERROR, "a mistake in the broker", arrival))
            self.border.emit(Dismiss(client, Reason.UNSPECIFIED_ERROR, "a mistake in the broker"))

    def _mistaken_passing(self, _: str, problem: Exception) -> None:
        """Its client is at another broker, or nothing that lasts may follow."""
        self._mistaken("heard passing", None, problem)

    def _handle(self, given: AnyGiven) -> None:
        match given:
            # What there is much of comes first.
            case Finished(rows):
                self._finished(rows)
            case Published():
                self.border.publishing.publish(given)
            case Heard(peer, data):
                self._heard(peer, data)
            case Reported() | ReportedTogether():
                self.border.subscribing.reported(given)
            case PublishedTogether() | PublishedByMany():
                said = given.rows if isinstance(given, PublishedByMany) else (given,)
                self.border.publishing.publish_together(said, partial(self._mistaken, "PublishedTogether"))
            case Received():
                self.border.received(given)
            case Released():
                self.border.publishing.released(given)
            case Asked():
                self.border.subscribing.subscribe(given)
            case Withdrew():
                self.border.subscribing.unsubscribe(given)
            case Forbidden():
                self.border.subscribing.forbid(given)
            case Overspent(client, name):
                self.border.local.switch_off(client, name)
            case Arrived():
                self.border.admission.arrived(given)
            case Left():
                self.border.admission.left(given)
            case LinkChanged(peer, up):
                self.border.linking.changed(peer, up)
                self.border.admission.look_around()
            case _:
                self._handle_rare(given)

    def _handle_rare(self, given: Fired | Fetched | Ended | GoOn | Announced | Restarted) -> None:
        match given:
            case Fired(timer):
                self._fired(timer)
            case Fetched(peer, number):
                self.border.linking.fetched(peer, number)
            case Ended(client):
                self.border.admission.ended(client)
            case GoOn(client):
                self.border.giving.go_on(client)
            case Announced(topic):
                self.border.announcing.announce(topic)
            case Restarted():
                self.border.admission.restarted()
                self.border.giving.restarted()
                self.border.finish(self.broker.logical.started(self.border.now_us))

    def _heard(self, peer: str, data: bytes) -> None:
        """Each message of a frame as if it had come alone: a mistake with one costs none of the others."""
        border = self.border
        linking, groups, memory = border.linking, border.groups, border.broker.memory
        messages = linking.messages_in(peer, data)
        if len(messages) > 1:
            self._guarded(lambda: linking.expect(peer, messages), "expecting", None)
        for message in messages:
            try:
                linking.heard(peer, message)
                if linking.touched or linking.met or border.departed or memory.answers:
                    border.admission.look_around()
                    border.keeping.hand_over()
                if groups.doubtful:
                    groups.insist()
            except Exception as problem:
                self._mistaken("Heard", None, problem)

    def _finished(self, rows: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        """A mistake with one client is no reason to forget the others."""
        for client, numbers in rows:
            try:
                self.border.finished(client, numbers)
            except Exception as problem:
                self._mistaken("Finished", client, problem)

    def _fired(self, timer: str) -> None:
        if not self.border.timers.take(timer):
            return
        kind = timer.split(":", 1)[0]
        own: dict[str, Callable[[str], None]] = {
            "session": self.border.admission.session_over,
            "will": self.border.admission.will_due,
            "reminder": self.border.admission.reminder_over,
            "expiry": self.border.subscribing.expired,
            "lasting": self.border.local.look_for_newcomers,
            "advertised": self.border.announcing.look_for_idle,
            "poll": self.border.travelling.poll,
            "report": self.border.travelling.trip_over,
            "fence": self.border.fencing.time_over,
        }
        if kind in own:
            own[kind](timer.split(":", 1)[1])
        else:
            self.border.linking.fired(timer)
            self.border.admission.look_around()

    def reported(self, now_us: int, context: Context) -> bool:
        """A report that need not be an input of its own: the last one of each client is enough for what comes after
        it (`ReportedTogether`), as long as no neighbour or overlay can ask what was before, nobody keeps a journal,
        measures its stays, no trip is told to a mesh, and it passes no fence. False if it must be given."""
        border = self.border
        if border.observation.on or border.has_neighbours() or border.travelling.mesh is not None:
            return False
        if context.host in border.walking.travellers:
            return False
        border.now_us = now_us
        try:
            if border.fencing.would_change(context):
                return False
            border.subscribing.moved(context, judged=True)
        except Exception:
            # As an input it fails again, where what has to follow from that is known.
            return False
        return True

    def positions(self, now_us: int) -> list[AnyEffect]:
        """What is to be told of clients that have moved."""
        self.border.now_us = now_us
        positions = self.border.positions
        if positions is not None:
            self._guarded(positions.tell, "positions", None)
        return self.border.take_effects()

    def passing(self, now_us: int, passing: Sequence[tuple[str, Batch]]) -> list[AnyEffect]:
        """Messages of QoS 0 of clients here, in the order in which they came."""
        self.border.now_us = now_us
        try:
            self.border.publishing.pass_on(passing)
        except Exception as problem:
            self._mistaken("passing", None, problem)
        return self.border.take_effects()

    def passing_reliably(self, now_us: int, passing: Sequence[tuple[str, Batch]]) -> list[AnyEffect]:
        """The same of QoS 1, where no log is needed (`Publishing.needs_log`)."""
        self.border.now_us = now_us
        for client, batch in passing:
            try:
                self.border.publishing.pass_reliably(client, batch)
            except Exception as problem:
                # Nothing of this is logged, so nothing that lasts may follow from it. The client is not answered, and
                # could not be answered anything later: it comes again, and says this once more.
                self._mistaken("passing", None, problem)
                self.border.emit(HangUp(client, Reason.UNSPECIFIED_ERROR, "a mistake in the broker"))
        return self.border.take_effects()

    def finish_unlogged(self, client: str, numbers: tuple[int, ...]) -> bool:
        """Deliveries to a session that ends with its connection: who restarts has none of them. False if it lasts."""
        session = self.border.sessions.get(client)
        if session is None or not session.ends_with_connection:
            return False
        self.border.finished(client, numbers)
        return True

    def heard_passing(self, now_us: int, peer: str, passing: Sequence[Passing]) -> list[AnyEffect]:
        """Those from a neighbour that came in one frame."""
        self.border.now_us = now_us
        try:
            self.border.publishing.heard_passing(peer, passing, self._mistaken_passing)
        except Exception as problem:
            self._mistaken_passing("", problem)
        return self.border.take_effects()

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
        before = self.broker.params
        check_same_kind(before, broker)
        is_same = (broker, params) == (before, self.params) and same_graph(graph, self.border.audience.graph)
        self.broker.adopt(broker)
        if not self.border.travelling.adopt(movement) and is_same:
            return False
        self.params = params
        self.border.keep_within(params)
        self.events.payloads = Payloads(params.payloads)
        self.border.audience.walk_on(graph)
        self.broker.logical.adopt(broker.logical, graph)
        self.border.walking.adopt(broker.logical)
        return True

    @staticmethod
    def restored(state: bytes) -> "Core":
        """Raises `BadState`. The bytes are this broker's own, from a directory that is its own."""
        core, version = loaded(state)
        if not isinstance(core, Core):
            raise BadState(f"the stored state is a {type(core).__name__}")
        try:
            upgrade(core, version, STATE_VERSION)
        except Exception as problem:
            raise BadState(f"the stored state of version {version} cannot be read: {problem!r}") from problem
        core.border.fencing.restore()
        return core

    def next_timer(self) -> tuple[int, str] | None:
        """The timer that is due first."""
        return self.border.timers.first()


def same_graph(one: MovementGraph | None, other: MovementGraph | None) -> bool:
    return (None if one is None else one.neighbours) == (None if other is None else other.neighbours)
