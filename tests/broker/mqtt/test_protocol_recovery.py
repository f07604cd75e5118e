"""docs/PROTOCOL.md, section 14: what is logged makes the same broker again (L8)."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.logical.params import LogicalParams
from roamcast.broker.modulators.spec import Aggregate, ByCount, Declarative, spec_to_text
from roamcast.broker.mqtt.audience import Audience
from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.effects import Admit, AnyEffect, Deliver
from roamcast.broker.mqtt.inputs import (
    AnyGiven,
    Arrived,
    Asked,
    Entry,
    Published,
    ReportedTogether,
    Restarted,
    decode_batch,
)
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.mqtt.properties import subscription_of
from roamcast.broker.mqtt.stored import STATE_VERSION, BadState
from roamcast.broker.params import BrokerParams
from roamcast.broker.session import Session
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane
from roamcast.model.values import Point, Velocity
from roamcast.mqtt.batches import batch_of
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.topics import parse_filter
from roamcast.server.running import RunningBroker
from roamcast.server.settings import Settings, load_protocol
from roamcast.server.storage import Log, StorageSettings
from tests.broker.mqtt.machines import EPOCH_US
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.stage import SimBroker, SimClient
from tests.effort import examples

BROKERS = st.sampled_from(("abc", "a"))
"""A broker that is alone writes reports down in another way."""
PAIRS = spec_to_text(Declarative(window=ByCount(2), aggregates=(Aggregate("count"),)))
SUBSCRIPTIONS: list[tuple[str, int, dict[str, Any]]] = [
    ("t/#", 2, {}),
    ("t/1", 1, {"filter": "n > 3"}),
    ("t/+", 1, {"filter": "near(position, 50)", "expiry": "3"}),
    ("$roam/pairs/t/#", 1, {"modulator": PAIRS}),
    ("$share/g/t/2", 2, {}),
    ("t/3", 0, {"interest": '{"circle_m": 100}'}),
]


class Life:
    """A few seconds of three brokers, or of one, and their clients, as a seed has it."""

    def __init__(self, seed: int, steps: int, brokers: str = "abc") -> None:
        self.rng = Random(seed)
        self.names = brokers
        self.scene = Scene(brokers, seed=seed)
        self.clients = [
            SimClient(self.scene.stage, f"c{number}", self.rng.choice((0, 2, 500))) for number in range(4)
        ]
        for _ in range(steps):
            self._step(self.rng.choice(self.clients))
            self.scene.rest(self.rng.choice((0.0, 0.003, 0.05, 0.5)))
        self.scene.rest(1.0)
        running = self.scene.stage.brokers.values()
        while not all(broker.server.write_ahead.settled for broker in running):
            self.scene.rest(0.001)

    def _step(self, client: SimClient) -> None:
        rng = self.rng
        match rng.randrange(8):
            case 0:
                client.connect(rng.choice(self.names), clean=rng.random() < 0.2)
            case 1:
                client.drop()
            case 2 if client.ready:
                pattern, qos, properties = rng.choice(SUBSCRIPTIONS)
                client.subscribe(pattern, qos, **properties)
            case 3:
                where = [rng.randrange(100), rng.randrange(100)]
                client.publish("$roam/me", b'{"position": %r, "velocity": [5, 0]}' % where, rng.choice((0, 1)))
            case _:
                self._publish(client)

    def _publish(self, client: SimClient) -> None:
        rng = self.rng
        topic, payload = f"t/{rng.randrange(4)}", b'{"n": %d}' % rng.randrange(8)
        lasting: dict[str, Any] = {"persist": "true"} if rng.random() < 0.1 else {}
        expiry_s = 2 if lasting else None
        client.publish(topic, payload, rng.randrange(3), rng.random() < 0.2, expiry_s, **lasting)


def entries_of(broker: SimBroker) -> Iterator[Entry]:
    for batch in broker.disk.batches:
        yield from decode_batch(batch)


def plain(effects: list[AnyEffect]) -> list[Any]:
    """Sessions are objects, and compared by what is in them."""
    found: list[Any] = []
    for each in effects:
        match each:
            case Admit(client, session, present, arrival, through):
                found.append((client, session_of(session), present, arrival, through))
            case Deliver(delivery, receivers):
                found.append((delivery, [(session.client, number) for session, number in receivers]))
            case _:
                found.append(each)
    return found


def session_of(session: Session) -> tuple[Any, ...]:
    attachment = session.attachment
    return (
        session.state(),
        session.window.after(0),
        session.window.first,
        session.unaccepted,
        (session.connected, session.coming, session.expiry_s, session.will, session.serial),
        (attachment.attached, attachment.awaits, list(attachment.held), attachment.claim, attachment.told),
    )


def state_of(core: Core) -> dict[str, Any]:
    """Everything that the broker's next steps depend on, in a form that can be compared."""
    return {
        "sessions": {name: session_of(session) for name, session in core.border.sessions.items()},
        "sought": core.border.admission.sought,
        "timers": core.border.timers._at_us,
        "left": core.broker.left(),
        "streams": {
            peer: (stream.sent, stream.got, list(stream.waiting), stream.up)
            for peer, stream in core.broker.neighbours.streams.of.items()
        },
        "retained": core.border.retained.of,
        "lasting": core.border.lasting.of,
        "audience": (
            core.border.audience.contexts,
            core.border.audience.away,
            core.border.audience._turns,
            sorted(core.border.audience._entries),
        ),
        "made": core.events.made,
    }


