"""L2, L8: a broker that handles inputs together is afterwards as if each of them had come alone.

A tick's acknowledgements, reports and messages of QoS 0, plain messages of QoS 1 that came in one piece,
subscriptions of one SUBSCRIBE and messages of one frame come to `Core` together, in any mixture. Of two brokers that
are given the same, one is given them so, and the other one by one.
"""

from collections import deque
from itertools import count
from types import FunctionType
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.frames import CODEC, Encodings, stream_frames
from roamcast.broker.messages import BrokerMessage, Hello, Notified, Sequenced, Unwanted, Wanted
from roamcast.broker.mqtt.content import REPORT_TOPIC
from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.effects import Accept, Acknowledge, AnyEffect, Deliver, Hand, Remark, Tell
from roamcast.broker.mqtt.events import Events
from roamcast.broker.mqtt.inputs import (
    AnyGiven,
    Arrived,
    Asked,
    Finished,
    Fired,
    Heard,
    Left,
    LinkChanged,
    Published,
    PublishedByMany,
    PublishedTogether,
    Received,
    Released,
    Reported,
    ReportedTogether,
    Withdrew,
    decode_batch,
)
from roamcast.broker.mqtt.passing import Passing
from roamcast.broker.wishes import Wish
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import EVERYTHING
from roamcast.model.space import Plane
from roamcast.model.values import Point
from roamcast.mqtt import encode
from roamcast.mqtt.batches import batch_of, merged
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.packets import V5, Pairs, Publish
from roamcast.mqtt.reasons import Reason
from roamcast.mqtt.topics import parse_filter
from tests.broker.mqtt.machines import EPOCH_US
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.test_protocol_recovery import PAIRS, plain
from tests.effort import examples

SUBSCRIPTIONS: tuple[tuple[str, int, Pairs], ...] = (
    ("t/#", 2, ()),
    ("t/1", 0, ()),
    ("t/1", 1, (("filter", "n > 3"),)),
    ("t/+", 1, (("filter", "near(position, 50)"), ("expiry", "3"))),
    ("$roam/pairs/t/#", 1, (("modulator", PAIRS),)),
    ("$share/g/t/2", 1, ()),
)
PLAIN = (msgspec.Struct, int, float, str, bytes, type, FunctionType, type(None))
CLIENTS = st.sampled_from(("one", "two", "three"))
TOPICS = st.sampled_from(("t/1", "t/2", "u"))
NUMBERS = st.integers(0, 7)
PAYLOADS = NUMBERS.map(lambda number: near_by(number))
WANTED = st.sampled_from([Subscription(parse_filter(text), qos, user_properties=p) for text, qos, p in SUBSCRIPTIONS])
PLACES = st.builds(Point, NUMBERS.map(lambda n: n * 20.0), st.just(0.0))
SAID = st.tuples(st.booleans(), TOPICS, PAYLOADS, st.booleans())


WRITTEN = (("two", 0), ("one", 9), ("two", 1), ("three", 2))
ROWS = st.tuples(CLIENTS, TOPICS, st.lists(PAYLOADS, min_size=1, max_size=5))


