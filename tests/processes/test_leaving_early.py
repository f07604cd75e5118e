"""P-27: a client goes on before its broker could fetch its session; nobody takes that away from it later."""

import asyncio
from pathlib import Path

import pytest

from tests.processes.fleet import BrokerProcess, fleet
from tests.processes.vendors import PahoReader, connect_paho, end_paho, paho_client, until

pytestmark = [pytest.mark.timeout(120), pytest.mark.process]


@pytest.mark.slow
def test_a_client_that_went_before_connack_keeps_its_session_elsewhere_p27(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet(tmp_path, "a b", (("a", "b"),), log_level="debug") as brokers:
            here, there = brokers["a"], brokers["b"]
            access = await brokers.access("b")
            client, other = PahoReader("client", access.port, "t", 1), PahoReader("other", here.mqtt_port, "u", 1)
            await client.start()
            await other.start()
            await until_answered(there, here, client, other, "before")
            brokers.cut("a", "b")
            access.lead_to(here.mqtt_port)
            await until(lambda: came(here) == 1, "the client has not come to a")
            access.lead_to(there.mqtt_port)
            await until(lambda: came(there) == 2, "the client is not back at b")
            brokers.heal()
            # What a asks has gone ahead of the first, b's answer ahead of the second, a's claim ahead of the third.
            for word in ("first", "second", "third"):
                await until_answered(there, here, client, other, word)
            assert "session_taken_over" not in there.said
            await client.stop()
            await other.stop()

    asyncio.run(asyncio.wait_for(work(), 100))


def came(broker: BrokerProcess) -> int:
    """How often the client did."""
    return sum("client came" in line and "client=client" in line for line in broker.said.splitlines())


async def until_answered(
    there: BrokerProcess, here: BrokerProcess, client: PahoReader, other: PahoReader, word: str
) -> None:
    """A word from `here` to the client, then one from `there` to the other."""
    await until_heard(here, "t", client, word)
    await until_heard(there, "u", other, word)


async def until_heard(at: BrokerProcess, topic: str, reader: PahoReader, word: str) -> None:
    writer = paho_client(f"{word}-{topic}")

    def heard() -> bool:
        writer.publish(topic, word, qos=1)
        return word in reader.got

    connect_paho(writer, at.mqtt_port, clean=True, session_s=0)
    await until(writer.is_connected, "a writer is not connected")
    await until(heard, f"'{word}' has not come", pace_s=0.2)
    await end_paho(writer)