def fresh(broker: SimBroker) -> Core:
    return Core(broker.name, 1, broker.stage.broker_params, broker.stage.core_params)


@given(seed=st.integers(0, 2**32), steps=st.integers(5, 60), share=st.floats(0, 1), brokers=BROKERS)
@examples(30)
def test_a_broker_restored_from_a_snapshot_goes_on_as_the_one_it_was_made_of_rule_69(
    seed: int, steps: int, share: float, brokers: str
) -> None:
    for broker in Life(seed, steps, brokers).scene.stage.brokers.values():
        entries = list(entries_of(broker))
        cut = round(share * len(entries))
        one, other = fresh(broker), fresh(broker)
        for entry in entries[:cut]:
            assert plain(one.handle(entry.now_us, entry.given)) == plain(other.handle(entry.now_us, entry.given))
        other = Core.restored(other.snapshot())
        assert state_of(other) == state_of(one)
        for entry in entries[cut:]:
            assert plain(one.handle(entry.now_us, entry.given)) == plain(other.handle(entry.now_us, entry.given))
        assert state_of(other) == state_of(one)


@given(seed=st.integers(0, 2**32), steps=st.integers(5, 60), brokers=BROKERS)
@examples(40)
def test_a_log_that_is_read_again_makes_the_broker_that_wrote_it_rule_68(seed: int, steps: int, brokers: str) -> None:
    for broker in Life(seed, steps, brokers).scene.stage.brokers.values():
        again = fresh(broker)
        for entry in entries_of(broker):
            again.handle(entry.now_us, entry.given)
        core, now_us = broker.server.core, broker.server.now_us()
        core.handle(now_us, Restarted())
        again.handle(now_us, Restarted())
        assert state_of(again) == state_of(core)


def test_the_comparison_of_brokers_finds_an_input_that_is_missing_rule_68() -> None:
    life = Life(3, 60)
    broker = life.scene.stage.brokers["b"]
    again, entries = fresh(broker), list(entries_of(broker))
    for entry in entries[:-1]:
        again.handle(entry.now_us, entry.given)
    before = state_of(again)
    again.handle(entries[-1].now_us, entries[-1].given)
    states = [before, state_of(again), state_of(fresh(broker))]
    assert states[0] != states[2]
    assert states[1] != states[2]


def test_where_a_kept_session_was_is_known_after_a_kill_half_a_second_later_rule_68() -> None:
    scene = Scene()
    kept, fleeting = scene.client("kept"), scene.client("fleeting", expiry_s=0)
    broker = scene.stage.brokers["a"]
    for number in range(1, 50):
        for client in (kept, fleeting):
            client.publish("$roam/me", b'{"position": [%d, 0]}' % number, 0)
        scene.rest(0.01)
    scene.rest(0.6)
    broker.kill()
    broker.start()
    assert broker.server.core.border.sessions["kept"].context.position == Point(49, 0)
    reports = [each.given for each in entries_of(broker) if isinstance(each.given, ReportedTogether)]
    assert 1 <= len(reports) <= 3


def test_where_fleeting_sessions_are_is_written_down_when_something_comes_that_may_depend_on_it_rule_68() -> None:
    scene = Scene()
    fleeting, kept = scene.client("fleeting", expiry_s=0), scene.client("kept")
    scene.subscribe(kept, "t", 1)
    kept.drop()
    scene.rest(0.6)
    broker = scene.stage.brokers["a"]
    before = len(broker.disk.batches)
    for number in range(50):
        fleeting.publish("$roam/me", b'{"position": [%d, 0]}' % number, 0)
        scene.rest(0.02)
    assert len(broker.disk.batches) == before
    scene.publish(fleeting, "t", b"{}", qos=1)
    broker.kill()
    broker.start()
    waiting = broker.server.core.broker.border.sessions["kept"].window.entries
    assert [each.event.attributes["position"] for each in waiting.values()] == [Point(49, 0)]


