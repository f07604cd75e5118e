"""Whatever the routing strategy, clients get exactly what flooding gives them (R2)."""

from random import Random

import pytest

from roamcast.broker import routing
from roamcast.broker.params import BrokerParams
from roamcast.broker.routing import AskWidest, Change, Strategy
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Value
from roamcast.node.boundary import Publish
from roamcast.papers.chaos import FILTERS, Trial, TrialParams
from tests.effort import seeds

PATTERNS = ("x", "x/y", "x/+", "x/#", "+/y", "#")
SUBJECTS = ("x", "x/y", "x/z", "z/y")
STRATEGIES: tuple[Strategy, ...] = ("simple", "identity", "covering", "merging")


class Standing(Trial):
    """Clients stay where they are; subscriptions come and go, and events are published when brokers agree on them."""

    def __init__(self, seed: int, strategy: Strategy) -> None:
        params = BrokerParams(routing=strategy, merged_wishes_max=3)
        super().__init__(seed, params, TrialParams(brokers=6, clients=5))
        self.choices = Random(f"standing/{seed}")

    def live(self) -> None:
        self.pass_s(0.1)
        for client in self.clients:
            self.move(client, self.choices.choice(self.brokers))
        for _ in range(8):
            for _ in range(4):
                self.change_one()
            self.pass_s(2)
            for _ in range(6):
                self.publish_one()
            self.pass_s(2)

    def change_one(self) -> None:
        client = self.choices.choice(self.clients)
        mine = self._of(client)
        if len(mine) > 1 and self.choices.random() < 0.5:
            self._unsubscribe(self.choices.choice(mine))
            return
        name, now_us = f"{client}/s{len(self.subscriptions)}", self.world.kernel.now_us
        pattern, wanted = self.choices.choice(PATTERNS), parse_text(self.choices.choice(FILTERS))
        self._subscribe(Subscription(name, client, pattern, now_us, FOREVER_US, wanted))

    def publish_one(self) -> None:
        client, now_us = self.choices.choice(self.clients), self.world.kernel.now_us
        content: dict[str, Value] = {"price": self.choices.randint(0, 9), "kind": self.choices.choice("ab")}
        publisher = Context(client, at_us=now_us)
        event = Event(
            f"{client}:{len(self.published)}",
            self.choices.choice(SUBJECTS),
            publisher,
            now_us,
            FOREVER_US,
            content,
        )
        self.published.append(event)
        self.world.give(client, Publish(event))


def deliveries(seed: int, strategy: Strategy) -> dict[tuple[str, str], list[str]]:
    """By subscription and publisher, what arrived, in the order in which it did."""
    trial = Standing(seed, strategy)
    trial.live()
    found: dict[tuple[str, str], list[str]] = {}
    for subscription, events in sorted(trial.ledger.got.items()):
        for event in events:
            found.setdefault((subscription, event.split(":")[0]), []).append(event)
    return found


@seeds(20)
def test_r2_every_strategy_delivers_exactly_what_flooding_delivers(seed: int) -> None:
    flooded = deliveries(seed, "flooding")
    assert flooded
    for strategy in STRATEGIES:
        assert deliveries(seed, strategy) == flooded, strategy


class Forgetting(AskWidest):
    """What was hidden behind a wish that goes stays hidden."""

    def remove(self, source: str, wish_id: str) -> Change:
        return Change(withdraw=super().remove(source, wish_id).withdraw)


def test_the_comparison_fails_when_unsubscribing_does_not_uncover_what_was_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routing, "AskWidest", Forgetting)
    assert any(deliveries(seed, "covering") != deliveries(seed, "flooding") for seed in range(6))
