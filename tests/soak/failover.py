"""Two brokers of one name, two PostgreSQL servers, and what can happen to them, for as long as one likes.

Five machines in namespaces: `north-1` and `north-2` wait for the place of each other, `db-1` and `db-2` are a primary
and its synchronous standby, and `south` is a broker of its own that both are linked to. Clients publish at QoS 1 and
2 and read at QoS 2, some at north, some at south; two of paho roam. In each round one thing fails, and what failed
comes back.

At the end of a round: everything said was acknowledged, everything acknowledged has come, in its publisher's order,
and nothing at QoS 2 came twice.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import trustme

from tests.networks.lan import Lan
from tests.processes.checking import complaints
from tests.processes.fleet import BrokerProcess, Proxy, certificate_files
from tests.processes.pairs import KEEP_ALIVE_S, NAME, OwnReader
from tests.processes.publisher import OwnPublisher, PahoPublisher, Publisher
from tests.processes.vendors import PahoReader, until
from tests.server.storage.clusters import Cluster, url_of

MACHINES = ["north-1", "north-2", "south", "db-1", "db-2"]
PACE_S = 0.04
UNACKNOWLEDGED_MAX = 200
"""A publisher says no more while so much of what it said is not safe."""
PATIENCE_S = 120.0
RESTART_S = 0.3
ATTEMPT_S = 2.0
READY, LOST = "is ready", "has lost its lease"


class Access(Proxy):
    """It gives up an attempt that nobody answers, as when the other machine is cut off."""

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ATTEMPT_S):
                await super()._pass(reader, writer)
        except TimeoutError:
            writer.transport.abort()


class Failed(Exception):
    """A promise was broken; the message says which."""


class Soak:
    def __init__(self, lan: Lan, folder: Path, generator: Random, told: Callable[[str], None] = print) -> None:
        self.lan = lan
        self.generator = generator
        self.told = told
        self.primary, self.replica = (
            Cluster(folder / name, name.replace("-", "_"), lan.address(name), lan.within(name))
            for name in ("db-1", "db-2")
        )
        self.pair = [
            BrokerProcess(f"{NAME}-{n}", folder, "--standby", within=lan.within(f"{NAME}-{n}")) for n in (1, 2)
        ]
        self.south = BrokerProcess("south", folder, within=lan.within("south"))
        self.takeovers: list[float] = []
        """How many seconds passed until the other broker was ready."""
        self._settle_settings(folder)
        self._keepers: list[asyncio.Task[None]] = []
        self._wrong: list[str] = []
        self.access = [Access(self.south.mqtt_port, lan.address("south")) for _ in range(2)]
        """The ways of two clients that roam."""
        norths, south = [self._url(each) for each in self.pair], self._url(self.south)
        self.readers: dict[str, OwnReader | PahoReader] = {
            "north": OwnReader("north-reader", *norths),
            "south": OwnReader("south-reader", south),
        }
        self.publishers: list[Publisher] = [
            OwnPublisher("n1", *norths, qos=1, keep_alive_s=KEEP_ALIVE_S),
            OwnPublisher("n2", *norths, qos=2, keep_alive_s=KEEP_ALIVE_S),
            OwnPublisher("s2", south, qos=2, keep_alive_s=KEEP_ALIVE_S),
        ]

    def _url(self, broker: BrokerProcess) -> str:
        return f"mqtt://{self.lan.address(broker.name)}:{broker.mqtt_port}"

    def _settle_settings(self, folder: Path) -> None:
        authority = trustme.CA()
        north, south = (certificate_files(authority, folder, name) for name in (NAME, "south"))
        first, second = self.pair
        called = f"{self.lan.address(second.name)}:{second.link_port}"
        norths = {"name": NAME, "host": self.lan.address(first.name), "port": first.link_port, "standbys": [called]}
        souths = {"name": "south", "host": self.lan.address("south"), "port": self.south.link_port}
        for broker in self.pair:
            broker.settings |= {"name": NAME, "data": url_of(self.primary, self.replica)}
        for broker in (*self.pair, self.south):
            host = self.lan.address(broker.name)
            broker.settings["listeners"] = [{"port": broker.mqtt_port, "host": host}]
            broker.settings["security"]["anonymous"] = True
            files, peer = (south, norths) if broker is self.south else (north, souths)
            broker.settings["links"] = {"port": broker.link_port, "host": host, "peers": [peer], **files}

    # The beginning and the end.

    async def begin(self) -> None:
        await asyncio.to_thread(self._start_databases)
        await self.south.start()
        first, second = self.pair
        await first.start()
        await second.launch()
        self._keepers = [asyncio.get_running_loop().create_task(self._keep(each)) for each in self.pair]
        reading, publishing = [await access.__aenter__() for access in self.access]
        self.readers["roaming"] = PahoReader("roaming-reader", reading.port, "t/#", 2)
        self.publishers.append(PahoPublisher("r1", publishing.port))
        for reader in self.readers.values():
            await reader.start()
        for each in self.publishers:
            await each.start()

    def _start_databases(self) -> None:
        self.primary.make()
        self.primary.start()
        self._attach_replica()

    def _attach_replica(self) -> None:
        self.replica.copy(self.primary)
        self.replica.start()
        self.primary.wait_for(self.replica.application)
        state = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        deadline_s = time.monotonic() + PATIENCE_S
        while not self.primary.sql(state):
            if time.monotonic() > deadline_s:
                raise Failed("the replica does not follow")
            time.sleep(0.05)

    async def _keep(self, broker: BrokerProcess) -> None:
        """Starts it again whenever it ends, as systemd would."""
        while True:
            if broker.alive:
                code = await broker.wait()
                if code not in (0, -9) and not (code == 3 and LOST in broker.said):
                    self._wrong.append(f"{broker.name} ended with {code}: {broker.said[-1_000:]}")
            await asyncio.sleep(RESTART_S)
            await broker.launch()

    async def end(self) -> None:
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for reader in self.readers.values():
            with suppress(Exception):
                await asyncio.wait_for(reader.stop(), 10)
        for each in self.publishers:
            with suppress(Exception):
                await asyncio.wait_for(each.stop(), 10)
        for access in self.access:
            await access.__aexit__()
        for broker in (*self.pair, self.south):
            await broker.kill()
        for cluster in (self.primary, self.replica):
            cluster.resume()
            cluster.stop()

    # A round.

    async def round(self, trouble: str) -> None:
        saying = asyncio.get_running_loop().create_task(self._say())
        roaming = asyncio.get_running_loop().create_task(self._roam())
        try:
            await asyncio.sleep(self.generator.uniform(0.2, 1.5))
            await asyncio.wait_for(self.troubles()[trouble](), PATIENCE_S)
            await asyncio.sleep(self.generator.uniform(0.2, 1.0))
        finally:
            for task in (saying, roaming):
                task.cancel()
            await asyncio.gather(saying, roaming, return_exceptions=True)
        await self._check()

    async def _say(self) -> None:
        while True:
            for each in self.publishers:
                if len(each.said) - each.acknowledged < UNACKNOWLEDGED_MAX:
                    each.say()
            await asyncio.sleep(PACE_S)

    async def _roam(self) -> None:
        """One of the two goes to south, or to whoever serves north."""
        while True:
            await asyncio.sleep(self.generator.uniform(0.5, 4.0))
            self._lead(self.generator.choice(self.access), self.generator.choice((self.south, self._roles()[0])))

    def _lead(self, access: Access, broker: BrokerProcess) -> None:
        access.target_host = self.lan.address(broker.name)
        access.lead_to(broker.mqtt_port)

    async def _check(self) -> None:
        active, _ = await self._serving()
        for access in self.access:
            self._lead(access, self.generator.choice((active, self.south)))
        await until(lambda: all(each.settled for each in self.publishers), "not acknowledged", PATIENCE_S, 0.1)
        said = {each.name: each.said for each in self.publishers}
        total = sum(map(len, said.values()))
        readers = self.readers.values()
        with suppress(AssertionError):
            # What is missing then is said below.
            await until(lambda: all(len(set(each.got)) >= total for each in readers), "missing", PATIENCE_S, 0.1)
        found = list(self._wrong)
        for name, reader in self.readers.items():
            found += complaints(name, said, reader.got, once=["n2", "s2"])
            if isinstance(reader, OwnReader) and reader.sessions_lost:
                found.append(f"{name}: its session was lost")
        if found:
            raise Failed("; ".join(found))

    # What can happen.

    def troubles(self) -> dict[str, Callable[[], Awaitable[Any]]]:
        return {
            "kill the broker": self._kill_broker,
            "stop the broker": self._stop_broker,
            "pause the broker": self._pause_broker,
            "cut off the broker": self._cut_broker,
            "kill the database": self._kill_database,
            "pause the database": self._pause_database,
            "pause the database and promote its replica": self._pause_and_promote,
            "cut off the database": self._cut_database,
            "pause the replica": self._pause_replica,
            "cut off the replica": self._cut_replica,
            "kill the broker and the database": self._kill_both,
        }

    def _roles(self) -> tuple[BrokerProcess, BrokerProcess]:
        """Who serves, and who waits."""
        first, second = self.pair
        return (first, second) if READY in first.said else (second, first)

    async def _serving(self) -> tuple[BrokerProcess, BrokerProcess]:
        def one_is() -> bool:
            active, other = self._roles()
            return active.alive and other.alive and READY in active.said and READY not in other.said

        await until(one_is, "nobody serves", PATIENCE_S)
        return self._roles()

    async def _serves_again(self, gone: BrokerProcess, other: BrokerProcess, life: int) -> None:
        """On a busy machine the one that is gone may be back before the other notices."""
        begun_s = time.monotonic()

        def one_does() -> bool:
            return READY in other.said or (gone.starts > life and READY in gone.said)

        await until(one_does, f"nobody serves after {gone.name}", PATIENCE_S)
        if READY in other.said:
            self.takeovers.append(time.monotonic() - begun_s)

    async def _taken_over(self, by: BrokerProcess, since_s: float) -> None:
        await until(lambda: READY in by.said, f"{by.name} does not take over", PATIENCE_S)
        self.takeovers.append(time.monotonic() - since_s)

    async def _kill_broker(self) -> None:
        active, other = await self._serving()
        life = active.starts
        await active.kill()
        await self._serves_again(active, other, life)

    async def _stop_broker(self) -> None:
        active, other = await self._serving()
        life = active.starts
        await active.stop()
        await self._serves_again(active, other, life)

    async def _pause_broker(self) -> None:
        active, other = await self._serving()
        begun_s, life = time.monotonic(), active.starts
        active.pause()
        try:
            await self._taken_over(other, begun_s)
            await asyncio.sleep(self.generator.uniform(0.0, 2.0))
        finally:
            active.resume()
        await until(lambda: active.starts > life, f"{active.name} does not end", PATIENCE_S)

    async def _cut_broker(self) -> None:
        active, other = await self._serving()
        begun_s = time.monotonic()
        self.lan.cut(active.name)
        try:
            await self._taken_over(other, begun_s)
        finally:
            self.lan.heal(active.name)

    async def _kill_database(self) -> None:
        await asyncio.to_thread(self.primary.stop)
        await self._promote()

    async def _promote(self) -> None:
        """The replica takes the place of a primary that is gone, which comes back as its replica."""
        await asyncio.to_thread(self.replica.promote)
        self.primary, self.replica = self.replica, self.primary
        await asyncio.sleep(self.generator.uniform(0.0, 2.0))
        await asyncio.to_thread(self.replica.stop)
        await asyncio.to_thread(self._attach_replica)

    async def _pause_database(self) -> None:
        await self._paused(self.primary, 6.0)

    async def _paused(self, cluster: Cluster, at_most_s: float) -> None:
        cluster.pause()
        await asyncio.sleep(self.generator.uniform(0.5, at_most_s))
        cluster.resume()

    async def _pause_and_promote(self) -> None:
        old = self.primary
        old.pause()
        await asyncio.to_thread(self.replica.promote)
        await asyncio.sleep(self.generator.uniform(0.0, 4.0))
        # For a while there are two that take writes; this one waits in vain for its replica with each of them.
        old.resume()
        await asyncio.sleep(1.0)
        self.primary, self.replica = self.replica, self.primary
        await asyncio.to_thread(self.replica.stop)
        await asyncio.to_thread(self._attach_replica)

    async def _cut_database(self) -> None:
        name = self.primary.directory.name
        self.lan.cut(name)
        try:
            await asyncio.to_thread(self.replica.promote)
            await asyncio.sleep(self.generator.uniform(0.0, 4.0))
        finally:
            self.lan.heal(name)
        await asyncio.sleep(self.generator.uniform(0.0, 1.0))
        self.primary, self.replica = self.replica, self.primary
        await asyncio.to_thread(self.replica.stop)
        await asyncio.to_thread(self._attach_replica)

    async def _pause_replica(self) -> None:
        await self._paused(self.replica, 5.0)

    async def _cut_replica(self) -> None:
        name = self.replica.directory.name
        self.lan.cut(name)
        await asyncio.sleep(self.generator.uniform(0.5, 5.0))
        self.lan.heal(name)

    async def _kill_both(self) -> None:
        active, _ = await self._serving()
        await active.kill()
        await self._kill_database()
