"""R1 to R3: the same brokers and clients, in the simulator and on real sockets, tell the same stories."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from roamcast.broker.broker import Broker
from roamcast.broker.client import Client
from roamcast.broker.messages import MESSAGES
from roamcast.broker.params import BrokerParams
from roamcast.broker.routing import Strategy
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US
from roamcast.node.boundary import Node, Publish, Subscribe, Unsubscribe
from roamcast.node.codec import Codec
from tests.runtimes.nets import LiveNet, Net, SimNet

BROKERS = ("B0", "B1", "B2")
STRATEGIES: tuple[Strategy, ...] = ("flooding", "simple", "identity", "covering", "merging")


class Story:
    """Brokers B0 - B1 - B2 in a line, and clients that attach to them."""

    def __init__(self, net_of: Callable[[dict[str, Callable[[], Node]], Codec], Net], params: BrokerParams) -> None:
        def client(name: str) -> Callable[[], Node]:
            return lambda: Client(name, params)

        def broker(name: str) -> Callable[[], Node]:
            return lambda: Broker(name, params, 1)

        nodes = {name: broker(name) for name in BROKERS} | {name: client(name) for name in ("producer", "consumer")}
        self.net = net_of(nodes, Codec(MESSAGES))
        self.published = 0
        self.net.link("B0", "B1")
        self.net.link("B1", "B2")
        for broker_name, neighbours in (("B0", 1), ("B1", 2), ("B2", 1)):
            self.wait(broker_name, partial(is_linked, neighbours=neighbours))

    def wait(self, host: str, holds: Callable[[Broker], bool]) -> None:
        assert self.net.until(lambda: self.net.ask(host, holds)), host

    def attach(self, client: str, broker: str) -> None:
        self.net.link(client, broker)
        self.wait(
            broker,
            lambda node: client in node.border.sessions and node.border.sessions[client].attachment.awaits is None,
        )

    def subscribe(self, filter_text: str, name: str = "s") -> None:
        """Returns when the wish has reached everybody."""
        now_us = self.net.now_us()
        subscription = Subscription(name, "consumer", "t", now_us, FOREVER_US, parse_text(filter_text))
        self.net.give("consumer", Subscribe(subscription))

    def publish(self, *prices: int) -> list[str]:
        ids = []
        for price in prices:
            self.published += 1
            now_us = self.net.now_us()
            event = Event(f"e{self.published}", "t", Context("producer"), now_us, FOREVER_US, {"price": price})
            self.net.give("producer", Publish(event))
            ids.append(event.id)
        return ids

    def got(self, name: str = "s") -> list[str]:
        return self.net.got.get(name, [])


@pytest.fixture(params=[SimNet, LiveNet], ids=["sim", "live"])
def story_of(request: pytest.FixtureRequest) -> Iterator[Callable[..., Story]]:
    stories: list[Story] = []

    def make(**params: object) -> Story:
        stories.append(Story(request.param, BrokerParams(**params)))  # type: ignore[arg-type]
        return stories[-1]

    yield make
    for story in stories:
        story.net.close()


def is_linked(node: Broker, neighbours: int) -> bool:
    return len(node.neighbours.router.neighbours) == neighbours


def knows(node: Broker, wishes: int) -> bool:
    return len(node.neighbours.router.table) == wishes


@pytest.mark.parametrize("routing", STRATEGIES)
def test_r1_r2_a_subscription_gets_what_it_accepts_and_nothing_else(
    story_of: Callable[..., Story], routing: Strategy
) -> None:
    story = story_of(routing=routing)
    story.attach("producer", "B0")
    story.attach("consumer", "B2")
    story.subscribe("price < 3")
    story.wait("B2" if routing == "flooding" else "B0", lambda node: knows(node, 1))
    wanted, _ = story.publish(1, 5), story.publish(7)
    last = story.publish(2)
    assert story.net.until(lambda: story.got()[-1:] == last)
    assert story.got() == [wanted[0], *last]


def test_r1_after_unsubscribing_nothing_is_left_at_any_broker(story_of: Callable[..., Story]) -> None:
    story = story_of()
    story.attach("consumer", "B2")
    story.subscribe("price < 3")
    story.wait("B0", lambda node: knows(node, 1))
    story.net.give("consumer", Unsubscribe("s"))
    for broker in BROKERS:
        story.wait(broker, lambda node: knows(node, 0))


def test_r3_a_client_that_moves_gets_everything_once_and_in_order(story_of: Callable[..., Story]) -> None:
    story = story_of()
    story.attach("producer", "B1")
    story.attach("consumer", "B0")
    story.subscribe("price >= 0")
    story.wait("B2", lambda node: knows(node, 1))
    said = story.publish(*range(5))
    for old, new in (("B0", "B2"), ("B2", "B1"), ("B1", "B0")):
        story.net.unlink("consumer", old)
        said += story.publish(*range(5))
        story.attach("consumer", new)
        said += story.publish(*range(5))
    assert story.net.until(lambda: len(story.got()) >= len(said))
    assert story.got() == said


def test_r3_a_link_between_brokers_that_is_down_for_a_moment_loses_nothing(story_of: Callable[..., Story]) -> None:
    story = story_of()
    story.attach("producer", "B0")
    story.attach("consumer", "B2")
    story.subscribe("price >= 0")
    story.wait("B0", lambda node: knows(node, 1))
    said = story.publish(*range(3))
    story.net.unlink("B1", "B2")
    said += story.publish(*range(10))
    story.net.link("B1", "B2")
    said += story.publish(*range(3))
    assert story.net.until(lambda: len(story.got()) >= len(said))
    assert story.got() == said


def test_r1_a_client_that_publishes_while_it_is_nowhere_loses_nothing(story_of: Callable[..., Story]) -> None:
    story = story_of()
    story.attach("producer", "B0")
    story.attach("consumer", "B2")
    story.subscribe("price >= 0")
    story.wait("B0", lambda node: knows(node, 1))
    story.net.unlink("producer", "B0")
    said = story.publish(*range(4))
    story.attach("producer", "B1")
    assert story.net.until(lambda: len(story.got()) >= len(said))
    assert story.got() == said
