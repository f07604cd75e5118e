"""L3, L8: clients of four vendors go from broker to broker under load; brokers are killed, links cut and healed.

Three broker processes in a line, one reader of each vendor that is installed, a publisher at QoS 1 and one at QoS 2
which move like the readers. Everything arrives, in its publisher's order, at QoS 2 once.
"""

import asyncio
import os
import shutil
from pathlib import Path
from random import Random

import pytest

from tests.processes.checking import complaints
from tests.processes.fleet import Fleet, Proxy, fleet
from tests.processes.publisher import Publisher, publisher
from tests.processes.vendors import READERS, Reader, mqtt_js, until_heard, without_hello

pytestmark = [pytest.mark.timeout(170), pytest.mark.process]
LINKS = (("a", "b"), ("b", "c"))
SEED = int(os.environ.get("ROAMCAST_SEED", "7"))
TROUBLES = 12
PACE_S = 0.02
SETTLE_S = 60.0


class Trial:
    def __init__(self, brokers: Fleet, seed: int, faults: str) -> None:
        self.brokers = brokers
        self.generator = Random(seed)
        self.faults = faults.split()
        self.readers: dict[str, Reader] = {}
        self.publishers: list[Publisher] = []
        self.accesses: list[Proxy] = []
        self._restarts: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        for vendor in available():
            access = await self._access()
            self.readers[vendor] = READERS[vendor](f"reader-{vendor}", access.port, "t/#", 2)
        for qos in (1, 2):
            access = await self._access()
            self.publishers.append(publisher(qos, access.port))
        await asyncio.gather(*(reader.start() for reader in self.readers.values()))
        for broker in self.brokers.brokers.values():
            await until_heard(broker.mqtt_port, "t/hello", self.readers.values())
        for each in self.publishers:
            await each.start()

    async def _access(self) -> Proxy:
        access = await self.brokers.access(self._any_broker())
        self.accesses.append(access)
        return access

    def _any_broker(self) -> str:
        return self.generator.choice(list(self.brokers.brokers))

    async def run(self) -> None:
        for _ in range(TROUBLES):
            for _ in range(self.generator.randrange(10, 40)):
                for each in self.publishers:
                    each.say()
                await asyncio.sleep(PACE_S)
            await self._trouble(self.generator.choice(self.faults))
        self.brokers.heal()
        await asyncio.gather(*self._restarts)

    async def _trouble(self, fault: str) -> None:
        match fault:
            case "roam":
                broker = self.brokers[self._any_broker()]
                self.generator.choice(self.accesses).lead_to(broker.mqtt_port)
            case "cut":
                self.brokers.cut(*self.generator.choice(LINKS))
            case "heal":
                self.brokers.heal()
            case "kill":
                broker = self.brokers[self._any_broker()]
                if all(each.alive for each in self.brokers.brokers.values()) and all(
                    task.done() for task in self._restarts
                ):
                    await broker.kill()
                    self._restarts.append(asyncio.get_running_loop().create_task(broker.start()))

    async def settle(self) -> None:
        """Until everything said is safe and has come, or for long enough."""
        deadline = asyncio.get_running_loop().time() + SETTLE_S
        while asyncio.get_running_loop().time() < deadline and not self._quiet():
            await asyncio.sleep(0.1)

    def _quiet(self) -> bool:
        said = sum(len(each.said) for each in self.publishers)
        safe = all(each.settled for each in self.publishers)
        return safe and all(
            len(set(without_hello(each.got))) + each.swallowed >= said for each in self.readers.values()
        )

    def verdict(self) -> list[str]:
        found = [
            f"{each.name}: {each.acknowledged} of {len(each.said)} were acknowledged"
            for each in self.publishers
            if each.acknowledged < len(each.said)
        ]
        said = {each.name: each.said for each in self.publishers}
        for name, reader in self.readers.items():
            found += complaints(name, said, without_hello(reader.got), once=["p2"], swallowed=reader.swallowed)
        return found

    async def end(self) -> None:
        for task in self._restarts:
            task.cancel()
        await asyncio.gather(*self._restarts, return_exceptions=True)
        clients: list[Reader | Publisher] = [*self.readers.values(), *self.publishers]
        for each in clients:
            await each.stop()


def available() -> list[str]:
    """Vendors whose clients are here; which are not, `test_vendors.py` says by skipping."""
    found = ["paho", "aiomqtt"]
    if shutil.which("mosquitto_sub"):
        found.append("mosquitto")
    try:
        mqtt_js()
    except pytest.skip.Exception:
        return found
    return [*found, "mqtt.js"]


@pytest.mark.parametrize(
    ("faults", "secure"),
    [
        ("roam", True),
        pytest.param("roam roam kill", False, marks=pytest.mark.slow),
        pytest.param("roam roam cut heal kill", False, marks=pytest.mark.slow),
    ],
)
def test_l3_nothing_is_lost_or_doubled_on_the_way(tmp_path: Path, faults: str, secure: bool) -> None:
    async def work() -> None:
        async with fleet(tmp_path, "a b c", LINKS, secure=secure) as brokers:
            trial = Trial(brokers, SEED, faults)
            try:
                await trial.begin()
                await trial.run()
                await trial.settle()
                found = trial.verdict()
            finally:
                await trial.end()
            printed = "\n".join(each.output.read_text()[-1_500:] for each in brokers.brokers.values())
            assert not found, "\n".join([f"ROAMCAST_SEED={SEED}", *found, printed])

    asyncio.run(asyncio.wait_for(work(), 160))
