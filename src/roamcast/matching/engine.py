"""The engine: one event, or all events of a tick, against very many subscriptions with moving subscribers.

It gives exactly the answers of `model.match.matches`, for the configuration of the hosts that were `place`d last.
Subscriptions come, go and are replaced one at a time; hosts move one at a time or many at once. There is no clock in
it: what holds at a time is asked with that time.

A subscription is taken apart when it comes (`demands.py`). What columns can decide (subject, one circle, ranges of
values, lifetimes) is decided by a kernel for all events of a call together (`pool.py`, `kernel.py`); what is left is
asked of the few that remain, with the model's own functions (`finding.py`, `judge.py`). The engine keeps no
`Subscription`: a slot number stands for it until it is removed, and `id_of` gives its id.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

from roamcast.matching.batch import Batches
from roamcast.matching.clauses import Clauses
from roamcast.matching.columns import Columns
from roamcast.matching.demands import AUDIENCE, RELEVANCE, WHERE_THE_SUBSCRIBER_IS, Locator, demand_of
from roamcast.matching.finding import Finder, Matches
from roamcast.matching.hosts import Hosts, KnownConfiguration
from roamcast.matching.judge import NOTHING_MORE, ContextOf, Profile
from roamcast.matching.layout import NONE, Doubles, Whole
from roamcast.matching.metric import check_space, is_flat, loosened, reach_of, straight
from roamcast.matching.names import Names
from roamcast.matching.pool import TAIL_MIN, UNCELLED, Pool, fits_cells, radius_class
from roamcast.matching.registry import Registry
from roamcast.matching.slots import Slots
from roamcast.matching.table import FEW, Table
from roamcast.matching.topics import Topics
from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.places import MovementGraph
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import BadValue, Point

LOCATORS_MAX = 16
"""The most places of events that groups are found by; further ones are left to the model's closures."""
NOWHERE = (float("inf"), float("inf"), 0.0)
NO_POINT = Point(float("nan"), float("nan"))


