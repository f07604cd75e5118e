"""L1: real nodes over multicast on one machine find each other, hear what is for them, and survive what is not."""

import random
import socket
import threading

import pytest

from roamcast.adhoc.proximity.groups import DISCOVERY_GROUP
from roamcast.adhoc.proximity.messages import Withdrawn
from roamcast.model.event import ContentType, EventType
from roamcast.model.filter import parse_text
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.space import Earth
from roamcast.model.values import Point, Velocity
from roamcast.multicast import frames
from roamcast.multicast.drops import Reason
from roamcast.multicast.keys import OPEN_GROUP_KEY, PREPARED_MAX, Identity, key_id
from roamcast.multicast.multicast import EVERYBODY
from roamcast.multicast.sockets import group_address
from tests.multicast.lan import CONTEXT, ICE, Lan, run, until
from tests.multicast.samples import CODEC


def test_l1_two_nodes_find_each_other_and_an_event_arrives() -> None:
    async def story() -> None:
        async with Lan() as lan:
            lan.node("producer")
            lan.node("consumer", 50)
            lan.listen("consumer", filter="depth > 2")
            lan.announce("producer")
            await until(lambda: lan.members("consumer") == 1)
            for depth in (1, 3, 2, 4):
                lan.nodes["producer"].port.raise_("ice", {"depth": depth})
            await until(lambda: len(lan.got["consumer"]) == 2)
            assert lan.depths("consumer") == [3, 4]

    run(story)


def test_l1_s5_who_is_outside_a_proximity_gets_nothing_until_it_comes_in() -> None:
    async def story() -> None:
        async with Lan() as lan:
            for name, x in (("producer", 0), ("near", 50), ("far", 500)):
                lan.node(name, x)
            lan.listen("near")
            lan.listen("far")
            lan.announce("producer")
            await until(lambda: lan.members("near") == 1)
            lan.nodes["producer"].port.raise_("ice", {"depth": 1})
            await until(lambda: lan.depths("near") == [1])
            assert lan.members("far") == 0
            lan.nodes["far"].move(Point(90.0, 0.0))
            await until(lambda: lan.members("far") == 1)
            lan.nodes["producer"].port.raise_("ice", {"depth": 2})
            await until(lambda: lan.depths("far") == [2])
            assert lan.depths("near") == [1, 2]

    run(story)


def test_l1_s6_groups_are_joined_and_left_as_proximities_come_and_go() -> None:
    async def story() -> None:
        async with Lan() as lan:
            lan.node("producer")
            consumer = lan.node("consumer", 50)
            lan.listen("consumer")
            before = dict(consumer.air._joined)
            assert list(before) == [EVERYBODY, DISCOVERY_GROUP]
            lan.announce("producer")
            await until(lambda: len(consumer.air._joined) == 3)
            consumer.move(Point(900.0, 0.0))
            await until(lambda: consumer.air._joined == before)
            consumer.move(Point(50.0, 0.0))
            await until(lambda: len(consumer.air._joined) == 3)
            lan.nodes["producer"].port.unannounce("ice")
            await until(lambda: consumer.air._joined == before)

    run(story)


def test_l1_a_node_that_stops_withdraws_its_proximity() -> None:
    async def story() -> None:
        async with Lan() as lan:
            await lan.acquainted()
            await lan.stop("producer")
            await until(lambda: lan.members("consumer") == 0)

    run(story)


def test_l1_more_groups_than_a_socket_may_join_are_all_heard() -> None:
    async def story() -> None:
        async with Lan() as lan:
            producer = lan.node("producer")
            consumer = lan.node("consumer", 50)
            lan.listen("consumer", "road/#")
            subjects = [f"road/{number}" for number in range(50)]
            for subject in subjects:
                lan.announce("producer", event_type=EventType(subject))
            await until(lambda: lan.members("consumer") == len(subjects))
            assert len(consumer.air._members) >= 3
            for subject in subjects:
                producer.port.raise_(subject)
            await until(lambda: len(lan.got["consumer"]) == len(subjects))
            assert sorted(event.subject for event in lan.got["consumer"]) == sorted(subjects)
            for subject in subjects:
                producer.port.unannounce(subject)
            await until(lambda: lan.members("consumer") == 0)
            assert len(consumer.air._members) == 1
            assert consumer.air.drops.counts["replayed"] == consumer.air.drops.counts["not_joined"] == 0

    run(story)


