"""L2: clients of four vendors, as they are, at a broker process: plain subscriptions, filters, places, WebSocket."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.ports import free_ports
from tests.processes.fleet import shared_fleet
from tests.processes.vendors import READERS, MqttJsReader, connect_paho, end_paho, need, paho_client, until

pytestmark = [pytest.mark.timeout(120), pytest.mark.process]
FILTER = "severity > 3 AND near(position, 200)"
HERE = '{"position": [1000, 1000]}'
SAID = [
    '{"number": 1, "severity": 5, "position": [1100, 1000]}',
    '{"number": 2, "severity": 1, "position": [1100, 1000]}',
    '{"number": 3, "severity": 5, "position": [5000, 1000]}',
    '{"number": 4, "severity": 4, "position": [1000, 1199]}',
]
WANTED = [SAID[0], SAID[3]]


async def publish(port: int, topic: str, *payloads: str, retain: bool = False) -> None:
    """With paho at QoS 1, and only when all of it is acknowledged."""
    client = paho_client("writer")
    connect_paho(client, port, clean=True, session_s=0)
    await until(client.is_connected, "the writer is not connected")
    told = [client.publish(topic, payload, qos=1, retain=retain) for payload in payloads]
    await until(lambda: all(each.is_published() for each in told), "not acknowledged")
    await end_paho(client)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Of one broker for all tests here: TCP and WebSocket."""
    tcp, websocket = free_ports(2)
    listeners = [{"port": tcp}, {"kind": "ws", "port": websocket}]
    with shared_fleet(tmp_path_factory.mktemp("vendors"), "a", listeners=listeners):
        yield tcp, websocket


@pytest.mark.slow
@pytest.mark.parametrize("vendor", READERS)
def test_l2_plain_and_filtered_by_content_and_place_from_every_vendor(ports: tuple[int, int], vendor: str) -> None:
    need(vendor)

    async def work() -> None:
        topic, port = f"alerts/{vendor}", ports[0]
        plain = READERS[vendor](f"plain-{vendor}", port, f"{topic}/#", 1)
        near = READERS[vendor](f"near-{vendor}", port, f"{topic}/#", 1, [("filter", FILTER)])
        for reader in (plain, near):
            await reader.start()
        try:
            await near.report(HERE)
            await publish(port, f"{topic}/x", *SAID)
            await until(lambda: len(plain.got) >= len(SAID), "the plain one lacks something")
            await until(lambda: len(near.got) >= len(WANTED), "the filtered one lacks something")
            assert (plain.got, near.got) == (SAID, WANTED)
        finally:
            for reader in (plain, near):
                await reader.stop()

    asyncio.run(asyncio.wait_for(work(), 110))


def test_l2_mqtt_js_reads_a_retained_message_over_websocket(ports: tuple[int, int]) -> None:
    need("mqtt.js")

    async def work() -> None:
        tcp, websocket = ports
        await publish(tcp, "kept/x", SAID[0], retain=True)
        reader = MqttJsReader("browser", websocket, "kept/#", 1, scheme="ws")
        await reader.start()
        try:
            await until(lambda: bool(reader.got), "the retained message has not come")
            assert reader.got == SAID[:1]
        finally:
            await reader.stop()

    asyncio.run(asyncio.wait_for(work(), 110))
