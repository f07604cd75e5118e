"""L2: `roamcast.Client` at a broker that is not ours (Mosquitto, where it is installed), and over TLS at ours."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from roamcast.client import Client, NotConnected
from roamcast.server.running import RunningBroker
from roamcast.server.settings import Listener, Settings
from tests.client.test_client import take
from tests.ports import free_port
from tests.server.links.ends import Relay

pytestmark = pytest.mark.timeout(60)
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


@pytest.fixture
def mosquitto_port(tmp_path: Path) -> Iterator[int]:
    if MOSQUITTO is None:
        pytest.skip("mosquitto is not installed")
    port = free_port()
    config = tmp_path / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 20\n", encoding="utf-8"
    )
    broker = subprocess.Popen([MOSQUITTO, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        broker.terminate()
        broker.wait(10)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_l2_the_client_works_at_mosquitto(mosquitto_port: int, qos: int) -> None:
    async def work() -> None:
        brokers = [f"mqtt://127.0.0.1:{mosquitto_port}"]
        async with Client("r", brokers) as reader, Client("w", brokers) as writer:
            await reader.subscribe("t/#", qos=qos)
            for number in range(100):
                await writer.publish("t/x", {"number": number}, qos=qos, expiry_s=60)
            events = await take(reader.events(), 100)
            assert [event.attributes["number"] for event in events] == list(range(100))

    asyncio.run(asyncio.wait_for(work(), 30))


def test_l3_a_broken_connection_to_mosquitto_loses_and_doubles_nothing(mosquitto_port: int) -> None:
    async def work() -> None:
        async with (
            Relay(mosquitto_port) as relay,
            Client("r", [f"mqtt://127.0.0.1:{relay.port}"]) as reader,
            Client("w", [f"mqtt://127.0.0.1:{relay.port}"]) as writer,
        ):
            await reader.subscribe("t", qos=2)
            for number in range(150):
                await writer.publish("t", {"number": number}, qos=2)
                if number % 50 == 25:
                    relay.drop()
            events = await take(reader.events(), 150)
            assert [event.attributes["number"] for event in events] == list(range(150))
            assert reader.sessions_lost == 0

    asyncio.run(asyncio.wait_for(work(), 30))


def test_l7_the_client_speaks_tls_and_checks_whom_it_speaks_to(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    listener = Listener("tls", "127.0.0.1", 0, str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem"))

    def trusting(whom: trustme.CA) -> ssl.SSLContext:
        context = ssl.create_default_context()
        whom.configure_trust(context)
        return context

    async def work() -> None:
        settings = Settings("a", str(tmp_path / "data"), "plane", listeners=(listener,), log_level="error")
        broker = RunningBroker(settings)
        await broker.start()
        try:
            brokers = [f"mqtts://localhost:{broker.addresses[0].port}"]
            async with Client("c", brokers, ssl=trusting(authority)) as client:
                await client.subscribe("t")
                await client.publish("t", b"sealed")
                assert (await take(client.events(), 1))[0].payload == b"sealed"
            with pytest.raises(NotConnected, match="certificate"):
                async with Client("c", brokers, ssl=trusting(stranger), connect_s=1.0):
                    raise AssertionError("a stranger's certificate was believed")
        finally:
            await broker.stop()

    asyncio.run(asyncio.wait_for(work(), 30))
