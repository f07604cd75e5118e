"""L2, L3: `roamcast.Client` over loopback sockets, at a plain broker in memory that two addresses lead to."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import roamcast
from roamcast.client import (
    Client,
    ClientError,
    ClientEvent,
    ConnectionRefused,
    NameTaken,
    NotConnected,
    PublicationRefused,
    SubscriptionRefused,
)
from roamcast.model.region import Circle
from roamcast.model.scope import Scope
from roamcast.model.values import Instant, Point, Value, Velocity
from roamcast.mqtt import Limits, Message, Reason
from tests.mqtt.memory_broker import MemoryBroker
from tests.mqtt.server import Server, serving
from tests.server.links.ends import Relay

pytestmark = pytest.mark.timeout(60)
PATIENCE_S = 20.0


def at_a_broker(work: Callable[[Server], Awaitable[None]], broker: MemoryBroker | None = None) -> None:
    with serving(broker) as server:

        async def bounded() -> None:
            await asyncio.wait_for(work(server), PATIENCE_S)

        asyncio.run(bounded())


def client(port: int, name: str, *more_ports: int, **options: Any) -> Client:
    return Client(name, [f"mqtt://127.0.0.1:{each}" for each in (port, *more_ports)], **options)


async def take(events: Any, count: int) -> list[ClientEvent]:
    taken: list[ClientEvent] = []
    async for event in events:
        taken.append(event)
        if len(taken) == count:
            break
    return taken


def test_l2_the_client_is_at_hand_as_roamcast_client() -> None:
    assert roamcast.Client is Client


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_l2_events_arrive_in_order_with_their_attributes(qos: int) -> None:
    async def work(server: Server) -> None:
        async with client(server.port, "r") as reader, client(server.port, "w") as writer:
            await reader.subscribe("car/+", qos=qos)
            for number in range(30):
                await writer.publish("car/speed", {"mps": number, "at": Point(1, number)}, qos=qos)
            events = await take(reader.events(), 30)
            assert [event.attributes for event in events] == [
                {"mps": each, "at": Point(1, each)} for each in range(30)
            ]
            assert {(event.subject, event.qos, event.subscriptions) for event in events} == {("car/speed", qos, (1,))}

    at_a_broker(work)


def test_l2_a_payload_of_bytes_is_opaque_and_values_of_all_kinds_come_back() -> None:
    content: dict[str, Value] = {
        "text": "ä",
        "yes": True,
        "count": 3,
        "ratio": 0.5,
        "where": Point(1.5, -2),
        "when": Instant(86_400_000_000),
    }

    async def work(server: Server) -> None:
        async with client(server.port, "c") as one:
            await one.subscribe("#")
            await one.publish("raw", b"\x00\xff")
            await one.publish("made", content)
            raw, made = await take(one.events(), 2)
            assert (raw.payload, raw.attributes) == (b"\x00\xff", {})
            assert made.attributes == content

    at_a_broker(work)


def test_l2_filters_and_scopes_are_user_properties_and_a_report_goes_to_roam_me() -> None:
    async def work(server: Server) -> None:
        async with client(server.port, "c") as one:
            circle = Circle(Point(1.5, 2.5), 50.5)
            await one.subscribe("t", "a > 1", interest=circle, publishers="kind = 'bus'", expiry_s=60)
            await one.publish("u", {}, audience=Scope(circle, roamcast.parse_text("fast = TRUE")), expiry_s=5)
            await one.move(Point(3.5, 4.5), velocity=Velocity(1.5, -0.5), attributes={"kind": "car"})

        def seen(broker: MemoryBroker, now_us: int) -> list[Any]:
            return list(broker.log)

        log = server.call(seen)
        (asked,) = [subscription for each in log for subscription in getattr(each, "subscriptions", ())]
        assert dict(asked.user_properties) == {
            "filter": "a > 1",
            "interest": '{"circle":[1.5,2.5,50.5]}',
            "publishers": "kind = 'bus'",
            "expiry": "60",
        }
        messages = [each.message for each in log if isinstance(getattr(each, "message", None), Message)]
        said = dict(messages[0].user_properties)
        assert said["audience"] == '{"circle":[1.5,2.5,50.5],"filter":"fast = TRUE"}'
        assert messages[0].expires_us is not None
        assert messages[1].topic == "$roam/me"
        assert messages[1].payload == b'{"position":[3.5,4.5],"velocity":[1.5,-0.5],"attributes":{"kind":"car"}}'

    at_a_broker(work)


def test_l2_each_subscription_has_its_own_events_and_the_rest_is_in_common() -> None:
    async def work(server: Server) -> None:
        async with client(server.port, "c") as one:
            cars, buses = await one.subscribe("car"), await one.subscribe("bus")
            again = await one.subscribe("car")
            assert again.topic_filter == "$roam/3/car"
            for subject in ("car", "bus", "car"):
                await one.publish(subject)
            assert [event.subject for event in await take(cars, 2)] == ["car", "car"]
            assert [event.subscriptions for event in await take(again, 2)] == [(1, 3), (1, 3)]
            assert [event.subject for event in await take(one.events(), 1)] == ["bus"]
            await one.publish("bus")
            assert [event.subject for event in await take(buses, 1)] == ["bus"]

    at_a_broker(work)


def test_l2_a_subscription_that_ended_gives_what_came_and_then_stops() -> None:
    async def work(server: Server) -> None:
        async with client(server.port, "c") as one:
            subscription = await one.subscribe("t")
            await one.publish("t", b"1")
            await take(subscription, 1)
            await subscription.unsubscribe()
            await one.publish("t", b"2")
            assert [event.payload async for event in subscription] == []

    at_a_broker(work)


def test_l3_when_its_broker_is_lost_a_client_goes_to_the_next_and_has_everything_once() -> None:
    async def work(server: Server) -> None:
        async with (
            Relay(server.port) as one,
            Relay(server.port) as two,
            client(one.port, "r", two.port) as reader,
            client(two.port, "w", one.port) as writer,
        ):
            await reader.subscribe("t", qos=2)
            got: list[bytes] = []

            async def read() -> None:
                async for event in reader.events():
                    got.append(event.payload)
                    if len(got) == 200:
                        return

            reading = asyncio.create_task(read())
            for number in range(200):
                await writer.publish("t", b"%d" % number, qos=2)
                if number % 20 == 10:
                    (one if number % 40 == 10 else two).drop()
            await reading
            assert got == [b"%d" % number for number in range(200)]
            assert reader.sessions_lost == writer.sessions_lost == 0
            assert one.accepted + two.accepted > 6

    at_a_broker(work)


def test_l3_publications_without_a_broker_wait_and_keep_their_order() -> None:
    async def work(server: Server) -> None:
        async with client(server.port, "r") as reader, Relay(server.port) as relay:
            await reader.subscribe("t")
            async with client(relay.port, "w") as writer:
                relay.refuses = True
                relay.drop()
                waiting = [asyncio.create_task(writer.publish("t", b"%d" % number)) for number in range(20)]
                await asyncio.sleep(0)
                relay.refuses = False
                await asyncio.gather(*waiting)
            assert [event.payload for event in await take(reader.events(), 20)] == [
                b"%d" % each for each in range(20)
            ]

    at_a_broker(work)


def test_l3_a_client_roams_when_it_is_told_to_and_keeps_its_subscriptions() -> None:
    async def work(server: Server) -> None:
        async with Relay(server.port) as other, client(server.port, "c") as one:
            await one.subscribe("t")
            await one.roam(f"mqtt://127.0.0.1:{other.port}")
            assert one.broker == f"mqtt://127.0.0.1:{other.port}"
            await one.publish("t", b"here")
            assert [event.payload for event in await take(one.events(), 1)] == [b"here"]
            assert one.sessions_lost == 0

    at_a_broker(work)


def test_l3_a_broker_to_roam_to_that_is_not_there_is_said_and_the_client_stays_at_one_that_is() -> None:
    async def work(server: Server) -> None:
        async with client(server.port, "c") as one:
            with pytest.raises(NotConnected, match="was not reached"):
                await one.roam("mqtt://127.0.0.1:1")
            await one.publish("t", b"still here")

    at_a_broker(work)


@pytest.mark.parametrize("reason", [Reason.USE_ANOTHER_SERVER, Reason.SERVER_MOVED])
def test_l3_a_client_that_is_sent_on_goes_where_it_is_sent(reason: Reason) -> None:
    async def work(server: Server) -> None:
        async with Relay(server.port) as other, client(server.port, "c") as one:
            await one.subscribe("t")
            reference = f"nonsense:port 127.0.0.1:{other.port}"
            server.call(
                lambda broker, now_us: broker.attached["c"].disconnect(now_us, reason, server_reference=reference)
            )
            while one.broker != f"mqtt://127.0.0.1:{other.port}":
                await asyncio.sleep(0.01)
            await one.publish("t", b"here")
            assert [event.payload for event in await take(one.events(), 1)] == [b"here"]

    at_a_broker(work)


def test_l3_a_lost_session_is_counted_and_subscriptions_and_the_report_are_made_again() -> None:
    async def work(server: Server) -> None:
        async with Relay(server.port) as relay, client(relay.port, "c") as one:
            await one.subscribe("t")
            await one.move(Point(1.5, 2.5), attributes={"kind": "car"})

            def forget(broker: MemoryBroker, now_us: int) -> None:
                broker.attached["c"].disconnect(now_us, Reason.ADMINISTRATIVE_ACTION)
                broker._forget(broker.sessions["c"])
                broker.log.clear()

            server.call(forget)
            await one.publish("t", b"again")
            assert [event.payload for event in await take(one.events(), 1)] == [b"again"]
            assert one.sessions_lost == 1
            messages = [
                each.message for each in server.call(lambda broker, _: list(broker.log)) if hasattr(each, "message")
            ]
            assert messages[0].payload == b'{"position":[1.5,2.5],"attributes":{"kind":"car"}}'

    at_a_broker(work)


def test_l3_what_a_publisher_sends_twice_by_qos_1_reaches_the_application_once() -> None:
    async def work(server: Server) -> None:
        async with client(server.port, "r") as reader:
            await reader.subscribe("t")

            def publish(broker: MemoryBroker, now_us: int) -> None:
                for number in (1, 1, 2, 1):
                    broker.publish(
                        now_us, "w", Message("t", b"%d" % number, 1, user_properties=(("id", f"w.{number}"),))
                    )

            server.call(publish)
            assert [event.payload for event in await take(reader.events(), 2)] == [b"1", b"2"]

    at_a_broker(work)


def test_l3_an_event_is_acknowledged_when_the_application_asks_for_the_next_one() -> None:
    async def work(server: Server) -> None:
        async with client(server.port, "r", resume=True) as reader:
            await reader.subscribe("t")
            server.call(
                lambda broker, now_us: [
                    broker.publish(now_us, "w", Message("t", b"%d" % each, 1)) for each in range(3)
                ]
            )
            assert [event.payload for event in await take(reader.events(), 2)] == [b"0", b"1"]
        async with client(server.port, "r", resume=True) as reader:
            assert [event.payload for event in await take(reader.events(), 1)] == [b"2"]

    at_a_broker(work)


def test_l2_a_refused_subscription_and_publication_are_exceptions_with_the_reason() -> None:
    async def work(server: Server) -> None:
        async with client(server.port, "c") as one:
            with pytest.raises(SubscriptionRefused) as refused:
                await one.subscribe("secret/x")
            assert refused.value.reason is Reason.NOT_AUTHORIZED
            with pytest.raises(PublicationRefused, match="not authorized"):
                await one.publish("secret/x", b"")
            await one.subscribe("open")

    broker = MemoryBroker()
    broker.forbidden = ("secret/",)
    at_a_broker(work, broker)


@pytest.mark.parametrize(
    ("subject", "content"), [("a/+", b""), ("", b""), ("x" * 70_000, b""), ("t", bytes(200_000)), ("t\0", b"")]
)
def test_l2_what_cannot_be_sent_is_said_at_the_call_and_hurts_nobody(subject: str, content: bytes) -> None:
    async def work(server: Server) -> None:
        async with client(server.port, "c") as one:
            with pytest.raises(PublicationRefused):
                await one.publish(subject, content)
            await one.publish("t", b"fine")

    at_a_broker(work, MemoryBroker(limits=Limits(packet_bytes_max=100_000)))


@pytest.mark.parametrize(
    ("qos", "retain", "said"),
    [(2, False, "at most QoS 1"), (1, True, "retains nothing"), (0, True, "retains nothing")],
)
def test_l2_what_a_broker_does_not_grant_is_refused_and_not_tried_for_ever(qos: int, retain: bool, said: str) -> None:
    async def work(server: Server) -> None:
        async with client(server.port, "c") as one:
            with pytest.raises(PublicationRefused, match=said):
                await asyncio.wait_for(one.publish("t", b"x", qos=qos, retain=retain), 10)
            await one.publish("t", b"fine")

    at_a_broker(work, MemoryBroker(limits=Limits(qos_max=1, retain_available=False)))


def test_l7_a_wrong_password_is_refused_at_once_with_the_brokers_words() -> None:
    async def work(server: Server) -> None:
        with pytest.raises(ConnectionRefused, match="who are you"):
            async with client(server.port, "c", username="me", password="wrong"):
                raise AssertionError("it must not get in")
        async with client(server.port, "c", username="me", password="right") as one:
            await one.publish("t")

    broker = MemoryBroker()
    broker.passwords = {"me": b"right"}
    at_a_broker(work, broker)


def test_l2_without_any_broker_there_is_no_client() -> None:
    async def work() -> None:
        with pytest.raises(NotConnected, match=r"127\.0\.0\.1:1"):
            async with client(1, "c", connect_s=0.5):
                raise AssertionError("there is no broker")

    asyncio.run(work())


def test_l3_a_client_whose_name_another_takes_gives_up_instead_of_taking_turns() -> None:
    async def work(server: Server) -> None:
        async with client(server.port, "c") as one, client(server.port, "c") as other:
            with pytest.raises(NameTaken):
                await take(one.events(), 1)
            with pytest.raises(NameTaken):
                await one.publish("t")
            await other.publish("t")
        with pytest.raises(ClientError, match="has left"):
            await other.publish("t")

    at_a_broker(work)


def test_l2_a_silent_broker_is_left() -> None:
    async def work(server: Server) -> None:
        async with (
            Relay(server.port) as mute,
            client(mute.port, "c", server.port, keep_alive_s=1, connect_s=2.0) as one,
        ):
            mute.swallows = True
            await one.publish("t", b"arrives by another broker")
            assert one.broker == f"mqtt://127.0.0.1:{server.port}"

    at_a_broker(work)


def test_l3_a_broker_that_takes_a_connection_and_does_not_answer_is_left() -> None:
    async def work(server: Server) -> None:
        async with Relay(server.port) as mute:
            mute.swallows = True
            async with client(mute.port, "c", server.port, connect_s=2.0) as one:
                await one.publish("t", b"arrives by another broker")
                assert one.broker == f"mqtt://127.0.0.1:{server.port}"

    at_a_broker(work)


@pytest.mark.parametrize("broker", ["http://x", "mqtt://", "mqtt://x:0", "mqtt://x:99999", "mqtt://x/path"])
def test_l2_an_address_that_is_no_broker_is_refused(broker: str) -> None:
    with pytest.raises(ValueError, match="not a broker's address"):
        Client("c", [broker])
