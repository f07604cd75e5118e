"""L8: a broker that has lost its lease closes its sockets, and says nothing more to anybody."""

import asyncio
from collections.abc import Iterator

import pytest

from roamcast.mqtt import encode
from roamcast.mqtt.packets import V5, ConnAck, PingReq
from roamcast.server.running import RunningBroker
from roamcast.server.settings import Settings, settings_from
from roamcast.server.storage.postgres import Lease
from roamcast.server.tenure import lease_for
from tests.broker.mqtt.test_running import Talk, connect, run
from tests.server.storage.clusters import Cluster, cluster, needs_postgres

pytestmark = needs_postgres


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


def settings_on(server: Cluster, name: str) -> Settings:
    listener = {"host": "127.0.0.1", "port": 0}
    given = {"name": name, "data": server.url, "listeners": [listener], "storage": {"lease_s": 60}}
    return settings_from({**given, "links": {"port": 0}})


async def ending(broker: RunningBroker) -> str:
    await broker.ended.wait()
    return str(broker.why_ended)


async def last_words(talk: Talk) -> bytes:
    try:
        return await talk.reader.read()
    except ConnectionResetError:
        return b""


async def lease_that_nobody_renews(broker: RunningBroker) -> Lease:
    """Its own thread would win or lose a race against what the test does to the lease."""
    lease = broker._tenure.lease
    assert lease is not None
    assert lease._keeper is not None
    lease.end()
    await asyncio.to_thread(lease._keeper.join)
    return lease


def test_l8_a_broker_whose_place_was_taken_hangs_up(server: Cluster) -> None:
    async def work() -> None:
        broker = RunningBroker(settings_on(server, "taken"))
        await broker.start()
        talk, answer = await connect(broker, "c")
        assert isinstance(answer, ConnAck)
        await lease_that_nobody_renews(broker)
        server.sql("UPDATE roamcast.leases SET deadline = '-infinity' WHERE broker = 'taken'")
        successor = lease_for(broker.settings)
        assert not successor.try_take()
        # Its first commit behind that finds out.
        talk.writer.transport.abort()
        assert "another broker has taken its place" in await ending(broker)
        with pytest.raises(ConnectionRefusedError):
            await connect(broker, "late")
        await broker.stop()
        successor.release()

    run(work)


def test_l8_a_broker_whose_lease_is_over_answers_nobody(server: Cluster) -> None:
    """Also if it was paused, and has not heard of another one yet."""

    async def work() -> None:
        broker = RunningBroker(settings_on(server, "over"))
        await broker.start()
        talk, _ = await connect(broker, "c")
        lease = await lease_that_nobody_renews(broker)
        lease._until_s = float("-inf")
        talk.writer.write(encode(PingReq(), V5))
        assert await last_words(talk) == b""
        assert "could not be renewed in time" in await ending(broker)
        await broker.stop()

    run(work)