def several(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(of, min_size=1, max_size=5)


STEPS = st.one_of(
    st.tuples(st.just("arrive"), CLIENTS, st.booleans(), st.sampled_from((0, 2, 500))),
    st.tuples(st.just("leave"), CLIENTS),
    st.tuples(st.just("subscribe"), CLIENTS, several(WANTED)),
    st.tuples(st.just("unsubscribe"), CLIENTS, several(st.sampled_from([each[0] for each in SUBSCRIPTIONS]))),
    st.tuples(st.just("publish"), CLIENTS, TOPICS, PAYLOADS, st.integers(1, 2), st.booleans()),
    st.tuples(st.just("publish_together"), several(ROWS)),
    st.tuples(st.just("pass"), several(ROWS)),
    st.tuples(st.just("report"), several(st.tuples(CLIENTS, PLACES))),
    st.tuples(st.just("finish"), several(st.tuples(CLIENTS, several(NUMBERS)))),
    st.tuples(st.just("receive"), CLIENTS, NUMBERS),
    st.tuples(st.just("release"), CLIENTS, st.integers(1, 3)),
    st.tuples(st.just("hear"), several(SAID)),
    st.tuples(st.just("hear_passing"), several(st.tuples(TOPICS, PAYLOADS, NUMBERS))),
    st.tuples(st.just("link"), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from((1_000, 700_000, 3_000_000))),
)


def near_by(number: int) -> bytes:
    """Nine is far away."""
    return b'{"n": %d, "position": [%d, 0]}' % (number, number * 15)


def unexpected(problem: str) -> None:
    raise AssertionError(problem)


class Twins:
    def __init__(self) -> None:
        self.together, self.alone = Core("a", 1), Core("a", 1)
        self.now_us = EPOCH_US
        self.neighbour = Events("b", 1, Plane())
        self.heard = 0
        for client in ("one", "two", "three"):
            self.both(Arrived(client, False, 500))
        self.link(True)

    def both(self, given: AnyGiven) -> None:
        self.parted(given, [given])

    def parted(self, given: AnyGiven, parts: list[AnyGiven]) -> None:
        effects = self.together.handle(self.now_us, given)
        one_by_one = [each for part in parts for each in self.alone.handle(self.now_us, part)]
        if parts == [given]:
            assert plain(effects) == plain(one_by_one)
        assert seen(effects) == seen(one_by_one)

    def step(self, kind: str, *said: Any) -> None:
        getattr(self, kind if kind != "pass" else "pass_on")(*said)
        self.now_us += 10

    def arrive(self, client: str, clean: bool, expiry_s: int) -> None:
        self.both(Arrived(client, clean, expiry_s))

    def leave(self, client: str) -> None:
        self.both(Left(client, None, False))

    def subscribe(self, client: str, wanted: list[Subscription]) -> None:
        self.parted(Asked(client, 1, tuple(wanted)), [Asked(client, 1, (each,)) for each in wanted])

    def unsubscribe(self, client: str, filters: list[str]) -> None:
        self.parted(Withdrew(client, 1, tuple(filters)), [Withdrew(client, 1, (each,)) for each in filters])

    def publish(self, client: str, topic: str, payload: bytes, qos: int, retain: bool) -> None:
        self.both(Published(client, qos, Message(topic, payload, qos, retain)))

    def publish_together(self, said: list[tuple[str, str, list[bytes]]]) -> None:
        numbers = count(10)
        rows = [
            PublishedTogether(client, topic, tuple([next(numbers) for _ in bodies]), tuple(bodies))
            for client, topic, bodies in said
        ]
        alone: list[AnyGiven] = [
            Published(row.client, number, Message(row.topic, body, 1))
            for row in rows
            for number, body in zip(row.packet_ids, row.payloads, strict=True)
        ]
        self.parted(rows[0] if len(rows) == 1 else PublishedByMany(tuple(rows)), alone)

    def pass_on(self, said: list[tuple[str, str, list[bytes]]]) -> None:
        passing = [
            (client, merged([batch_of(Message(topic, each)) for each in bodies])) for client, topic, bodies in said
        ]
        effects = self.together.passing(self.now_us, passing)
        alone = [(client, batch_of(each)) for client, batch in passing for each in batch.messages]
        one_by_one = [each for part in alone for each in self.alone.passing(self.now_us, [part])]
        assert seen(effects) == seen(one_by_one)

    def report(self, reports: list[tuple[str, Point]]) -> None:
        contexts = [Context(client, where, self.now_us) for client, where in reports]
        self.parted(ReportedTogether(tuple(contexts)), [Reported(each) for each in contexts])

    def finish(self, rows: list[tuple[str, list[int]]]) -> None:
        told = [(client, tuple(map(self._number(client), places))) for client, places in rows]
        alone: list[AnyGiven] = [Finished(((client, (each,)),)) for client, numbers in told for each in numbers]
        self.parted(Finished(tuple(told)), alone)

    def _number(self, client: str) -> Any:
        session = self.together.border.sessions.get(client)
        first = 1 if session is None else session.window.first
        return lambda place: first + place

    def receive(self, client: str, place: int) -> None:
        self.both(Received(client, self._number(client)(place)))

    def release(self, client: str, packet_id: int) -> None:
        self.both(Released(client, packet_id))

    def hear(self, said: list[tuple[bool, str, bytes, bool]]) -> None:
        messages = [Sequenced(self.heard + place, self._said(*each)) for place, each in enumerate(said, start=1)]
        self.heard += len(messages)
        [together] = stream_frames(messages, Encodings(unexpected))
        alone = [data for each in messages for data in stream_frames([each], Encodings(unexpected))]
        self.parted(Heard("b", together), [Heard("b", each) for each in alone])

    def hear_passing(self, said: list[tuple[str, bytes, int]]) -> None:
        passing = [
            Passing(self.neighbour.passing_event_of(Context("far"), Message(topic, body), self.now_us - ago, True))
            for topic, body, ago in said
        ]
        effects = self.together.heard_passing(self.now_us, "b", passing)
        one_by_one = [each for one in passing for each in self.alone.heard_passing(self.now_us, "b", (one,))]
        assert seen(effects) == seen(one_by_one)

    def _said(self, is_event: bool, topic: str, payload: bytes, other: bool) -> BrokerMessage:
        if not is_event:
            return Wanted(Wish(topic, topic, EVERYTHING)) if other else Unwanted(topic)
        message = Message(topic, payload, 1, retain=other)
        ago_us = 7 * (len(topic) + payload[5] % 4)
        return Notified(self.neighbour.event_of(Context("far"), message, self.now_us - ago_us), self.neighbour.made)

    def link(self, up: bool) -> None:
        self.both(LinkChanged("b", up))
        if up:
            stream = self.together.broker.neighbours.streams
            self.both(Heard("b", CODEC.encode(Hello(1, stream.life, 0))))

    def wait(self, duration_us: int) -> None:
        self.now_us += duration_us
        due = self.together.next_timer()
        assert due == self.alone.next_timer()
        if due is not None and due[0] <= self.now_us:
            self.both(Fired(due[1]))


def seen(effects: list[AnyEffect]) -> dict[str, list[Any]]:
    """By client and neighbour, what it gets in which order."""
    found: dict[str, list[Any]] = {}
    for each in effects:
        match each:
            case Deliver(run, receivers):
                for session, last in receivers:
                    found.setdefault(session.client, []).extend(enumerate(run, last - len(run) + 1))
            case Hand(clients, batch, retain, ids):
                for client in clients:
                    handed = [(message, retain, ids) for message in batch.messages]
                    found.setdefault(f"{client}, QoS 0", []).extend(handed)
            case Tell(peer, message):
                found.setdefault(peer, []).append(message)
            case Acknowledge(client, packet_id, Reason.SUCCESS):
                found.setdefault(f"{client}, accepted", []).append(packet_id)
            case Accept(client, packet_ids):
                found.setdefault(f"{client}, accepted", []).extend(packet_ids)
            case _:
                pass
    return found


def difference(one: Core, other: Core) -> str | None:
    """Where two snapshots differ first: in what pickle takes of anything that can be reached; None if nowhere."""
    met: set[tuple[int, int]] = set()
    kept: list[Any] = []
    waiting: deque[tuple[str, Any, Any]] = deque([("", one, other)])
    while waiting:
        path, left, right = waiting.popleft()
        if (id(left), id(right)) in met:
            continue
        met.add((id(left), id(right)))
        # As long as they are here no others can have their identities.
        kept.append((left, right))
        if type(left) is not type(right):
            return path
        if isinstance(left, dict):
            if list(left) != list(right):
                return path
            waiting += [(f"{path}.{key}", value, right[key]) for key, value in left.items()]
        elif isinstance(left, list | tuple | set | deque):
            if len(left) != len(right):
                return path
            waiting += [(path, *pair) for pair in zip(left, right, strict=True)]
        elif isinstance(left, PLAIN):
            if left != right:
                return path
        else:
            waiting.append((path, parts_of(left), parts_of(right)))
    return None


def parts_of(thing: Any) -> tuple[Any, ...]:
    """Of a value that is no plain one, what a snapshot holds."""
    _, made_of, state, *more = (*thing.__reduce_ex__(5), None, None)[:5]
    return (made_of, state, *(None if each is None else list(each) for each in more))


@given(steps=st.lists(STEPS, max_size=40))
@examples(300)
def test_inputs_handled_together_leave_the_same_snapshot_as_one_by_one_l8(steps: list[tuple[Any, ...]]) -> None:
    twins = Twins()
    for step in steps:
        twins.step(*step)
    assert difference(twins.together, twins.alone) is None


@pytest.mark.parametrize(
    "steps",
    [
        [("hear", [(True, "t/1", near_by(n), False) for n in (0, 9, 1, 2)])],
        [("publish_together", [("two", "t/1", [near_by(n) for n in (0, 9, 1, 2)])])],
        [("publish_together", [(who, "t/1", [near_by(n)]) for who, n in WRITTEN])],
    ],
)
def test_events_that_come_together_are_matched_as_if_each_came_alone_l2(steps: list[tuple[Any, ...]]) -> None:
    twins = Twins()
    near = Subscription(parse_filter("t/+"), 1, user_properties=(("filter", "near(position, 50)"),))
    for client, x in (("one", 0.0), ("three", 20.0)):
        twins.step("subscribe", client, [near])
        twins.step("report", [(client, Point(x, 0.0))])
    twins.step("wait", 1_000)
    for step in steps:
        twins.step(*step)
    numbers = [list(twins.together.border.sessions[each].window.entries) for each in ("one", "three")]
    assert numbers == [[1, 2, 3], [1, 2, 3]]
    assert difference(twins.together, twins.alone) is None


@pytest.mark.parametrize(
    ("given", "where"),
    [
        (Finished((("one", (1,)),)), ".border.sessions.one.window"),
        (Reported(Context("two", Point(1, 2), EPOCH_US)), ".border.sessions.two.context"),
        (Published("one", 1, Message("u", b"more", 1)), ".events.made"),
    ],
)
def test_snapshots_that_differ_are_told_apart(given: AnyGiven, where: str) -> None:
    twins = Twins()
    twins.subscribe("one", [Subscription(parse_filter("u"), 1)])
    twins.publish("two", "u", b"1", 1, False)
    assert difference(twins.together, twins.alone) is None
    twins.together.handle(twins.now_us, given)
    assert (difference(twins.together, twins.alone) or "").startswith(where)


def tick(*said: tuple[str, str, bytes, int]) -> list[AnyGiven]:
    """What is logged of messages that a broker reads in one tick; its clients are one and two."""
    scene = Scene()
    for name in ("one", "two"):
        scene.subscribe(scene.client(name), "t", filter="near(position, 50)")
    scene.rest(2.0)
    broker = scene.stage.brokers["a"]
    before = len(broker.disk.batches)
    for number, (client, topic, body, qos) in enumerate(said, start=1):
        packet = Publish(topic, body, qos, packet_id=number * bool(qos))
        broker.server.clients[client].data_received(encode(packet, V5))
    scene.rest(2.0)
    given = [entry.given for batch in broker.disk.batches[before:] for entry in decode_batch(batch)]
    return [each for each in given if not isinstance(each, Finished)]


def test_messages_of_several_connections_in_a_tick_are_one_input_l2() -> None:
    [given] = tick(("one", "t", near_by(1), 1), ("two", "t", near_by(2), 1), ("one", "t", near_by(3), 1))
    assert isinstance(given, PublishedByMany)
    assert [row.client for row in given.rows] == ["one", "two", "one"]


def test_a_report_comes_behind_what_its_client_published_before_l2() -> None:
    given = tick(("one", "t", near_by(1), 1), ("one", REPORT_TOPIC, near_by(9), 0), ("one", "t", near_by(2), 1))
    assert [type(each) for each in given] == [PublishedTogether, ReportedTogether, PublishedTogether]


def test_a_mistake_with_one_message_of_a_frame_costs_none_of_the_others_l2() -> None:
    twins = Twins()
    core = twins.together
    twins.subscribe("one", [Subscription(parse_filter("t/#"), 0)])
    passing = [
        Passing(twins.neighbour.passing_event_of(Context("far"), Message("t/1", body), EPOCH_US, True))
        for body in (b"1", b"2", b"3")
    ]
    bad, message_in = passing[1].event, core.events.carried_by

    def carried_by(event: Event) -> Message | None:
        assert event is not bad
        return message_in(event)

    with patch.object(core.events, "carried_by", carried_by):
        effects = core.heard_passing(EPOCH_US, "b", passing)
    assert [each.batch.messages[0].payload for each in effects if isinstance(each, Hand)] == [b"1", b"3"]
    assert [each.what for each in effects if isinstance(each, Remark)] == ["internal_error"]