def test_nothing_is_seen_by_anybody_before_it_is_on_disk_rule_68() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", qos=1)
    broker = scene.stage.brokers["a"]
    heard = len(writer.heard), len(reader.heard)
    broker.head.dead = True
    writer.publish("t", b"x", 1)
    scene.rest(2.0)
    assert (len(writer.heard), len(reader.heard)) == heard


def test_messages_of_qos_0_are_not_logged_rule_70() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t", filter="n = 1")
    scene.rest(0.6)
    before = [len(list(entries_of(broker))) for broker in scene.stage.brokers.values()]
    scene.publish(writer, "t", {"n": 1}, qos=0)
    assert len(reader.taken) == 1
    assert [len(list(entries_of(broker))) for broker in scene.stage.brokers.values()] == before


def test_state_of_another_version_is_refused_rule_71() -> None:
    with pytest.raises(BadState):
        Core.restored(b"no state")
    core = Core("a", 1)
    with pytest.raises(BadState, match=r"version before 3.*Start it with the roamcast that wrote it"):
        Core.restored(pickle.dumps((2, core)))
    with pytest.raises(BadState, match=rf"version 99; this broker reads 12 to {STATE_VERSION}.*Start it"):
        Core.restored(core.snapshot().replace(b"state %d" % STATE_VERSION, b"state 99", 1))
    assert Core.restored(core.snapshot()).host == "a"


def test_other_bounds_and_another_graph_hold_from_the_next_start(tmp_path: Path) -> None:
    model = '{"version": 1, "places": {"hall": {"residence_s": 5, "next": {"roof": 2}}, "roof": {"residence_s": 5}}}'
    (tmp_path / "walks.json").write_text(model)
    logical = LogicalParams(movement=str(tmp_path / "walks.json"))
    before = Settings("a", str(tmp_path))
    after = Settings(
        "a",
        str(tmp_path),
        keeping=CoreParams(retained_messages_max=7, lasting_messages_max=8),
        protocol=BrokerParams(logical=logical),
    )
    log = Log.open(tmp_path, StorageSettings())
    try:
        RunningBroker(before)._recovered(log)
        for _ in range(2):
            core = RunningBroker(after)._recovered(log)
            assert (core.border.retained.messages_max, core.border.lasting.messages_max) == (7, 8)
            assert core.border.audience.graph is not None
            assert core.adopt(load_protocol(after), after.keeping, core.border.audience.graph) is False
        assert RunningBroker(before)._recovered(log).border.audience.graph is None
    finally:
        log.close()


def test_data_of_another_broker_or_space_is_refused_rule_71(tmp_path: Path) -> None:
    log = Log.open(tmp_path, StorageSettings())
    try:
        RunningBroker(Settings("a", str(tmp_path)))._recovered(log)
        with pytest.raises(BadState, match="called 'a', not 'b'"):
            RunningBroker(Settings("b", str(tmp_path)))._recovered(log)
        with pytest.raises(BadState, match="another space"):
            RunningBroker(Settings("a", str(tmp_path), "plane"))._recovered(log)
    finally:
        log.close()


def test_messages_of_qos_0_that_are_not_logged_choose_no_member_for_one_that_is_rule_69() -> None:
    lives = [Core("a", 1), Core("a", 1)]
    shared = Subscription(parse_filter("$share/g/t"), 1)
    inputs: list[AnyGiven] = [Arrived(name, True, 100) for name in ("one", "other", "writer")]
    inputs += [Asked(name, 1, (shared,)) for name in ("one", "other")]
    for number, each in enumerate(inputs):
        for core in lives:
            core.handle(EPOCH_US + number, each)
    lives[0].passing(EPOCH_US + 10, [("writer", batch_of(Message("t", b"not logged")))])
    for core in lives:
        core.handle(EPOCH_US + 20, Published("writer", 0, Message("t", b"kept", 0, True)))
    assert lives[0].border.retained.of["t"] == lives[1].border.retained.of["t"]


@pytest.mark.parametrize("asked_before", [False, True])
def test_where_a_client_that_roams_in_is_does_not_depend_on_who_asked_before_rule_69(asked_before: bool) -> None:
    audience, near = Audience(Plane()), (("filter", "near(position, 50)"),)
    asked = Subscription(parse_filter("t"), 1, user_properties=near)
    audience.subscribe("c", asked, subscription_of("c", asked, EPOCH_US, Plane()))
    audience.moved(Context("walker", Point(0, 0), EPOCH_US, Velocity(1, 0)))
    event = Event("e", "t", Context("p"), EPOCH_US, EPOCH_US, {"position": Point(600, 0)})
    if asked_before:
        # As a message of QoS 0 does, which is not logged.
        audience.of(event, EPOCH_US + 100, passing=True)
    audience.moved(Context("c", Point(0, 0), EPOCH_US - 60_000_000, Velocity(10, 0)))
    assert [client for client, _ in audience.of(event, EPOCH_US + 200)] == ["c"]
