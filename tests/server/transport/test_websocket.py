"""L2: MQTT over WebSocket: handshake, frames, flow control, and whatever bytes come."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from roamcast.server.transport.tls import server_context
from roamcast.server.transport.websocket import WebSocketProtocol
from tests.effort import examples
from tests.mqtt.memory_broker import MemoryBroker
from tests.mqtt.server import Line, Server, serving
from tests.server.transport.sockets import PATIENCE_S, Echo, exchange, listening

websockets = pytest.importorskip("websockets")
paho = pytest.importorskip("paho.mqtt.client")
pytestmark = pytest.mark.timeout(60)

HANDSHAKE = (
    b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n"
)


class Echoes:
    """A server of echoes behind WebSocket; `made` are the inner protocols."""

    def __init__(self, origins: tuple[str, ...] | None = None, handshake_s: float = 10.0) -> None:
        self.made: list[Echo] = []
        self.origins = origins
        self.handshake_s = handshake_s

    def __call__(self) -> WebSocketProtocol:
        self.made.append(Echo())
        return WebSocketProtocol(self.made[-1], origins=self.origins, handshake_s=self.handshake_s)


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE_S))


def test_l2_bytes_go_both_ways_in_binary_frames_of_any_size() -> None:
    async def test() -> None:
        echoes = Echoes()
        sizes = [1, 125, 126, 65_535, 65_536, 300_000]
        async with listening(echoes) as port:
            address = f"ws://127.0.0.1:{port}/mqtt"
            async with websockets.connect(address, subprotocols=["mqtt"], max_size=None) as client:
                assert client.subprotocol == "mqtt"
                for size in sizes:
                    await client.send(bytes(size))
                    got = b""
                    while len(got) < size:
                        got += await client.recv()
                    assert got == bytes(size)
                await (await client.ping())
            await echoes.made[0].ended
        assert len(echoes.made[0].received) == sum(sizes)
        assert (echoes.made[0].happened[0], echoes.made[0].happened[-1]) == ("made", "lost")

    run(test)


def test_l2_a_message_in_several_frames_is_one_stream() -> None:
    async def test() -> None:
        async with (
            listening(Echoes()) as port,
            websockets.connect(f"ws://127.0.0.1:{port}", subprotocols=["mqtt"]) as client,
        ):
            await client.send([b"one ", b"two ", b"three"])
            got = b""
            while len(got) < 13:
                got += await client.recv()
            assert got == b"one two three"

    run(test)


def test_l2_a_text_frame_ends_the_connection() -> None:
    async def test() -> None:
        echoes = Echoes()
        async with listening(echoes) as port:
            async with websockets.connect(f"ws://127.0.0.1:{port}", subprotocols=["mqtt"]) as client:
                await client.send("text")
                with pytest.raises(websockets.ConnectionClosed):
                    await client.recv()
                assert client.close_code == 1003
            await echoes.made[0].ended

    run(test)


def test_a_ping_after_a_text_frame_raises_nothing() -> None:
    async def test() -> None:
        echo, pipe = Echo(), Pipe()
        protocol = WebSocketProtocol(echo)
        protocol.connection_made(pipe)
        protocol.data_received(HANDSHAKE + b"\r\n")
        protocol.data_received(b"\x81\x81\x00\x00\x00\x00x" + b"\x89\x80\x00\x00\x00\x00")
        assert pipe.closed
        protocol.connection_lost(None)

    asyncio.run(test())


def test_the_inner_protocol_closes_in_order() -> None:
    async def test() -> None:
        echoes = Echoes()
        async with listening(echoes) as port:
            async with websockets.connect(f"ws://127.0.0.1:{port}", subprotocols=["mqtt"]) as client:
                await client.send(b"last")
                assert await client.recv() == b"last"
                echoes.made[0].transport.writelines([b"by", b"e"])
                echoes.made[0].transport.close()
                echoes.made[0].transport.write(b"too late")
                assert await client.recv() == b"bye"
                with pytest.raises(websockets.ConnectionClosedOK):
                    await client.recv()
            await echoes.made[0].ended

    run(test)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (HANDSHAKE.replace(b"Protocol: mqtt", b"Protocol: chat"), b"400"),
        (HANDSHAKE.replace(b"Version: 13", b"Version: 8"), b"426"),
        (HANDSHAKE.replace(b"Upgrade: websocket\r\n", b""), b"400"),
        (HANDSHAKE.replace(b"GET", b"PUT"), b"400"),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n", b"400"),
        (HANDSHAKE + b"Origin: https://evil.example\r\n", b"403"),
        (b"\x10\x0c\x00\x04MQTT\x05", b"400"),
        (b"GET / HTTP/1.1\r\nFiller: " + b"x" * 70_000, b"431|400"),
    ],
)
def test_l7_a_request_for_anything_else_is_answered_and_closed(head: bytes, status: bytes) -> None:
    async def test() -> None:
        echoes = Echoes(origins=("https://good.example",))
        async with listening(echoes) as port:
            answer = await exchange(port, head + b"\r\n")
        assert answer[9:12] in (*status.split(b"|"), b"")
        assert echoes.made[0].happened == []

    run(test)


def test_l7_a_page_from_a_named_origin_is_let_in() -> None:
    async def test() -> None:
        async with listening(Echoes(origins=("https://good.example",))) as port:
            address = f"ws://127.0.0.1:{port}"
            async with websockets.connect(address, subprotocols=["mqtt"], origin="https://good.example") as client:
                assert client.subprotocol == "mqtt"

    run(test)


def test_l7_whoever_does_not_finish_the_handshake_is_cut_off() -> None:
    async def test() -> None:
        async with listening(Echoes(handshake_s=0.05)) as port:
            assert await exchange(port, HANDSHAKE) == b""

    run(test)


def test_flow_control_reaches_the_inner_protocol_and_pings_are_no_way_around_it() -> None:
    async def test() -> None:
        echo = Echo()
        protocol = WebSocketProtocol(echo)
        async with (
            listening(lambda: protocol) as port,
            websockets.connect(
                f"ws://127.0.0.1:{port}", subprotocols=["mqtt"], max_size=None, compression=None
            ) as client,
        ):
            await client.send(b"begin")
            assert await client.recv() == b"begin"
            echo.transport.set_write_buffer_limits(high=1_000, low=10)
            assert echo.transport.get_write_buffer_limits() == (10, 1_000)
            total = 20_000_000
            echo.transport.write(bytes(total))
            assert echo.happened == ["made", "pause"]
            waiting = echo.transport.get_write_buffer_size()
            protocol.data_received(b"\x89\x80\x00\x00\x00\x00")
            assert echo.transport.get_write_buffer_size() == waiting
            assert len(await client.recv()) == total
            while echo.happened[-1] != "resume":
                await asyncio.sleep(0)

    run(test)


@examples(150)
@given(
    st.lists(st.binary(min_size=1, max_size=60), max_size=6),
    st.booleans(),
    st.sampled_from((None, 0x81, 0x82, 0x88, 0x89, 0x8A)),
)
def test_l7_no_bytes_break_the_protocol(pieces: list[bytes], shaken: bool, kind: int | None) -> None:
    """Whatever comes, nothing is raised, and the inner protocol sees a beginning and an end or neither."""

    async def test() -> None:
        echo = Echo()
        pipe = Pipe()
        protocol = WebSocketProtocol(echo)
        protocol.connection_made(pipe)
        if shaken:
            protocol.data_received(HANDSHAKE + b"\r\n")
        for piece in pieces:
            if pipe.closed:
                break
            # With a mask of zeros the bytes are a whole frame, so that more of them get through.
            framed = None if kind is None else bytes([kind, 0x80 | len(piece)]) + bytes(4) + piece
            protocol.data_received(piece if framed is None else framed + b"\x89\x80\x00\x00\x00\x00")
        protocol.connection_lost(None)
        assert echo.happened == (["made", "lost"] if shaken else [])

    asyncio.run(test())


@examples(200)
@given(st.lists(st.tuples(st.integers(0, len(HANDSHAKE) - 1), st.integers(0, 255)), max_size=4), st.integers(1, 300))
def test_l7_no_handshake_breaks_the_protocol(changes: list[tuple[int, int]], cut: int) -> None:
    async def test() -> None:
        head = bytearray(HANDSHAKE + b"\r\n")
        for at, byte in changes:
            head[at] = byte
        echo, pipe = Echo(), Pipe()
        protocol = WebSocketProtocol(echo)
        protocol.connection_made(pipe)
        for piece in (head[:cut], head[cut:], b"\x82\x80\x00\x00\x00\x00"):
            if piece and not pipe.closed:
                protocol.data_received(bytes(piece))
        protocol.connection_lost(None)
        assert echo.happened in ([], ["made", "lost"])

    asyncio.run(test())


class Pipe(asyncio.Transport):
    """A transport that leads nowhere."""

    closed = False

    def write(self, data: object) -> None:
        return

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


def listen_on(server: Server, context: ssl.SSLContext | None = None) -> int:
    def factory() -> WebSocketProtocol:
        return WebSocketProtocol(Line(server))

    making = server.loop.create_server(factory, "127.0.0.1", 0, ssl=context)
    made = asyncio.run_coroutine_threadsafe(making, server.loop).result(PATIENCE_S)
    port: int = made.sockets[0].getsockname()[1]
    return port


@pytest.mark.parametrize("secure", [False, True])
def test_l2_an_unmodified_paho_client_speaks_mqtt_over_websocket(tmp_path: Path, secure: bool) -> None:
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = server_context(tmp_path / "server.pem", tmp_path / "server.pem") if secure else None
    with serving(MemoryBroker()) as server:
        port = listen_on(server, context)
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, "p", protocol=paho.MQTTv5, transport="websockets")
        if secure:
            client.tls_set(str(tmp_path / "ca.pem"))
        got: list[bytes] = []
        client.on_connect = lambda *_: client.subscribe("a/#", qos=1)
        client.on_subscribe = lambda *_: [client.publish(f"a/{number}", b"%d" % number, 1) for number in range(5)]
        client.on_message = lambda _client, _data, message: got.append(message.payload)
        client.connect("localhost", port)
        for _ in range(1_000):
            client.loop(0.1)
            if len(got) == 5:
                break
        client.disconnect()
    assert got == [b"%d" % number for number in range(5)]
