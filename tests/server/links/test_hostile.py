"""L7: whatever bytes come, a link's end closes the connection, counts it, and goes on."""

import asyncio
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.server.links.frames import (
    AGREED,
    CHOSEN,
    GREETING,
    MAGIC,
    PAYLOAD_BYTES_MAX,
    PING,
    REFUSED,
    VERSION,
    BadFrame,
    FrameReader,
    frame,
    read_greeting,
    write_greeting,
)
from tests.effort import examples
from tests.server.links.ends import BRISK, End, bounded, ends

pytestmark = pytest.mark.timeout(120)


@given(frames=st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300))), data=st.data())
@examples(200)
def test_l7_frames_are_read_alike_in_whatever_pieces_they_come(
    frames: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    whole = b"".join(frame(kind, payload) for kind, payload in frames)
    reader, read = FrameReader(), []
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        reader.feed(whole[:size])
        whole = whole[size:]
        while (found := reader.next_frame()) is not None:
            read.append(found)
    assert read == frames
    assert reader.waiting_bytes == 0


@given(pieces=st.lists(st.binary(max_size=200)))
@examples(300)
def test_l7_a_reader_takes_any_bytes_and_holds_at_most_one_frame(pieces: list[bytes]) -> None:
    reader = FrameReader()
    try:
        for piece in pieces:
            reader.feed(piece)
            while reader.next_frame() is not None:
                continue
            assert reader.waiting_bytes <= reader.payload_bytes_max + 5
    except BadFrame:
        return


@given(payload=st.binary(max_size=100) | st.just(write_greeting("a", "b")).map(lambda good: good[:-1]))
@examples(200)
def test_l7_a_greeting_of_any_bytes_is_one_or_is_bad(payload: bytes) -> None:
    try:
        assert read_greeting(payload).magic == "roamcast link"
    except BadFrame:
        return


async def spoken(end: End, data: bytes) -> bytes:
    """What the end answers to these bytes until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", end.port)
    writer.write(data)
    try:
        return await reader.read()
    except OSError:
        return b""
    finally:
        writer.transport.abort()


HELLO = frame(GREETING, write_greeting("b", "a")) + frame(AGREED, b"")
BAD = {
    "other protocol": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "too long before the greeting": frame(GREETING, bytes(2_000)),
    "no greeting first": frame(PING, b""),
    "a frame of a user first": frame(1, b"x"),
    "greeting of a client": frame(GREETING, write_greeting("@b", "a")),
    "greeting of our own name": frame(GREETING, write_greeting("a", "a")),
    "greeting for another": frame(GREETING, write_greeting("b", "z")),
    "two greetings": HELLO + HELLO,
    "agreed before the greeting": frame(AGREED, b""),
    "a frame before it has agreed": frame(GREETING, write_greeting("b", "a")) + frame(1, b"x"),
    "chosen by whom it is not for to choose": HELLO + frame(CHOSEN, b""),
    "an unknown kind": HELLO + frame(0xF5, b""),
    "a huge frame": HELLO + (PAYLOAD_BYTES_MAX + 1).to_bytes(4, "big") + b"\x01",
}


@pytest.mark.parametrize("what", BAD)
def test_l7_bytes_that_are_not_ours_close_the_connection_with_a_remark(what: str) -> None:
    async def work() -> None:
        async with ends("a") as (a,):
            await spoken(a, BAD[what])
            await a.ear.until(lambda: bool(a.ear.remarks))
            assert a.ear.remarks[0][0] in ("link_bad_bytes", "link_refused")
            assert a.ear.frames == []
            if a.ear.is_up("b"):
                await a.until_down(End("b"))

    bounded(work())


def test_peer_of_another_version_is_told_so_rule_62() -> None:
    other = msgspec.msgpack.encode([MAGIC, VERSION - 1, "b", "a"])

    async def work() -> None:
        async with ends("a") as (a,):
            answer = await spoken(a, frame(GREETING, other))
            reader = FrameReader()
            reader.feed(answer)
            why = f"b speaks version {VERSION - 1} of links and a version {VERSION}: both must run the same version"
            found = reader.next_frame()
            assert found is not None
            assert found[0] == REFUSED
            assert found[1].decode().startswith(why)
            assert a.ear.remarked("link_refused")

    bounded(work())


def test_l7_a_connection_that_says_nothing_or_half_a_greeting_is_closed() -> None:
    async def work() -> None:
        async with ends("a") as (a,):
            await asyncio.gather(spoken(a, b""), spoken(a, HELLO[:10]))
            await a.ear.until(lambda: len(a.ear.remarks) >= 2)
            assert [what for what, _ in a.ear.remarks] == ["link_late"] * 2

    bounded(work())


def test_l7_a_link_that_breaks_off_within_a_frame_is_counted_as_truncated() -> None:
    async def work() -> None:
        async with ends("a") as (a,):
            _, writer = await asyncio.open_connection("127.0.0.1", a.port)
            writer.write(HELLO + frame(1, b"whole") + frame(1, b"half")[:-2])
            await a.ear.until(lambda: len(a.ear.frames) == 1)
            writer.close()
            await a.until_down(End("b"))
            assert a.ear.remarked("link_truncated")

    bounded(work())


def test_l7_strangers_beyond_the_bound_are_turned_away_while_links_work() -> None:
    async def work() -> None:
        async with ends("a", "b") as (a, b):
            b.dial(a)
            await a.until_up(b)
            strangers = [await asyncio.open_connection("127.0.0.1", a.port) for _ in range(BRISK.strangers_max + 10)]
            await a.ear.until(lambda: a.ear.remarked("link_strangers"))
            b.links.send("a", 1, b"still here")
            await a.ear.until(lambda: len(a.ear.frames) == 1)
            for _, writer in strangers:
                writer.transport.abort()

    bounded(work())


def test_l7_random_bytes_before_and_after_the_greeting_never_hurt() -> None:
    """Seeded; also frames of right form with wrong content, and right frames with flipped bits."""

    async def work() -> None:
        problems: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, problem: problems.append(problem))
        generator = Random(20_260)
        async with ends("a", "c") as (a, c):
            c.dial(a)
            await a.until_up(c)
            for _ in range(300):
                body = generator.randbytes(generator.randrange(1, 200))
                shape = generator.randrange(4)
                if shape == 1:
                    body = HELLO + body
                elif shape == 2:
                    body = HELLO + frame(generator.randrange(256), body)
                elif shape == 3:
                    flipped = bytearray(HELLO + frame(1, body))
                    flipped[generator.randrange(len(flipped))] ^= 1 << generator.randrange(8)
                    body = bytes(flipped)
                _, writer = await asyncio.open_connection("127.0.0.1", a.port)
                writer.write(body)
                await writer.drain()
                if generator.random() < 0.5:
                    writer.close()
                else:
                    writer.transport.abort()
            c.links.send("a", 9, b"still here")
            await a.ear.until(lambda: ("c", 9, b"still here") in a.ear.frames)
            assert a.ear.heard.count(("up", "c")) == 1
            assert ("down", "c") not in a.ear.heard
        assert problems == []

    bounded(work())