def test_l1_c_events_of_the_context_protocol_reach_those_whose_contexts_fit() -> None:
    async def story() -> None:
        async with Lan(CONTEXT) as lan:
            for name, x in (("publisher", 0), ("fitting", 60), ("elsewhere", 150)):
                lan.node(name, x)
            here = Scope(Anchored(Circle(Point(0.0, 0.0), 80.0), "publisher"))
            lan.listen("fitting", publishers=Scope(None, parse_text("kind = 'taxi'")))
            lan.listen("elsewhere")
            lan.nodes["publisher"].port.announce(ICE)
            lan.nodes["publisher"].port.set(kind="taxi")
            lan.nodes["publisher"].port.raise_("ice", {"depth": 1}, lifetime_s=30, audience=here)
            await until(lambda: lan.depths("fitting") == [1])
            lan.nodes["elsewhere"].move(Point(40.0, 0.0))
            await until(lambda: lan.depths("elsewhere") == [1])
            assert lan.depths("fitting") == [1]

    run(story)


def test_l1_c2_nodes_ask_each_other_for_what_conditions_on_neighbours_read() -> None:
    async def story() -> None:
        async with Lan(CONTEXT) as lan:
            for name in ("publisher", "calm", "braking"):
                lan.node(name)
                lan.nodes[name].port.set(brakes=name == "braking")
                lan.listen(name, filter="neighbours.any(NOT brakes)")
            lan.nodes["publisher"].port.announce(ICE)
            beside_one = Scope(None, parse_text("host <> 'publisher' AND neighbours.count(brakes) = 1"))
            lan.nodes["publisher"].port.raise_("ice", {"depth": 1}, lifetime_s=60, audience=beside_one)
            await until(lambda: lan.depths("calm") == [1])
            assert lan.depths("braking") == []
            lan.nodes["calm"].port.set(brakes=True)
            await until(lambda: lan.depths("braking") == [1])
            assert lan.depths("publisher") == []

    run(story)


def test_l1_nodes_on_earth_are_near_each_other_by_longitude_and_latitude() -> None:
    async def story() -> None:
        async with Lan(space=Earth()) as lan:
            lan.node("producer", 24.9400, 60.1700)
            lan.node("near", 24.9410, 60.1700)
            lan.node("far", 24.9600, 60.1700)
            lan.listen("near")
            lan.listen("far")
            lan.announce("producer", 100.0)
            await until(lambda: lan.members("near") == 1)
            lan.nodes["producer"].port.raise_("ice", {"depth": 1})
            await until(lambda: lan.depths("near") == [1])
            assert lan.members("far") == 0

    run(story)


def test_l1_s11_what_was_raised_while_a_consumer_was_deaf_is_asked_for() -> None:
    async def story() -> None:
        async with Lan() as lan:
            producer, consumer = await lan.acquainted()
            consumer.air.taken = 0
            hear, consumer.air.heard = consumer.air.heard, lambda heard: None
            producer.port.raise_("ice", {"depth": 1})
            await until(lambda: consumer.air.taken >= 2)
            consumer.air.heard = hear
            await until(lambda: lan.depths("consumer") == [1])

    run(story)


def test_l1_a_moving_host_is_carried_on_between_its_moves() -> None:
    async def story() -> None:
        async with Lan() as lan:
            node = lan.node("car")
            node.move(Point(0.0, 0.0), Velocity(1_000.0, 0.0))
            await until(lambda: node.port.me.position.x > 10)  # type: ignore[union-attr]
            node.port.set(wipers=True)
            assert node.port.me.attributes == {"wipers": True}
            assert node.port.me.position.x > 10  # type: ignore[union-attr]

    run(story)


# What is not for them.