class Engine:
    def __init__(
        self,
        space: Space,
        neighbour_range_m: float | None = 0.0,
        graph: MovementGraph | None = None,
    ) -> None:
        check_space(space)
        self.space = space
        self._flat = is_flat(space)
        self._hosts = Hosts()
        self._configuration = KnownConfiguration(space, self._hosts, neighbour_range_m, graph)
        self._topics = Topics()
        self._ids = Names()
        self._slots = Slots()
        self._clauses = Clauses()
        self._pool = Pool(self._flat)
        self._profiles: Registry[Profile] = Registry()
        self._profiles.take(NOTHING_MORE)
        self._locators: Registry[Locator] = Registry(LOCATORS_MAX)
        self._locators.take(AUDIENCE)
        self._locators.take(RELEVANCE)
        self._table = Table(self._flat, self._pool, self._slots, self._clauses, self._hosts)
        self._finder = Finder(
            self._configuration, self._pool, self._slots, self._locators, self._profiles, self._table
        )
        self._batches = Batches(self._topics, self._locators, self._clauses, self._configuration)
        self._columns = Columns(space, self._topics, self._locators, self._clauses)

    # What it knows.

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def configuration(self) -> Configuration:
        """The hosts as they are now; it changes with them."""
        return self._configuration

    def slot_of(self, subscription_id: str) -> int | None:
        slot = self._ids.find(subscription_id)
        return None if slot < 0 else slot

    def id_of(self, slot: int) -> str:
        """The id of the subscription that a slot stands for."""
        return self._ids.name(self._checked(slot))

    def host_number(self, host: str) -> int:
        """What `move` calls a host; it holds while the host is known."""
        number = self._hosts.names.find(host)
        if number < 0:
            raise BadValue(f"no host is called '{host}'; place it first")
        return number

    def warm_up(self) -> None:
        """Has the kernel compiled, or read from its cache, so that no event has to wait for it."""
        other = Engine(self.space)
        host = Context("host", Point(0.0, 0.0))
        other.place(host)
        for number in range(TAIL_MIN + 1):
            other.subscribe(Subscription(f"{number}", "host", "subject", 0, 0))
        other.move([other.host_number("host")], [1.0], [1.0])
        other.match([Event("event", "subject", host, 0, 0)], 0)

    # Subscriptions.

    def subscribe(self, subscription: Subscription) -> int:
        """Adds a subscription, in place of the one of this id if there is one; which slot stands for it."""
        check_time(subscription.issued_us)
        check_time(subscription.expires_us)
        self.unsubscribe(subscription.id)
        demand = demand_of(subscription, self.space)
        place, rest = demand.place, demand.rest
        locator, clause = self._locators.take(place.locator), self._clauses.take(demand.clauses)
        if locator is None or clause is None:
            if locator is not None:
                self._locators.drop(locator)
            self._clauses.drop(NONE if clause is None else clause)
            place, rest, clause = WHERE_THE_SUBSCRIBER_IS, subscription.filter, NONE
            locator = self._locators.take(AUDIENCE)
        profile = self._profiles.take(Profile(rest, subscription.interest, subscription.publishers))
        host = self._hosts.number(subscription.subscriber)
        channel = self._topics.take(subscription.subject)
        self._pool.make_known(channel)
        slot = self._ids.add(subscription.id)
        first = int(self._hosts.rows["first"][host])
        moving = place.centre is None and not demand.never
        self._slots.write(
            slot, subscription.issued_us, (subscription.expires_us, place.radius_m, clause, profile, NONE, NONE,
            channel, locator, moving, True, host, first, NONE, 0),
        )  # fmt: skip
        if first != NONE:
            self._slots.rows["before"][first] = slot
        self._hosts.rows["first"][host] = slot
        if place.centre is not None:
            self._enter(slot, straight(place.centre, self.space), place.reach_m)
        elif not demand.never:
            self._follow(slot)
        return slot

    def unsubscribe(self, subscription_id: str) -> bool:
        """Whether there was one."""
        slot = self._ids.find(subscription_id)
        if slot < 0:
            return False
        row = self._slots.rows[slot]
        if row["entry"] != NONE:
            self._pool.remove(self._slots.rows, slot)
        before, after, host = int(row["before"]), int(row["after"]), int(row["host"])
        if before == NONE:
            self._hosts.rows["first"][host] = after
        else:
            self._slots.rows["after"][before] = after
        if after != NONE:
            self._slots.rows["before"][after] = before
        self._clauses.drop(int(row["clause"]))
        self._profiles.drop(int(row["profile"]))
        self._locators.drop(int(row["locator"]))
        self._topics.drop(int(row["channel"]))
        self._slots.rows["used"][slot] = False
        self._ids.remove(slot)
        self._hosts.tidy(host)
        return True

    def expire(self, now_us: int) -> list[str]:
        """Removes the subscriptions that have expired by then; their ids."""
        check_time(now_us)
        gone = np.flatnonzero((self._slots.rows["used"] != 0) & (self._slots.rows["expires_us"] < now_us))
        ids = [self._ids.name(int(slot)) for slot in gone]
        for each in ids:
            self.unsubscribe(each)
        return ids

    # Hosts.

    def place(self, context: Context) -> int:
        """The host's context is this one from now on; by which number `move` knows it."""
        return self.place_all((context,))[0]

    def place_all(self, contexts: Sequence[Context]) -> list[int]:
        """The same of many hosts, in one move."""
        if len(contexts) > FEW:
            parts = (contexts[start : start + FEW] for start in range(0, len(contexts), FEW))
            return [number for part in parts for number in self.place_all(part)]
        hosts, (few, x, y), numbers = self._hosts, self._table.few, list[int]()
        for place, context in enumerate(contexts):
            number, point = hosts.names.find(context.host), context.position or NO_POINT
            if number == NONE:
                return [self._put(each) for each in contexts]
            hosts.enrich(number, context)
            numbers.append(number)
            few[place], x[place], y[place] = number, point.x, point.y
        first, count = 0, len(contexts)
        while first < count:
            first, full = self._table.move_few(first, count)
            if full != NONE:
                self._pool.sort(self._slots.rows, full)
            elif first < count:
                self._put(contexts[first])
                first += 1
        return numbers

    def _put(self, context: Context) -> int:
        """Places one that is new, or was or will be out of the cells."""
        number = self._hosts.put(context)
        self._follow_all(number)
        return number

    def forget(self, host: str) -> bool:
        """The host is not there any more; its subscriptions stay. Whether it was there."""
        number = self._hosts.names.find(host)
        if number < 0 or not self._hosts.is_present(number):
            return False
        self._hosts.remove(number)
        self._follow_all(number)
        self._hosts.tidy(number)
        return True

    def move(self, numbers: ArrayLike, x: ArrayLike, y: ArrayLike) -> None:
        """Many hosts that have a position get another one; nothing else of their contexts changes."""
        hosts = np.array(numbers, np.int32, ndmin=1)
        new_x, new_y = np.array(x, np.float64, ndmin=1), np.array(y, np.float64, ndmin=1)
        if not (hosts.ndim == 1 and hosts.shape == new_x.shape == new_y.shape):
            raise BadValue("give as many coordinates as hosts")
        if not (np.isfinite(new_x).all() and np.isfinite(new_y).all()):
            raise BadValue("both coordinates of a position must be finite numbers")
        if not self._hosts.all_placed(hosts):
            raise BadValue("only hosts that have a position can be moved; place them first")
        self._move(hosts, new_x, new_y, lambda index: self._put(self._moved(hosts, new_x, new_y, index)))

    def _moved(self, hosts: Whole, x: Doubles, y: Doubles, index: int) -> Context:
        return replace(self._hosts.context(int(hosts[index])), position=Point(float(x[index]), float(y[index])))

    # Matching.

    def match(
        self,
        events: Sequence[Event],
        now_us: int,
        slack_m: float = 0.0,
        context_of: Callable[[str], Context | None] | None = None,
    ) -> Matches:
        """Which subscriptions each of the events is to be delivered to at this time.

        Where subscribers may have moved by `slack_m` since they were placed, `context_of` says where one is: those
        are asked whom that concerns. It holds where no scope asks for other hosts than the subscriber.
        """
        return self.match_each(
            events, [now_us] * len(events), slack_m, None if context_of is None else lambda _: context_of
        )

    def match_each(
        self,
        events: Sequence[Event],
        moments_us: Sequence[int],
        slack_m: float = 0.0,
        contexts_of: Callable[[int], Callable[[str], Context | None]] | None = None,
    ) -> Matches:
        """The same of events about which each is asked at a time of its own: `contexts_of` an event, by its place,
        says where one is then."""
        from_us, to_us = min(moments_us, default=0), max(moments_us, default=0)
        check_time(from_us)
        check_time(to_us)
        batch = self._batches.of(events, moments_us)
        known: Callable[[int], ContextOf] | None = None
        if contexts_of is not None:
            name, contexts = self._hosts.names.name, contexts_of

            def known(event: int) -> ContextOf:
                context_of = contexts(event)
                return lambda host: context_of(name(host))

        return self._finder.matches(batch, events.__getitem__, from_us, to_us, slack_m, known)

    def match_one(
        self,
        event: Event,
        now_us: int,
        slack_m: float = 0.0,
        context_of: Callable[[str], Context | None] | None = None,
    ) -> list[int]:
        """The same of one event: the slots."""
        check_time(now_us)
        known: ContextOf | None = None
        if context_of is not None:
            name, context = self._hosts.names.name, context_of

            def known(host: int) -> Context | None:
                return context(name(host))

        found = self._finder.slots_of_one(self._batches.of_one(event, now_us), event, now_us, slack_m, known)
        return self.match((event,), now_us, slack_m, context_of).slots if found is None else found

    def match_columns(
        self,
        subjects: Sequence[str],
        x: ArrayLike,
        y: ArrayLike,
        numbers: Mapping[str, ArrayLike],
        event_of: Callable[[int], Event],
        now_us: int,
        position: str = "position",
    ) -> Matches:
        """As `match`, for events with open scopes that are valid now and were read into columns already.

        Their attributes are a position and numbers, of which NaN is a missing one. Only where a subscription asks
        more than columns can decide is the event itself made, with `event_of`.
        """
        check_time(now_us)
        batch = self._columns.batch(subjects, x, y, numbers, position, now_us)
        return self._finder.matches(batch, event_of, now_us, now_us)

    # Entries.

    def _slots_of(self, host: int) -> Iterator[int]:
        slot = int(self._hosts.rows["first"][host])
        while slot != NONE:
            after = int(self._slots.rows["after"][slot])
            yield slot
            slot = after

    def _follow_all(self, host: int) -> None:
        for slot in self._slots_of(host):
            if self._slots.rows["moving"][slot]:
                if self._slots.rows["entry"][slot] != NONE:
                    self._pool.remove(self._slots.rows, slot)
                self._follow(slot)

    def _follow(self, slot: int) -> None:
        """Enters what moves with its subscriber where that is; nowhere, only who asks for no place is found."""
        row = self._slots.rows[slot]
        position = self._hosts.position(int(row["host"]))
        locator = self._locators.keys[row["locator"]]
        if position is None:
            if locator == AUDIENCE:
                self._enter(slot, NOWHERE, 0.0)
            return
        reach_m = reach_of(float(row["radius_m"]), self.space)
        self._enter(slot, straight(position, self.space), loosened(reach_m) if locator == RELEVANCE else reach_m)

    def _enter(self, slot: int, at: tuple[float, float, float], reach_m: float) -> None:
        row = self._slots.rows[slot]
        size = radius_class(reach_m) if fits_cells(at[0], at[1]) else UNCELLED
        self._pool.insert(self._slots.rows, slot, (int(row["channel"]), int(row["locator"]), size), at, reach_m)

    def _move(self, hosts: Whole, x: Doubles, y: Doubles, put: Callable[[int], object]) -> None:
        """Changes entries where they lie; `put` places a host, by its index, for which that does not do."""
        first = 0
        while first < len(hosts):
            first, full = self._table.move(first, hosts, x, y)
            if full != NONE:
                self._pool.sort(self._slots.rows, full)
            elif first < len(hosts):
                put(first)
                first += 1

    def _checked(self, slot: int) -> int:
        if not self._ids.is_used(slot):
            raise BadValue(f"no subscription has the slot {slot}")
        return slot


def check_time(us: int) -> None:
    if not -(2**62) <= us <= 2**62:
        raise BadValue(f"{us} µs is beyond the time that the engine counts")
