"""Order for subscriptions on the producer's own host (S14)."""

from random import Random

from roamcast.adhoc.proximity.node import PERIOD_TIMER, Proximity
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.context import Context
from roamcast.model.event import Announcement, ContentType, Delivery, Event, EventType
from roamcast.model.filter import parse_text
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point, Value
from roamcast.node.boundary import (
    Announce,
    Deliver,
    Input,
    Moved,
    Publish,
    Start,
    Subscribe,
    TimerFired,
    Unannounce,
    Unsubscribe,
)
from tests.adhoc.lone import FOREVER_US, ORDERED, ORIGIN, SECOND_US

AROUND = Anchored(Circle(ORIGIN, 100.0), "p")


class Shop:
    """A producer `p` of sales, whose own subscriptions want what its budget allows."""

    def __init__(self, delivery: Delivery = ORDERED, open_: bool = False) -> None:
        self.node = Proximity(ProximityParams(), Random(1))
        self.now_us = 0
        self.budget = 5
        self.got: list[tuple[str, str]] = []
        self.count = 0
        self.audience = Scope() if open_ else Scope(AROUND)
        self.give(Start(self.me()))
        sale = EventType("sale", {"price": ContentType.INTEGER}, delivery)
        self.announcement = Announcement("p:a", sale, "p", None if open_ else AROUND, ORIGIN)
        self.give(Announce(self.announcement))

    def me(self, position: Point | None = ORIGIN) -> Context:
        return Context("p", position, self.now_us, attributes={"budget": self.budget})

    def give(self, given: Input) -> None:
        effects = self.node.handle(self.now_us, given)
        self.got += [(each.subscription_id, each.event.id) for each in effects if isinstance(each, Deliver)]
        self.now_us += SECOND_US

    def subscribe(self, name: str) -> None:
        wanted = parse_text("price <= me.budget")
        self.give(Subscribe(Subscription(name, "p", "sale", self.now_us, FOREVER_US, wanted)))

    def sell(self, price: int) -> None:
        self.count += 1
        ends_us = self.now_us + 60 * SECOND_US
        content: dict[str, Value] = {"price": price}
        event = Event(f"e{self.count}", "sale", self.me(), self.now_us, ends_us, content, audience=self.audience)
        self.give(Publish(event))

    def earn(self, budget: int) -> None:
        self.budget = budget
        self.give(Moved(self.me()))

    def period(self) -> None:
        self.give(TimerFired(PERIOD_TIMER))

    def of(self, name: str) -> list[str]:
        return [event for subscription, event in self.got if subscription == name]


def test_s14_an_own_event_that_matches_later_is_not_delivered_after_its_successor() -> None:
    shop = Shop()
    shop.subscribe("s")
    shop.sell(10)
    shop.sell(1)
    shop.earn(20)
    shop.period()
    assert shop.of("s") == ["e2"]


def test_s14_without_order_an_own_event_that_matches_later_is_delivered_then() -> None:
    shop = Shop(Delivery())
    shop.subscribe("s")
    shop.sell(10)
    shop.sell(1)
    shop.earn(20)
    shop.period()
    assert shop.of("s") == ["e2", "e1"]


def test_s14_an_own_event_that_matches_by_now_goes_before_the_next_one() -> None:
    """No period has passed between the change and the next event."""
    shop = Shop()
    shop.subscribe("s")
    shop.sell(10)
    shop.earn(20)
    shop.sell(1)
    shop.period()
    assert shop.of("s") == ["e1", "e2"]


def test_s14_a_later_own_subscription_gets_what_lasts_in_order_whatever_others_got() -> None:
    shop = Shop()
    shop.subscribe("first")
    shop.sell(10)
    shop.sell(1)
    shop.earn(20)
    shop.subscribe("second")
    shop.sell(2)
    assert shop.of("first") == ["e2", "e3"]
    assert shop.of("second") == ["e1", "e2", "e3"]


def test_s14_own_subscriptions_made_without_a_position_get_what_lasts_in_order() -> None:
    shop = Shop()
    shop.sell(1)
    shop.give(Moved(shop.me(None)))
    shop.subscribe("s")
    assert shop.of("s") == []
    shop.give(Moved(shop.me()))
    shop.sell(1)
    assert shop.of("s") == ["e1", "e2"]


def test_s14_order_holds_for_own_events_into_consumers_regions_too() -> None:
    shop = Shop(open_=True)
    here = Scope(Circle(ORIGIN, 50.0))
    for name in ("near", "nearer"):
        shop.give(Subscribe(Subscription(name, "p", "sale", shop.now_us, FOREVER_US, publishers=here)))
    shop.subscribe("s")
    shop.sell(10)
    shop.sell(1)
    shop.earn(20)
    shop.period()
    assert shop.of("s") == ["e2"]
    assert shop.of("near") == shop.of("nearer") == ["e1", "e2"]


def test_s14_nothing_is_kept_of_own_subscriptions_and_announcements_that_ended() -> None:
    shop = Shop()
    shop.subscribe("s")
    shop.sell(1)
    assert shop.node.producing.reached == {"p:a": {"s": 1}}
    shop.give(Unsubscribe("s"))
    assert shop.node.producing.reached == {"p:a": {}}
    shop.give(Unannounce("p:a"))
    assert shop.node.producing.reached == {}
