"""O1: a host on a network that reaches every other host; links are its affair, and its node hears of failures."""

import asyncio
from collections.abc import Awaitable, Callable

from roamcast.broker.overlay.messages import MESSAGES, NotHome
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.values import FOREVER_US
from roamcast.multicast.host import LiveHost
from roamcast.node.boundary import Does, Input, LinkDown, LinkUp, Publish, Received, Send
from roamcast.node.codec import Codec
from tests.multicast.lan import until


class Saying:
    """Says something to a peer for each event, and remembers what it is given."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.given: list[Input] = []

    def handle(self, now_us: int, given: Input) -> list[Does]:
        self.given.append(given)
        return [Send(self.peer, NotHome())] if isinstance(given, Publish) else []

    def count(self, kind: type[Input]) -> int:
        return sum(isinstance(each, kind) for each in self.given)


class ThreeHops:
    def hops(self, peer: str) -> int | None:
        return 3


class Pair:
    """Two hosts; the first knows where the second is, and not the other way round."""

    def __init__(self, network: ThreeHops | None) -> None:
        self.near, self.far = Saying("far"), Saying("near")
        self.hosts = {
            name: LiveHost(name, node, Codec(MESSAGES), network=network)
            for name, node in (("near", self.near), ("far", self.far))
        }

    async def open(self) -> None:
        self.hosts["near"].addresses["far"] = ("127.0.0.1", await self.hosts["far"].links.listen("127.0.0.1", 0))

    def publish(self, name: str) -> None:
        self.hosts[name].give(Publish(Event("e", "x", Context(name), 0, FOREVER_US)))


def tell(network: ThreeHops | None, story: Callable[[Pair], Awaitable[None]]) -> None:
    async def whole() -> None:
        pair = Pair(network)
        await pair.open()
        await story(pair)
        for host in pair.hosts.values():
            await host.close()

    asyncio.run(whole())


def test_o1_the_first_message_is_lost_and_told_so_and_later_ones_arrive_with_their_hops() -> None:
    async def story(pair: Pair) -> None:
        pair.publish("near")
        assert pair.near.given[-1] == LinkDown("far")
        await until(lambda: pair.hosts["near"].links.is_up("far") and pair.hosts["far"].links.is_up("near"))
        pair.publish("near")
        await until(lambda: Received(NotHome(), "near", hops=3) in pair.far.given)
        assert pair.near.count(LinkUp) == pair.far.count(LinkUp) == 0

    tell(ThreeHops(), story)


def test_o1_who_has_no_address_cannot_be_reached() -> None:
    async def story(pair: Pair) -> None:
        pair.publish("far")
        assert pair.far.given[-1] == LinkDown("near")
        assert not pair.hosts["far"].links.dials("near")

    tell(ThreeHops(), story)


def test_o1_without_a_network_a_message_without_a_link_brings_nothing_about() -> None:
    async def story(pair: Pair) -> None:
        pair.publish("near")
        assert pair.near.count(LinkDown) == 0
        assert not pair.hosts["near"].links.dials("far")

    tell(None, story)