def test_l7_groups_with_different_keys_do_not_hear_each_other() -> None:
    async def story() -> None:
        async with Lan() as lan:
            lan.node("producer", group_key=b"k" * 32)
            friend = lan.node("friend", 50, group_key=b"k" * 32)
            other = lan.node("other", 50)
            lan.listen("friend")
            lan.listen("other")
            lan.announce("producer")
            await until(lambda: lan.members("friend") == 1)
            await until(lambda: other.air.drops.counts["wrong_key"] > 0)
            assert other.air.taken == 0
            assert friend.air.drops.counts["wrong_key"] == 0

    run(story)


def test_l7_a_second_node_of_the_same_name_is_not_heard() -> None:
    async def story() -> None:
        async with Lan() as lan:
            _, consumer = await lan.acquainted()
            honest = lan.nodes.pop("producer")
            lan.node("producer", identity=Identity.fresh())
            lan.announce("producer")
            await until(lambda: consumer.air.drops.counts["forged"] > 0)
            assert lan.members("consumer") == 1
            lan.nodes["impostor"], lan.nodes["producer"] = lan.nodes["producer"], honest

    run(story)


def test_l7_a_node_that_comes_back_with_its_key_is_heard() -> None:
    async def story() -> None:
        async with Lan() as lan:
            lan.node("consumer", 50)
            lan.listen("consumer")

            async def heard(depth: int) -> None:
                await until(lambda: lan.depths("consumer")[-1:] == [depth])

            for depth in (1, 2, 3):
                lan.node("producer")
                lan.announce("producer")
                await until(lambda: lan.members("consumer") == 1)
                lan.nodes["producer"].port.raise_("ice", {"depth": depth})
                await heard(depth)
                await lan.stop("producer")
                await until(lambda: lan.members("consumer") == 0)
            assert lan.depths("consumer") == [1, 2, 3]

    run(story)


def bad_datagrams(good: bytes) -> dict[Reason, bytes]:
    """One of each kind, made of a good one that was heard already."""
    rng = random.Random(7)
    broken = bytearray(good)
    broken[frames.COUNTER_AT] ^= 1
    ours = frames.PREFIX + key_id(OPEN_GROUP_KEY)
    return {
        "replayed": good,
        "broken_seal": bytes(broken),
        "truncated": good[: frames.HEADER_BYTES],
        "oversized": bytes(frames.FRAME_BYTES_MAX + 100),
        "not_ours": rng.randbytes(300),
        "version": frames.MAGIC + b"\xff" + rng.randbytes(300),
        "wrong_key": frames.PREFIX + rng.randbytes(300),
        "other_space": ours + b"\x01" + bytes([1]) * 300,
        "not_joined": ours + b"\x00\x99\x99\x99" + bytes([1]) * 300,
    }


def test_l7_a_flood_of_every_kind_of_bad_datagram_is_counted_and_delivers_nothing() -> None:
    async def story() -> None:
        async with Lan() as lan:
            producer, consumer = await lan.acquainted()
            recorded: list[bytes] = []
            take = consumer.air.take

            def record(datagram: bytes) -> None:
                recorded.append(datagram)
                take(datagram)

            async def more_dropped_than(least: int) -> None:
                await until(lambda: sum(consumer.air.drops.counts.values()) > least)

            assert consumer.air._receiver is not None
            consumer.air._receiver.take = record
            producer.port.raise_("ice", {"depth": 1})
            await until(lambda: lan.depths("consumer") == [1])
            good = next(each for each in recorded if frames.read_header(each).group > DISCOVERY_GROUP)
            bad = bad_datagrams(good)
            before = dict(consumer.air.drops.counts)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
                attacker.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
                for _ in range(40):
                    for datagram in bad.values():
                        attacker.sendto(datagram, (group_address(DISCOVERY_GROUP), lan.port))
                    arrived = sum(consumer.air.drops.counts.values())
                    await more_dropped_than(arrived)
            counts = consumer.air.drops.counts
            await until(lambda: all(counts[reason] >= before[reason] + 40 for reason in bad))
            producer.port.raise_("ice", {"depth": 2})
            await until(lambda: lan.depths("consumer")[-1:] == [2])
            assert lan.depths("consumer") == [1, 2]
            assert list(consumer.seals.peers.by_name) == ["producer"]

    run(story)


