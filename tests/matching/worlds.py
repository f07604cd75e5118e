"""Random hosts, subscriptions and events for the matching engine, and the model's answer to hold it against."""

from functools import cache

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from roamcast.matching import Engine
from roamcast.matching.layout import NONE
from roamcast.matching.pool import narrowest_m
from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.filter.tree import EVERYTHING, And, Attribute, Compare, Filter, Inside, Literal, Near
from roamcast.model.match import matches
from roamcast.model.region import Anchored, Region
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, BadValue, Point, Value
from tests.filter.strategies import attributes, contexts, filters, positions, predicates, radii_m, shapes

HOSTS = ("p", "q", "r", "s")
SUBJECTS = ("a", "a/b", "a/b/c", "$a/b")
PATTERNS = (*SUBJECTS, "+", "#", "a/#", "a/+", "+/b", "a/b/#", "$a/#", "+/+/c")
NOW_US = 10


class World:
    """An engine, and beside it what it was told, for the model."""

    def __init__(self, space: Space, neighbour_range_m: float | None = 2.0) -> None:
        self.engine = Engine(space, neighbour_range_m)
        self.space = space
        self.neighbour_range_m = neighbour_range_m
        self.contexts: dict[str, Context] = {}
        self.subscriptions: dict[str, Subscription] = {}

    def subscribe(self, subscription: Subscription) -> None:
        self.subscriptions[subscription.id] = subscription
        self.engine.subscribe(subscription)

    def unsubscribe(self, subscription_id: str) -> None:
        known = self.subscriptions.pop(subscription_id, None) is not None
        assert self.engine.unsubscribe(subscription_id) is known

    def place(self, context: Context) -> None:
        self.contexts[context.host] = context
        self.engine.place(context)

    def forget(self, host: str) -> None:
        known = self.contexts.pop(host, None) is not None
        assert self.engine.forget(host) is known

    def expected(self, events: list[Event], now_us: int) -> list[list[str]]:
        configuration = Configuration(self.space, self.contexts, self.neighbour_range_m)
        return [
            sorted(each.id for each in self.subscriptions.values() if matches(event, each, configuration, now_us))
            for event in events
        ]

    def found(self, events: list[Event], now_us: int) -> list[list[str]]:
        slots = self.engine.match(events, now_us).by_event(len(events))
        return [sorted(map(self.engine.id_of, each)) for each in slots]

    def check(self, events: list[Event], now_us: int = NOW_US) -> None:
        assert self.found(events, now_us) == self.expected(events, now_us)

    def check_grids(self) -> None:
        """Every subscription that has a place in a grid is there, once, and what is counted is so."""
        pool, slots = self.engine._pool, self.engine._slots.rows
        entered: list[int] = []
        for key, number in pool.numbers.items():
            group, places = pool.groups[number], pool._living(number)
            mine = pool.entries["slot"][places]
            assert pool._keys[number] == key
            assert len(places) == group["live"] > 0
            assert np.count_nonzero(pool.entries["radius"][places] <= narrowest_m(key[2])) <= group["guests"]
            assert (slots["group"][mine] == number).all()
            assert (slots["entry"][mine] == places).all()
            entered += mine.tolist()
        chained: list[int] = []
        for number in map(int, pool.channel_groups):
            while number != NONE:
                assert number not in chained
                chained.append(number)
                number = int(pool.groups["after"][number])
        assert sorted(chained) == sorted(pool._keys)
        assert not set(pool._free) & set(pool._keys)
        there = np.flatnonzero((slots["used"] != 0) & (slots["entry"] != NONE))
        assert sorted(entered) == there.tolist()

    def check_loosely(self, events: list[Event], slack_m: float) -> None:
        """The same where hosts may be so far from where the engine was told that they are."""
        found = self.engine.match(events, NOW_US, slack_m, self.contexts.__getitem__).by_event(len(events))
        assert [sorted(map(self.engine.id_of, each)) for each in found] == self.expected(events, NOW_US)


@cache
def regions(space: Space) -> st.SearchStrategy[Region]:
    def anchored(drawn: tuple[object, str, Point]) -> Region:
        try:
            return Anchored(*drawn)  # type: ignore[arg-type]
        except BadValue:
            assume(False)
            raise

    around_host = st.tuples(shapes(Plane()), st.sampled_from(HOSTS), st.just(Point(0.0, 0.0)) | positions(Plane()))
    return shapes(space) | around_host.map(anchored)


@cache
def scopes(space: Space) -> st.SearchStrategy[Scope]:
    limited = st.builds(Scope, st.none() | regions(space), st.none() | filters(space, max_leaves=2))
    return st.just(EVERYWHERE) | limited


@cache
def telling_filters(space: Space) -> st.SearchStrategy[Filter]:
    """Conjunctions of what columns decide, now and then with something that they do not."""
    near = st.builds(Near, st.just(Attribute("position")), radii_m(space))
    inside = st.builds(Inside, st.just(Attribute("position")), shapes(space), st.booleans())
    values: st.SearchStrategy[Value] = st.sampled_from((-1, 0, 1, 2.5, 2**53, "p", "q", True))
    compare = st.builds(
        Compare,
        st.sampled_from(("=", "<>", "<", "<=", ">", ">=")),
        st.sampled_from(("a", "b", "name")).map(Attribute),
        values.map(Literal),
    )
    parts = st.lists(st.one_of(near, near, inside, compare, predicates(space, max_leaves=2)), min_size=1, max_size=3)
    return parts.map(lambda each: Filter(And(tuple(each))))


@cache
def subscriptions(space: Space) -> st.SearchStrategy[Subscription]:
    return st.builds(
        Subscription,
        id=st.sampled_from([f"s{number}" for number in range(12)]),
        subscriber=st.sampled_from(HOSTS),
        subject=st.sampled_from(PATTERNS),
        issued_us=st.sampled_from((0, 5, NOW_US, 11)),
        expires_us=st.sampled_from((11, 20, 100, FOREVER_US)),
        filter=st.one_of(st.just(EVERYTHING), telling_filters(space), telling_filters(space), filters(space)),
        interest=scopes(space),
        publishers=st.just(EVERYWHERE) | scopes(space),
    )


@cache
def events(space: Space) -> st.SearchStrategy[Event]:
    return st.builds(
        Event,
        id=st.just("e"),
        subject=st.sampled_from(SUBJECTS),
        publisher=contexts(space),
        published_us=st.sampled_from((0, NOW_US)),
        expires_us=st.sampled_from((NOW_US, 15, 200)),
        attributes=attributes(space=space),
        relevance=scopes(space),
        audience=scopes(space),
    )


SPACES: tuple[Space, ...] = (Plane(), Earth())
