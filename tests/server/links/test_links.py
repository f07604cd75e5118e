"""L3: links between brokers over loopback sockets: up, down, again, one for each pair, everything in order."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest
import uvloop
from msgspec.structs import replace

from roamcast.server.links import PAYLOAD_BYTES_MAX, BadName, Links, LinkSettings
from tests.ports import free_ports
from tests.server.links.ends import BRISK, Ear, End, Relay, bounded, ends

pytestmark = pytest.mark.timeout(60)


def test_l3_a_link_comes_up_on_both_sides_and_carries_frames_both_ways() -> None:
    async def work() -> None:
        async with ends("a", "b") as (a, b):
            a.dial(b)
            await a.until_up(b)
            await b.until_up(a)
            assert a.links.send("b", 7, b"to b")
            assert b.links.send("a", 8, b"")
            await b.ear.until(lambda: b.ear.frames == [("a", 7, b"to b")])
            await a.ear.until(lambda: a.ear.frames == [("b", 8, b"")])

    bounded(work())


@pytest.mark.parametrize(("dialler", "dialled"), [("a", "b"), ("b", "a")])
def test_l3_a_link_that_is_cut_goes_down_on_both_sides_and_heals(dialler: str, dialled: str) -> None:
    async def work() -> None:
        async with ends(dialler, dialled) as (one, other):
            one.dial(other)
            for count in (1, 2, 3):
                await asyncio.gather(one.until_up(other, count), other.until_up(one, count))
                (one if count % 2 else other).links.cut((other if count % 2 else one).name)
                await asyncio.gather(one.until_down(other, count), other.until_down(one, count))
            await one.until_up(other, 4)
            assert one.ear.heard == [("up", other.name), ("down", other.name)] * 3 + [("up", other.name)]

    bounded(work())


def test_l3_whoever_dials_keeps_dialling_until_the_peer_is_there() -> None:
    async def work() -> None:
        async with ends("b") as (b,):
            absent = await End("a").listen()
            await absent.links.close()
            b.dial(absent)
            await b.ear.until(lambda: [what for what, _ in b.ear.remarks].count("link_dial_failed") >= 3)
            late = End("a")
            await late.links.listen("127.0.0.1", absent.port)
            await b.until_up(late)
            await late.links.close()

    bounded(work())


@pytest.mark.parametrize("turn", range(8))
def test_l3_two_that_dial_each_other_have_one_link_dialled_by_the_smaller_name_without_a_flap(turn: int) -> None:
    async def work() -> None:
        async with ends("a", "b") as (a, b):
            first, second = (a, b) if turn % 2 else (b, a)
            first.dial(second)
            for _ in range(turn // 2):
                await asyncio.sleep(0)
            second.dial(first)
            await asyncio.gather(a.until_up(b), b.until_up(a))
            for number in range(50):
                a.links.send("b", 1, b"%d" % number)
                b.links.send("a", 1, b"%d" % number)
            await a.ear.until(lambda: len(a.ear.frames) == 50)
            await b.ear.until(lambda: len(b.ear.frames) == 50)
            assert a.ear.heard == [("up", "b")]
            assert b.ear.heard == [("up", "a")]

    bounded(work())


def test_l3_of_two_connections_at_the_same_time_that_of_the_smaller_name_is_kept() -> None:
    async def work() -> None:
        async with ends("a", "b") as (a, b), Relay(a.port) as to_a, Relay(b.port) as to_b:
            a.links.dial("b", "127.0.0.1", to_b.port)
            b.links.dial("a", "127.0.0.1", to_a.port)
            await asyncio.gather(a.until_up(b), b.until_up(a))
            to_a.swallows = True
            a.links.send("b", 1, b"by the connection that a dialled")
            await b.ear.until(lambda: len(b.ear.frames) == 1)
            assert (a.ear.heard, b.ear.heard) == ([("up", "b")], [("up", "a")])

    bounded(work())


def test_l3_a_peer_that_was_silently_cut_off_is_down_after_the_patience_and_comes_back() -> None:
    async def work() -> None:
        settings = LinkSettings(patience_s=0.6, greeting_s=2.0, probe_s=0.2, backoff_min_s=0.01, backoff_max_s=0.05)
        async with ends("a", "b", settings=settings) as (a, b), Relay(b.port) as relay:
            a.links.dial("b", "127.0.0.1", relay.port)
            await asyncio.gather(a.until_up(b), b.until_up(a))
            relay.swallows = True
            await asyncio.gather(a.until_down(b), b.until_down(a))
            assert a.ear.remarked("link_silent")
            relay.swallows = False
            await asyncio.gather(a.until_up(b, 2), b.until_up(a, 2))

    bounded(work())


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_l3_pings_keep_a_link_without_traffic(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def work() -> None:
        settings = LinkSettings(patience_s=0.6, greeting_s=2.0)
        async with ends("a", "b", settings=settings) as (a, b):
            a.dial(b)
            await asyncio.gather(a.until_up(b), b.until_up(a))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(a.until_down(b), 2.0)
            assert b.ear.heard == [("up", "a")]

    bounded(work(), make_loop)


@pytest.mark.parametrize(("old", "new"), [("a", "b"), ("b", "a")])
def test_l3_a_peer_that_restarts_replaces_its_half_open_link(old: str, new: str) -> None:
    """What the first life of the peer left behind is a connection that nobody answers on."""

    async def work() -> None:
        async with ends(old) as (stays,), Relay(stays.port) as relay:
            first = End(new)
            first.links.dial(old, "127.0.0.1", relay.port)
            await stays.until_up(first)
            relay.swallows = True
            await first.links.close()
            second = End(new)
            second.dial(stays)
            await stays.until_up(second, 2)
            assert stays.ear.heard == [("up", new), ("down", new), ("up", new)]
            assert stays.ear.remarked("link_replaced")
            await second.links.close()

    bounded(work())


def test_l3_a_link_dialled_from_here_is_replaced_by_its_peers_connection_only_if_it_is_dead() -> None:
    async def work() -> None:
        async with ends("a", "b") as (a, b), Relay(b.port) as relay:
            a.links.dial("b", "127.0.0.1", relay.port)
            await asyncio.gather(a.until_up(b), b.until_up(a))
            impostor = End("b")
            impostor.dial(a)
            await impostor.ear.until(lambda: impostor.ear.remarked("link_refused"))
            assert a.ear.heard == [("up", "b")]
            relay.swallows = True
            await impostor.until_up(a)
            assert a.ear.heard == [("up", "b"), ("down", "b"), ("up", "b")]
            await impostor.links.close()

    bounded(work())


def test_l3_twenty_thousand_frames_of_all_sizes_arrive_in_order_both_ways_under_load() -> None:
    count = 20_000

    async def work() -> None:
        async with ends("a", "b") as (a, b):
            a.dial(b)
            await asyncio.gather(a.until_up(b), b.until_up(a))
            sizes = Random(5)

            def data(number: int) -> bytes:
                return number.to_bytes(4, "big") + bytes(
                    sizes.choice((0, 1, 100, 2_000, 70_000 if number % 50 == 0 else 9))
                )

            sent: dict[str, list[bytes]] = {"a": [], "b": []}
            for number in range(count):
                for end, other in ((a, "b"), (b, "a")):
                    sent[end.name].append(data(number))
                    assert end.links.send(other, number % 200, sent[end.name][-1])
                if number % 500 == 0:
                    await asyncio.sleep(0)
            await a.ear.until(lambda: len(a.ear.frames) == count)
            await b.ear.until(lambda: len(b.ear.frames) == count)
            assert a.ear.frames == [("b", number % 200, each) for number, each in enumerate(sent["b"])]
            assert b.ear.frames == [("a", number % 200, each) for number, each in enumerate(sent["a"])]

    bounded(work())


def test_l3_the_largest_frame_passes_and_a_larger_one_is_refused_where_it_is_sent() -> None:
    async def work() -> None:
        async with ends("a", "b") as (a, b):
            a.dial(b)
            await a.until_up(b)
            assert not a.links.send("b", 1, bytes(PAYLOAD_BYTES_MAX + 1))
            assert a.links.send("b", 1, bytes(PAYLOAD_BYTES_MAX))
            await b.ear.until(lambda: len(b.ear.frames) == 1)
            assert a.ear.remarked("link_frame_too_large")
            assert len(b.ear.frames[0][2]) == PAYLOAD_BYTES_MAX

    bounded(work())


def test_l3_a_peer_that_does_not_read_is_cut_off_at_the_bound_of_its_buffer() -> None:
    async def work() -> None:
        settings = LinkSettings(buffer_bytes_max=4 * 1024 * 1024)
        async with ends("a", "b", settings=settings) as (a, b), Relay(b.port) as relay:
            a.links.dial("b", "127.0.0.1", relay.port)
            await asyncio.gather(a.until_up(b), b.until_up(a))
            for channel in b.links._channels:
                assert channel.transport is not None
                channel.transport.pause_reading()
            sent = 0
            while a.links.send("b", 1, bytes(100_000)):
                sent += 1
                await asyncio.sleep(0)
                assert sent < 1_000
            await a.until_down(b)
            assert a.ear.remarked("link_overflow")
            assert sent * 100_000 > 4_000_000

    bounded(work())


def test_l3_a_link_that_waits_stays_up_and_goes_on_where_it_was() -> None:
    async def work() -> None:
        async with ends("a", "b", settings=replace(BRISK, patience_s=0.6)) as (a, b):
            a.dial(b)
            await asyncio.gather(a.until_up(b), b.until_up(a))
            b.links.wait("a", True)
            channel = b.links._links["a"]
            for number in range(10):
                a.links.send("b", 1, b"%d" % number)
            pings = a.links._links["b"].heard
            await a.ear.until_looking(lambda: a.links._links["b"].heard > pings + 8)
            assert b.ear.frames == []
            b.links.wait("a", False)
            await b.ear.until(lambda: len(b.ear.frames) == 10)
            assert b.links._links["a"] is channel
            assert (a.ear.heard, b.ear.heard) == ([("up", "b")], [("up", "a")])

    bounded(work())


def test_l3_more_than_the_bound_within_one_tick_is_too_much_as_well() -> None:
    async def work() -> None:
        async with ends("a", "b", settings=LinkSettings(buffer_bytes_max=1_000_000)) as (a, b):
            a.dial(b)
            await a.until_up(b)
            # What the system takes at once does not count.
            sent = [a.links.send("b", 1, bytes(400_000)) for _ in range(100)]
            assert sent[:2] == [True, True]
            assert not sent[-1]
            assert a.ear.heard == [("up", "b")], "told on the next tick, not from within send"
            await a.until_down(b)

    bounded(work())


def test_l3_nothing_is_delivered_after_a_link_is_cut_from_within_a_frame() -> None:
    async def work() -> None:
        async with ends("a", "b") as (a, b):
            a.dial(b)
            await asyncio.gather(a.until_up(b), b.until_up(a))
            b.ear.on_frame = lambda peer, kind, data: b.links.cut(peer) if data == b"3" else None
            for number in range(10):
                a.links.send("b", 1, b"%d" % number)
            await b.until_down(a)
            b.ear.on_frame = None
            await b.until_up(a, 2)
            assert [data for _, _, data in b.ear.frames] == [b"0", b"1", b"2", b"3"]

    bounded(work())


def test_l3_what_was_sent_before_close_arrives() -> None:
    async def work() -> None:
        async with ends("b") as (b,):
            a = End("a")
            a.dial(b)
            await a.until_up(b)
            for number in range(100):
                a.links.send("b", 1, bytes(1_000) + b"%d" % number)
            await a.links.close()
            assert a.ear.heard == [("up", "b"), ("down", "b")]
            await b.until_down(a)
            assert len(b.ear.frames) == 100

    bounded(work())


def test_l3_a_peer_is_looked_for_at_all_of_its_addresses_in_turn() -> None:
    async def work() -> None:
        async with ends("a") as [a]:
            first, second = free_ports(2)
            a.links.dial("b", "127.0.0.1", first, others=[("127.0.0.1", second)])
            for times, port in enumerate((second, first, second), 1):
                b = End("b")
                b.port = await b.links.listen("127.0.0.1", port)
                await a.until_up(b, times)
                await b.links.close()
                await a.until_down(b, times)

    bounded(work())


def test_l3_a_wrong_peer_at_the_address_is_refused_by_name() -> None:
    async def work() -> None:
        async with ends("a", "c") as (a, c):
            a.links.dial("b", "127.0.0.1", c.port)
            await a.ear.until(lambda: a.ear.remarked("link_refused"))
            await c.ear.until(lambda: c.ear.remarked("link_refused"))
            assert "this is c, not b" in a.ear.remarks[0][1]
            assert a.ear.heard == c.ear.heard == []

    bounded(work())


def test_l7_a_name_that_is_no_neighbour_gets_no_link() -> None:
    async def work() -> None:
        strict = await End("a", neighbours=["b"]).listen()
        async with ends("b", "c") as (b, c):
            c.dial(strict)
            await c.ear.until(lambda: c.ear.remarked("link_refused"))
            b.dial(strict)
            await strict.until_up(b)
            assert strict.ear.heard == [("up", "b")]
            await strict.links.close()

    bounded(work())


def test_l3_a_mesh_of_five_that_all_dial_each_other_has_each_link_once() -> None:
    async def work() -> None:
        names = [f"broker {number}" for number in range(5)]
        async with ends(*names) as all_ends:
            for one in all_ends:
                for other in all_ends:
                    if one is not other:
                        one.dial(other)
            for one in all_ends:
                for other in all_ends:
                    if one is not other:
                        await one.until_up(other)
            for one in all_ends:
                assert sorted(one.ear.heard) == [("up", name) for name in names if name != one.name]

    bounded(work())


@pytest.mark.parametrize("name", ["", "@a", "x" * 65, "a\nb", "\x7f"])
def test_l3_names_of_brokers_can_be_printed_and_are_no_clients(name: str) -> None:
    with pytest.raises(BadName):
        Links(name, Ear(), settings=BRISK)


def test_l3_nothing_is_sent_to_a_peer_that_is_not_up_or_with_a_kind_of_the_links_own() -> None:
    async def work() -> None:
        async with ends("a") as (a,):
            assert not a.links.send("b", 1, b"")
            with pytest.raises(ValueError, match="kind 255"):
                a.links.send("b", 255, b"")
            a.links.cut("b")

    bounded(work())
