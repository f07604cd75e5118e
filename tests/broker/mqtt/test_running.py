"""L2, L3: brokers from their settings, on sockets of this machine: what only a whole one has."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from roamcast.mqtt import Decoder, encode
from roamcast.mqtt.packets import V5, AnyPacket, ConnAck, Connect, Disconnect, Publish, SubAck, Subscribe, Wish
from roamcast.mqtt.reasons import Reason
from roamcast.server.running import RunningBroker
from roamcast.server.settings import BadSettings, Settings, load_graph, load_modulators, load_settings, settings_from

pytestmark = pytest.mark.timeout(60)
REGISTERING = """
from roamcast.broker.modulators.interface import derived
from roamcast.broker.modulators.registry import registered


@registered("doubling of the running test")
class Doubling:
    def __init__(self, parameters, space):
        pass

    def take(self, event, now_us):
        return [derived(event, {"v": 2 * event.attributes["v"]})]

    def state(self):
        return b""

    def load(self, state):
        pass
"""


class Talk:
    """One connection of an MQTT client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.decoder = Decoder(V5)

    async def say(self, packet: AnyPacket) -> AnyPacket:
        """The answer."""
        self.writer.write(encode(packet, V5))
        return await self.hear()

    async def hear(self) -> AnyPacket:
        while (packet := self.decoder.next_packet()) is None:
            data = await self.reader.read(65_536)
            assert data, "the broker closed the connection without a word"
            self.decoder.feed(data)
        return packet


def port_of(broker: RunningBroker, what: str) -> int:
    return next(each.port for each in broker.addresses if each.what == what)


async def connect(broker: RunningBroker, client: str) -> tuple[Talk, AnyPacket]:
    talk = Talk(*await asyncio.open_connection("127.0.0.1", port_of(broker, "mqtt tcp")))
    return talk, await talk.say(Connect(client, V5, False, 0, session_expiry_s=600))


def settings_of(folder: Path, name: str, **given: object) -> Settings:
    listeners = [{"kind": "tcp", "port": 0}]
    return settings_from(
        {"name": name, "data": str(folder / name), "space": "plane", "listeners": listeners, **given}, "test"
    )


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(40):
            await work()

    asyncio.run(bounded())


async def metrics_of(broker: RunningBroker) -> list[str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(broker, "http"))
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    return text.splitlines()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_l3_a_broker_that_stops_sends_its_clients_to_its_peer_with_their_sessions(tmp_path: Path) -> None:
    async def work() -> None:
        b = RunningBroker(settings_of(tmp_path, "b", links={"port": 0}, http={"port": 0}))
        await b.start()
        elsewhere = f"127.0.0.1:{port_of(b, 'mqtt tcp')}"
        peer = {"name": "b", "host": "127.0.0.1", "port": port_of(b, "links"), "clients": elsewhere}
        a = RunningBroker(settings_of(tmp_path, "a", links={"peers": [peer]}, http={"port": 0}))
        await a.start()
        await until(lambda: a.server.core.border.has_neighbours() and b.server.core.border.has_neighbours())
        publisher, _ = await connect(b, "p")
        talk, _ = await connect(a, "c")
        await talk.say(Subscribe(1, (Wish("t", 1),)))
        stopping = asyncio.create_task(a.stop())
        told = await talk.hear()
        assert isinstance(told, Disconnect)
        assert (told.reason, told.server_reference) == (Reason.USE_ANOTHER_SERVER, elsewhere)
        talk, answer = await connect(b, "c")
        assert isinstance(answer, ConnAck)
        assert answer.session_present
        await stopping
        await publisher.say(Publish("t", b"there", 1, packet_id=1))
        heard = await talk.hear()
        assert isinstance(heard, Publish)
        lines = await metrics_of(b)
        assert 'roamcast_sessions{state="connected"} 2.0' in lines
        assert 'roamcast_roams_total{direction="in"} 1.0' in lines
        assert 'roamcast_messages_out_total{qos="1"} 1.0' in lines
        assert any(line.startswith("roamcast_queue_bytes ") and float(line.split()[1]) > 0 for line in lines)
        await b.stop()

    run(work)