def test_l7_at_full_rate_bad_datagrams_leave_nothing_behind_and_good_ones_still_arrive() -> None:
    async def story() -> None:
        async with Lan() as lan:
            producer, consumer = await lan.acquainted()
            group = next(iter(consumer.host.host.node.discovery.groups))  # type: ignore[attr-defined]
            bad = list(bad_datagrams(producer.seals.seal(CODEC.encode(Withdrawn("producer:none")), group)).values())
            flooding, sent = True, 0

            def flood() -> None:
                nonlocal sent
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
                    attacker.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
                    while flooding:
                        for datagram in bad:
                            attacker.sendto(datagram, (group_address(DISCOVERY_GROUP), lan.port))
                            sent += 1

            thread = threading.Thread(target=flood)
            thread.start()
            try:
                await until(lambda: sum(consumer.air.drops.counts.values()) > 3_000)
                lan.nodes["producer"].port.raise_("ice", {"depth": 1}, lifetime_s=60)
                await until(lambda: lan.depths("consumer") == [1])
            finally:
                flooding = False
                thread.join()
            assert sent > 3_000
            assert list(consumer.seals.peers.by_name) == ["producer"]
            assert len(consumer.seals.signatures._attested) < 10
            assert lan.depths("consumer") == [1]

    run(story)


def test_l6_a_reason_to_drop_is_told_once_with_what_was_wrong_first_whatever_a_flood_does() -> None:
    async def story() -> None:
        async with Lan() as lan:
            producer, consumer = await lan.acquainted()
            told: list[tuple[Reason, str]] = []
            consumer.dropped = lambda reason, detail: told.append((reason, detail))
            group = next(iter(consumer.host.host.node.discovery.groups))  # type: ignore[attr-defined]
            good = producer.seals.seal(CODEC.encode(Withdrawn("producer:none")), group)
            consumer.air.take(good)
            bad = bad_datagrams(good)
            for _ in range(3):
                for datagram in bad.values():
                    consumer.air.take(datagram)
                    consumer.air.take(datagram)
                consumer._tell_drops()
            assert sorted(reason for reason, _ in told) == sorted(bad)
            assert dict(told)["oversized"].endswith(f"at most {frames.FRAME_BYTES_MAX}")
            assert dict(told)["version"] == f"version 255, this side speaks {frames.VERSION}"

    run(story)


def test_l6_nodes_of_two_protocols_drop_each_others_messages_as_malformed() -> None:
    async def story() -> None:
        async with Lan() as lan, Lan(CONTEXT) as others:
            others.port = lan.port
            node = lan.node("proximity")
            others.node("context")
            await until(lambda: node.air.drops.counts["malformed"])

    run(story)


def test_l1_an_event_too_large_for_a_datagram_is_counted_at_its_sender() -> None:
    async def story() -> None:
        async with Lan() as lan:
            producer = lan.node("producer")
            lan.announce("producer", event_type=EventType("essay", {"text": ContentType.STRING}))
            producer.port.raise_("essay", {"text": "x" * 20_000})
            assert producer.air.drops.counts["too_long"] == 1

    run(story)


@pytest.mark.parametrize("asked", [False, True])
def test_l7_signatures_are_prepared_only_where_that_is_asked_for(asked: bool) -> None:
    async def story() -> None:
        async with Lan() as lan:
            producer = lan.node("producer", prepares_signatures=asked)
            lan.node("consumer", 50)
            lan.listen("consumer")
            lan.announce("producer")
            await until(lambda: lan.members("consumer") == 1)
            identity = producer.settings.identity
            await until(lambda: identity.prepared == (PREPARED_MAX if asked else 0))
            producer.port.raise_("ice", {"depth": 1})
            await until(lambda: lan.depths("consumer") == [1])

    run(story)
