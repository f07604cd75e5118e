"""L9 from end to end: `roamcast broker` and `roamcast node` as processes, and an MQTT client of another vendor."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import trustme

from roamcast.server.security.passwords import set_password
from tests.multicast.terminals import Terminal
from tests.ports import free_port
from tests.processes.fleet import Fleet, certificate_files, shared_fleet
from tests.processes.vendors import connect_paho, paho_client

pytestmark = pytest.mark.process
PATIENCE_S = 60.0
ICE = "ice(depth: integer)"
Opens = Callable[..., Terminal]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Fleet]:
    with shared_fleet(tmp_path, "north south", links=[("north", "south")]) as fleet:
        yield fleet


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Opens]:
    port = str(free_port())
    opened: list[Terminal] = []

    def open_one(*arguments: str) -> Terminal:
        opened.append(Terminal(tmp_path / "state", (*arguments, "--interface", "lo", "--port", port)))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


class Far:
    """A client of another vendor, which knows nothing of ids: what a broker sends it twice it has twice."""

    def __init__(self, port: int) -> None:
        self.got: Queue[tuple[str, Any]] = Queue()
        subscribed: Queue[None] = Queue()
        self._client = paho_client("far")
        self._client.on_connect = lambda client, *_: client.subscribe("ice", 1)
        self._client.on_subscribe = lambda *_: subscribed.put(None)
        self._client.on_message = lambda _, __, message: self.got.put((message.topic, json.loads(message.payload)))
        connect_paho(self._client, port, clean=True)
        subscribed.get(timeout=PATIENCE_S)
        self.publish("$roam/me", {"position": [60, 0]})

    def publish(self, topic: str, content: dict[str, Any]) -> None:
        self._client.publish(topic, json.dumps(content), 1).wait_for_publish(PATIENCE_S)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def hears(terminal: Terminal, name: str) -> None:
    """It may have said so before it was ready."""
    if not any(f"heard of {name}" in line for line in terminal.said):
        terminal.until(f"heard of {name}")


@pytest.mark.parametrize(
    "gateways",
    [pytest.param(["north"], id="one"), pytest.param(["north", "south"], id="two", marks=pytest.mark.slow)],
)
def test_l9_events_go_both_ways_once(brokers: Fleet, terminal: Opens, gateways: list[str]) -> None:
    reader = terminal("reader", "--at", "30,0", "--subscribe", "ice", "--json")
    car = terminal("car", "--at", "10,0", "--announce", ICE, "--within", "100")
    gates = []
    for broker in gateways:
        address = f"mqtt://127.0.0.1:{brokers[broker].mqtt_port}"
        gates.append(terminal(f"gate-{broker}", "--at", "20,0", "--gateway", address, "--carry", ICE))
    for each in (reader, car, *gates):
        each.until("is ready")
    hears(reader, "car")
    for broker, gate in zip(gateways, gates, strict=True):
        hears(reader, f"gate-{broker}")
        hears(gate, "car")
    far = Far(brokers["south"].mqtt_port)
    try:
        car.type("ice depth=1")
        assert json.loads(reader.until('"depth":1'))["publisher"] == "car"
        first = far.got.get(timeout=PATIENCE_S)
        assert first == ("ice", {"depth": 1})
        far.publish("ice", {"depth": 7})
        told = json.loads(reader.until('"depth":7'))
        assert (told["publisher"], told["distance_m"]) == ("far", 30.0)
        car.type("ice depth=2")
        reader.until('"depth":2')
        assert far.got.get(timeout=PATIENCE_S) == ("ice", {"depth": 7})
        assert far.got.get(timeout=PATIENCE_S) == ("ice", {"depth": 2})
    finally:
        far.close()
    crossed = Counter[str]()
    for gate in gates:
        assert gate.stop() == 0
        for what, count in re.findall(r"(\w+) (\d+)", gate.until("gateway:").partition("gateway:")[2]):
            crossed[what] += int(count)
    # A gateway that meets an event on the other side first has nothing to carry.
    assert 2 <= crossed["left"] <= 2 * len(gates)
    assert 1 <= crossed["entered"] <= 3 * len(gates) - crossed["left"]
    assert reader.stop() == 0
    reader.until("delivered 3 events")
    assert far.got.empty()


@pytest.mark.slow
def test_l9_l6_a_gateway_without_a_broker_says_so(terminal: Opens) -> None:
    gate = terminal("gate", "--gateway", f"mqtt://127.0.0.1:{free_port()}")
    gate.until("no broker was reached")
    assert gate.process.wait(60) == 2


@pytest.mark.slow
def test_l9_l7_a_gateway_has_its_password_from_the_environment_where_nobody_can_be_asked(
    terminal: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a service has it."""
    set_password(tmp_path / "passwords", "door", "brief")
    rules = [{"users": ["door"], "publish": ["#", "$roam/#"], "subscribe": ["#"]}]
    security = {"passwords": str(tmp_path / "passwords"), "rules": rules}
    with shared_fleet(tmp_path, "north", security=security) as fleet:
        monkeypatch.setenv("ROAMCAST_PASSWORD", "brief")
        gate = terminal("gate", "--gateway", f"mqtt://127.0.0.1:{fleet['north'].mqtt_port}", "--user", "door")
        gate.until("gate is ready")
        assert gate.stop() == 0


@pytest.mark.slow
def test_l9_l7_a_gateway_trusts_a_broker_of_the_authority_that_it_is_given_and_no_other(
    terminal: Opens, tmp_path: Path
) -> None:
    files = certificate_files(trustme.CA(), tmp_path, "north")
    port = free_port()
    secure = {"kind": "tls", "port": port, "certificate": files["certificate"], "key": files["key"]}
    with shared_fleet(tmp_path, "north", listeners=[secure]):
        wary = terminal("wary", "--gateway", f"mqtts://localhost:{port}")
        gate = terminal("gate", "--gateway", f"mqtts://localhost:{port}", "--ca", str(tmp_path / files["ca"]))
        gate.until("gate is ready")
        wary.until("no broker was reached")
        assert gate.stop() == 0
    assert wary.process.wait(60) == 2


@pytest.mark.slow
def test_l9_l7_an_authority_that_cannot_be_read_is_named(terminal: Opens, tmp_path: Path) -> None:
    gate = terminal("gate", "--gateway", "mqtts://localhost:8883", "--ca", str(tmp_path / "nosuch.pem"))
    gate.until("nosuch.pem")
    assert gate.process.wait(60) == 2


@pytest.mark.slow
def test_l9_l6_a_gateway_says_when_it_has_lost_its_broker_and_where_it_went(terminal: Opens, tmp_path: Path) -> None:
    with shared_fleet(tmp_path, "south") as south:
        after = f"mqtt://127.0.0.1:{south['south'].mqtt_port}"
        with shared_fleet(tmp_path, "north") as north:
            first = f"mqtt://127.0.0.1:{north['north'].mqtt_port}"
            gate = terminal("gate", "--gateway", first, "--gateway", after)
            gate.until("gate is ready")
        gate.until(f"the gateway is at {after} now")
    gate.until("the gateway has no broker now: what is to leave the area waits")
    assert gate.stop() == 0
