"""L2, L7: the HTTP port answers, keeps its limits, and stands whatever comes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from roamcast.server.http.guard import Guard
from roamcast.server.http.health import health_route, metrics_route
from roamcast.server.http.limits import HttpLimits
from roamcast.server.http.metrics import Metrics
from roamcast.server.http.service import HttpServer
from tests.effort import examples
from tests.server.transport.sockets import PATIENCE_S, exchange

pytestmark = pytest.mark.timeout(60)


async def told(request: Request) -> Response:
    return Response(f"{request.method} {request.url.path} {request.url.query} {len(await request.body())}")


async def failing(_: Request) -> Response:
    raise ValueError("mine")


async def echo(socket: WebSocket) -> None:
    await socket.accept()
    async for text in socket.iter_text():
        await socket.send_text(text)


Routes = list[BaseRoute]
ROUTES: Routes = [
    Route("/told", told),
    Route("/pages/{rest:path}", told),
    Route("/fails", failing),
    WebSocketRoute("/live", echo),
]


@asynccontextmanager
async def serving(
    routes: Routes = ROUTES,
    limits: HttpLimits | None = None,
    origins: tuple[str, ...] = (),
    failures: list[str] | None = None,
) -> AsyncIterator[HttpServer]:
    loop = asyncio.get_running_loop()
    limits = limits or HttpLimits()
    found = [] if failures is None else failures
    app = Guard(
        Starlette(routes=routes),
        limits,
        lambda: round(loop.time() * 1e6),
        origins,
        lambda path, problem: found.append(f"{path}: {problem}"),
    )
    server = HttpServer(app, limits)
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.close()


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE_S))


def request(path: str, *headers: str, method: str = "GET", body: str = "") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


CLOSE = "Connection: close"


def statuses(answer: bytes) -> list[int]:
    return [int(each[:3]) for each in answer.split(b"HTTP/1.1 ")[1:]]


def ask(
    data: bytes, routes: Routes = ROUTES, limits: HttpLimits | None = None, origins: tuple[str, ...] = ()
) -> bytes:
    got = b""

    async def test() -> None:
        nonlocal got
        async with serving(routes, limits, origins) as server:
            got = await exchange(server.port, data)

    run(test)
    return got


def test_a_request_is_answered_by_the_route_of_its_path() -> None:
    answer = ask(request("/told?a=b", CLOSE))
    assert statuses(answer) == [200]
    assert answer.endswith(b"\r\n\r\nGET /told a=b 0")
    assert b"x-content-type-options: nosniff" in answer


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("/nowhere", CLOSE), 404),
        (request("/told", CLOSE, method="POST", body="x"), 405),
        (request("/fails", CLOSE), 500),
        (request("/told", CLOSE, method="HEAD"), 200),
        (b"hello\r\n\r\n", 400),
        (request("/" + "x" * 20_000, CLOSE), 431),
        (request("/told", CLOSE, "X: " + "x" * 20_000), 431),
        (b"GET /" + b"x" * 100_000, 400),
        (request("/told", method="POST", body="x" * 5_000), 413),
        (request("/told", "Transfer-Encoding: chunked", method="HEAD") + b"zz\r\n", 400),
        (request("/told", method="HEAD", body="x" * 5_000), 413),
    ],
    ids=lambda value: value if isinstance(value, int) else value[:40].decode(),
)
def test_what_cannot_be_answered_gets_the_status_that_says_why(data: bytes, status: int) -> None:
    assert statuses(ask(data, limits=HttpLimits(body_bytes_max=4_000))) == [status]


def test_the_answer_to_head_has_no_body() -> None:
    answer = ask(request("/told", CLOSE, method="HEAD"))
    assert b"content-length: 13" in answer
    assert answer.endswith(b"\r\n\r\n")


def test_several_requests_on_one_connection_are_answered_in_order() -> None:
    answer = ask(request("/told?1") + request("/nowhere") + request("/told?3", CLOSE))
    assert statuses(answer) == [200, 404, 200]
    assert answer.endswith(b"GET /told 3 0")


def test_l7_requests_beyond_the_rate_are_told_to_come_later() -> None:
    answer = ask(request("/told") * 9 + request("/told", CLOSE), limits=HttpLimits(requests_per_s=4))
    assert statuses(answer) == [200] * 4 + [429] * 6
    assert b"retry-after: 1" in answer


def test_l7_more_connections_than_allowed_are_refused() -> None:
    async def test() -> None:
        async with serving(limits=HttpLimits(connections_max=1)) as server:
            _, first = await asyncio.open_connection("127.0.0.1", server.port)
            while not server.connections:
                await asyncio.sleep(0)
            assert statuses(await exchange(server.port, b"")) == [503]
            first.close()
            while server.connections:
                await asyncio.sleep(0)
            assert statuses(await exchange(server.port, request("/told", CLOSE))) == [200]

    run(test)


@pytest.mark.parametrize("data", [b"", b"GET /to", request("/told", method="POST", body="xy")[:-1]])
def test_l7_a_connection_without_a_whole_request_is_ended(data: bytes) -> None:
    assert ask(data, limits=HttpLimits(idle_s=0.05)) == b""


def test_l7_a_peer_that_does_not_read_is_not_read_from() -> None:
    answered = 0

    async def large(_: Request) -> Response:
        nonlocal answered
        answered += 1
        return Response(bytes(1_000_000))

    async def test() -> None:
        async with serving([Route("/large", large)], HttpLimits(requests_per_s=0)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request("/large") * 200 + request("/large", CLOSE))
            await reader.readexactly(1)
            assert answered < 20
            rest = await reader.read()
            assert len(rest) > 201 * 1_000_000
            writer.close()

    run(test)


def test_a_websocket_is_served_beside_requests() -> None:
    websockets = pytest.importorskip("websockets")

    async def test() -> None:
        async with serving() as server, websockets.connect(f"ws://127.0.0.1:{server.port}/live") as client:
            await client.send("there and back")
            assert await client.recv() == "there and back"

    run(test)


OTHER = "Origin: http://evil.example"


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_l7_a_page_of_another_origin_gets_nothing(method: str) -> None:
    answer = ask(request("/told", CLOSE, OTHER, "Access-Control-Request-Method: POST", method=method))
    assert statuses(answer) == [403]
    assert b"access-control-allow" not in answer


@pytest.mark.parametrize("origin", ["null", "http://[", "http://"])
def test_an_origin_that_is_none_is_that_of_another_server(origin: str) -> None:
    assert statuses(ask(request("/told", CLOSE, f"Origin: {origin}"))) == [403]


def test_l7_a_websocket_of_another_origin_is_refused() -> None:
    websockets = pytest.importorskip("websockets")

    async def test() -> None:
        async with serving() as server:
            address = f"ws://127.0.0.1:{server.port}/live"
            with pytest.raises(websockets.InvalidStatus) as refused:
                await websockets.connect(address, origin="http://evil.example")
            assert refused.value.response.status_code == 403
            async with websockets.connect(address, origin=f"http://127.0.0.1:{server.port}"):
                pass

    run(test)


def test_l7_a_named_origin_is_answered_and_told_so() -> None:
    origins = ("http://127.0.0.1:7",)
    for name in ("127.0.0.1", "localhost"):
        answer = ask(request("/told", CLOSE, f"Origin: http://{name}:7"), origins=origins)
        assert statuses(answer) == [200]
        assert f"access-control-allow-origin: http://{name}:7".encode() in answer
    preflight = request(
        "/told", CLOSE, "Origin: http://localhost:7", "Access-Control-Request-Method: POST", method="OPTIONS"
    )
    assert statuses(ask(preflight, origins=origins)) == [204]
    assert statuses(ask(request("/told", CLOSE, "Origin: http://localhost:70"), origins=origins)) == [403]


def test_a_mistake_of_ours_is_told_once() -> None:
    failures: list[str] = []

    async def test() -> None:
        async with serving(failures=failures) as server:
            assert statuses(await exchange(server.port, request("/fails", CLOSE))) == [500]

    run(test)
    assert failures == ["/fails: mine"]


def test_health_is_well_when_every_part_is() -> None:
    answer = ask(request("/healthz", CLOSE), [Route("/healthz", health_route({"storage": lambda: None}))])
    assert statuses(answer) == [200]
    assert msgspec.json.decode(answer.partition(b"\r\n\r\n")[2]) == {"status": "ok", "checks": {"storage": "ok"}}


def test_health_says_which_part_is_not_well() -> None:
    def broken() -> str | None:
        raise OSError("gone")

    checks = {"storage": lambda: "the disk is full", "links": lambda: None, "other": broken}
    answer = ask(request("/healthz", CLOSE), [Route("/healthz", health_route(checks))])
    assert statuses(answer) == [503]
    assert msgspec.json.decode(answer.partition(b"\r\n\r\n")[2]) == {
        "status": "failing",
        "checks": {
            "storage": "the disk is full",
            "links": "ok",
            "other": "the check itself failed: OSError('gone')",
        },
    }


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    answer = ask(request("/metrics", CLOSE), [Route("/metrics", metrics_route(metrics))])
    text = answer.partition(b"\r\n\r\n")[2].decode()
    families = text_string_to_metric_families(text)
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def test_l2_metrics_are_what_was_counted() -> None:
    metrics = Metrics()
    metrics.connected("tcp")
    metrics.connected("tcp")
    metrics.connected("wss")
    metrics.disconnected("tcp")
    metrics.refused("rate")
    metrics.sessions(connected=2, away=5)
    metrics.received(1, 100)
    metrics.sent(2, 300, count=3)
    metrics.dropped("expired")
    metrics.dropped("expired", 4)
    metrics.queue_bytes(4_096)
    metrics.committed(0.004, 7)
    metrics.roamed("in")
    metrics.link("north", "connecting")
    metrics.link("north", "up")
    found = samples(metrics)
    wanted = {
        ("roamcast_connections", "tcp"): 1,
        ("roamcast_connections", "wss"): 1,
        ("roamcast_connects_total", "tcp"): 2,
        ("roamcast_refused_total", "rate"): 1,
        ("roamcast_sessions", "away"): 5,
        ("roamcast_messages_in_total", "1"): 1,
        ("roamcast_messages_in_total", "0"): 0,
        ("roamcast_payload_bytes_in_total",): 100,
        ("roamcast_messages_out_total", "2"): 3,
        ("roamcast_payload_bytes_out_total",): 300,
        ("roamcast_messages_dropped_total", "expired"): 5,
        ("roamcast_queue_bytes",): 4_096,
        ("roamcast_commit_seconds_bucket", "0.005"): 1,
        ("roamcast_commit_seconds_bucket", "0.002"): 0,
        ("roamcast_commit_batches_sum",): 7,
        ("roamcast_roams_total", "in"): 1,
        ("roamcast_link_state", "north", "up"): 1,
        ("roamcast_link_state", "north", "connecting"): 0,
    }
    assert {key: found.get(key) for key in wanted} == wanted


def test_two_brokers_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.roamed("out")
    assert samples(other)["roamcast_roams_total", "out"] == 0


CHUNKED = request("/told", "Transfer-Encoding: chunked", method="HEAD") + b"4\r\nbody\r\n0\r\n\r\n"
SOUND = CHUNKED + request("/told?x") + request("/told", "X: y", method="POST", body="body") + request("/pages/a/b")


@examples(80)
@given(
    st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), max_size=5),
    st.binary(max_size=40),
    st.lists(st.integers(0, len(SOUND)), max_size=4),
)
def test_l7_no_bytes_break_the_server(changes: list[tuple[int, int]], tail: bytes, cuts: list[int]) -> None:
    """Changed requests in any pieces: nothing is raised on the loop, and the next connection is served."""

    async def test() -> None:
        complaints: list[object] = []
        async with serving(limits=HttpLimits(requests_per_s=0)) as server:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
            data = bytearray(SOUND)
            for at, byte in changes:
                data[at] = byte
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            for start, end in pairwise([0, *sorted(cuts), len(data)]):
                writer.write(bytes(data[start:end]))
                await asyncio.sleep(0)
            writer.write(tail)
            with suppress(OSError):
                writer.write_eof()
                await reader.read()
            writer.close()
            assert statuses(await exchange(server.port, request("/told", CLOSE))) == [200]
        assert complaints == []

    run(test)


@pytest.mark.parametrize("wrong", [{"head_bytes_max": 0}, {"requests_per_s": -1}, {"idle_s": 0}])
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(msgspec.ValidationError, match=next(iter(wrong))):
        msgspec.convert(wrong, HttpLimits)