def test_l8_a_broker_that_stopped_in_order_has_nothing_to_read_again(tmp_path: Path) -> None:
    async def work() -> None:
        b = RunningBroker(settings_of(tmp_path, "b", links={"port": 0}))
        await b.start()
        peer = {"name": "b", "host": "127.0.0.1", "port": port_of(b, "links")}
        a = RunningBroker(settings_of(tmp_path, "a", links={"peers": [peer]}))
        await a.start()
        await until(lambda: a.server.core.border.has_neighbours() and b.server.core.border.has_neighbours())
        talk, _ = await connect(a, "c")
        await talk.say(Subscribe(1, (Wish("t", 1),)))
        await a.stop()
        again = RunningBroker(settings_of(tmp_path, "a", links={"peers": [peer]}))
        await again.start()
        assert again.replayed == 0
        assert "c" in again.server.core.border.sessions
        await again.stop()
        await b.stop()

    run(work)


def test_l2_a_broker_that_redirects_names_the_other_one(tmp_path: Path) -> None:
    async def work() -> None:
        broker = RunningBroker(settings_of(tmp_path, "a", redirect_to="b.example:1883", redirect_moved=True))
        await broker.start()
        _, answer = await connect(broker, "c")
        assert isinstance(answer, ConnAck)
        assert (answer.reason, answer.server_reference) == (Reason.SERVER_MOVED, "b.example:1883")
        await broker.stop()

    run(work)


def test_o1_a_modulator_that_a_file_of_the_settings_registers_is_there(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(REGISTERING)

    async def work() -> None:
        broker = RunningBroker(settings_of(tmp_path, "a", modulators=[str(file)]))
        await broker.start()
        talk, _ = await connect(broker, "c")
        pairs = (("modulator", "doubling of the running test"),)
        granted = await talk.say(Subscribe(1, (Wish("t", 0),), None, pairs))
        assert isinstance(granted, SubAck)
        assert granted.reasons == (Reason.SUCCESS,)
        heard = await talk.say(Publish("t", b'{"v": 21}'))
        assert isinstance(heard, Publish)
        assert json.loads(heard.payload) == {"v": 42}
        await broker.stop()

    run(work)


def test_files_that_the_settings_name_are_looked_for_beside_them_and_must_be_right(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise ValueError('not today')")
    model = '{"version": 1, "places": {"hall": {"residence_s": 5, "next": {"roof": 2}}, "roof": {"residence_s": 5}}}'
    (tmp_path / "walks.json").write_text(model)
    text = 'name = "a"\ndata = "data"\nmodulators = ["bad.py"]\n[protocol.logical]\nmovement = "walks.json"\n'
    (tmp_path / "broker.toml").write_text(text)
    settings = load_settings(tmp_path / "broker.toml")
    graph = load_graph(settings)
    assert graph is not None
    assert sorted(graph.ploc("hall", 1)) == ["hall", "roof"]
    with pytest.raises(BadSettings, match="not today"):
        load_modulators(settings)
    (tmp_path / "walks.json").write_text("{}")
    with pytest.raises(BadSettings, match="movement"):
        load_graph(settings)


@pytest.mark.parametrize(("host", "warned"), [("", True), ("0.0.0.0", True), ("127.0.0.1", False), ("::1", False)])
def test_l7_passwords_on_a_plain_listener_that_others_reach_are_warned_of(
    tmp_path: Path, host: str, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "passwords").write_text("")
    security = {"passwords": str(tmp_path / "passwords"), "rules": [{"publish": ["#"], "subscribe": ["#"]}]}
    listeners = [{"kind": "tcp", "port": 0, "host": host}]

    async def work() -> None:
        broker = RunningBroker(settings_of(tmp_path, "a", security=security, listeners=listeners))
        await broker.start()
        await broker.stop()

    run(work)
    said = capsys.readouterr()
    assert ("unencrypted" in said.out + said.err) is warned
