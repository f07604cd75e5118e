"""Who of a broker's own clients gets an event: subscriptions of clients that move, and whom a shared one falls to.

The five conditions of C6 hold for whoever is in the answer, as far as this broker knows the hosts concerned: its own
clients by their last report, carried forward to the millisecond if they told a velocity, and the publisher by what
the event says of it. They hold as things were when the event was published, also where it comes later
(`earlier.py`). Found by the matching engine (`roamcast.matching`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter

from msgspec.structs import replace

from roamcast.broker.mqtt.earlier import Earlier
from roamcast.broker.mqtt.properties import is_common, subscription_id, text_of
from roamcast.broker.mqtt.whereabouts import ContextsAt, Whereabouts
from roamcast.broker.mqtt.wishes import (
    AskedBy,
    Entry,
    Group,
    Plan,
    Recipients,
    Route,
    alike,
    asked_of,
    client_of,
    entry_of,
    is_scoped,
    is_simple,
)
from roamcast.matching import Engine
from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.match import matches
from roamcast.model.places import MovementGraph
from roamcast.model.scope import is_everywhere
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.model.topics import TopicTrie
from roamcast.mqtt.messages import Choice
from roamcast.mqtt.messages import Subscription as Asked

FIRST = itemgetter(0)
PLANS_MAX = 10_000
RECIPIENTS_KEPT_MAX = 500_000
"""Of all topics together for which it is remembered who gets everything."""
UNKNOWN: Plan = []
POSITIONS = "$roam/position/"


class Audience:
    _kept = 0
    """Recipients that are remembered."""
    prepare: Callable[[], None] | None = None
    """Called before the first subscription that asks for more than a topic, so that what it needs is loaded."""
    ready = True
    """False while that is loaded on another thread: until then the definition decides, and no event has to wait."""

    def __init__(self, space: Space, graph: MovementGraph | None = None) -> None:
        """`graph` is what `myloc` walks on."""
        self.space = space
        self.graph = graph
        self.away: dict[str, None] = {}
        """Clients that are not connected: a shared subscription passes them over where others are."""
        self._entries: dict[str, Entry] = {}
        """By the id of the subscription."""
        self._by_slot: dict[int, Entry] = {}
        """The same by what the engine calls it."""
        self._of: dict[str, dict[str, None]] = {}
        """By client, the ids of its subscriptions."""
        self.positions = 0
        """How many of them are on topics of positions."""
        self._scoped = 0
        """How many of them have scopes, so that other hosts than their subscriber matter."""
        self._members: dict[Group, int] = {}
        """How many members a group has here."""
        self._turns: dict[Group, int] = {}
        """How many messages it has had, as long as it has members."""
        self._passing_turns: dict[Group, int] = {}
        """Of QoS 0, which is not logged: it must not change whose turn it is with the others."""
        self._tree: TopicTrie[Entry] = TopicTrie()
        self._plans: dict[str, Plan | None] = {}
        """By topic, what `plain` found; until any subscription changes."""
        self.needs_log: dict[str, bool] = {}
        """By topic, what `Publishing.needs_log` found; until a subscription changes, or who is connected."""
        self._everybody: dict[str, Recipients | None] = {}
        """The same of `_all_of`."""
        self._routes: dict[str, Route | None] = {}
        """The same of `route`."""
        self._expected: dict[str, tuple[Event, int, Sequence[Entry]]] = {}
        """By the id of an event, what was found for it, and when (`expect`)."""
        self._engine = Engine(space, None, graph)
        self._where = Whereabouts(space, self._engine)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def contexts(self) -> dict[str, Context]:
        """Of the clients here, as they reported."""
        return self._where.contexts

    def __reduce__(self) -> tuple[object, ...]:
        """A copy is made of what was told; the engine makes its columns anew."""
        entries = list(self._entries.values())
        return (
            audience_of,
            (self.space, self.graph, self.contexts, entries, self._turns, self.away, self._where.earlier),
        )

    @property
    def asks_more_than_topics(self) -> bool:
        return not all(entry.plain for entry in self._entries.values())

    def warm_up(self) -> None:
        """Loads and compiles what is to be fast. May be called on another thread."""
        self._engine.warm_up()

    # What clients want, and where they are.

    def subscribe(self, client: str, asked: Asked, wanted: Subscription) -> None:
        self._remove(wanted.id)
        # Here it holds from now on, whatever the clock of the broker said where it was issued.
        wanted = replace(wanted, issued_us=0)
        self._of.setdefault(client, {})[wanted.id] = None
        entry = self._entries[wanted.id] = entry_of(client, asked, wanted)
        self._tree.add(asked.filter.pattern, wanted.id, entry)
        self.positions += asked.filter.pattern.startswith(POSITIONS)
        self._forget_plans()
        if entry.group is not None:
            self._members[entry.group] = self._members.get(entry.group, 0) + 1
        self._scoped += is_scoped(wanted)
        prepare = self.prepare
        if not entry.plain and prepare is not None:
            self.prepare = None
            prepare()
        self._by_slot[self._engine.subscribe(wanted)] = entry

    def _forget_plans(self) -> None:
        self._expected = {}
        self.needs_log.clear()
        self._plans.clear()
        self._everybody.clear()
        self._routes.clear()

    def texts_of(self, client: str) -> list[str]:
        """The topic filters of a client's subscriptions here."""
        return [text_of(each) for each in self._of.get(client, ())]

    def asked(self, client: str, text: str) -> Asked | None:
        """What a client asked for with this topic filter."""
        entry = self._entries.get(subscription_id(client, text))
        return None if entry is None else entry.asked

    def remove(self, client: str, text: str) -> None:
        self._remove(subscription_id(client, text))

    def unsubscribe(self, client: str, asked: Asked) -> None:
        self._remove(subscription_id(client, asked.filter.text))

    def _remove(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        if entry is not None:
            mine = self._of[entry.client]
            del mine[name]
            if not mine:
                del self._of[entry.client]
            self._tree.remove(entry.asked.filter.pattern, name)
            self.positions -= entry.asked.filter.pattern.startswith(POSITIONS)
            self._forget_plans()
            self._scoped -= is_scoped(entry.wanted)
            slot = self._engine.slot_of(name)
            assert slot is not None
            del self._by_slot[slot]
            self._engine.unsubscribe(name)
            self._leave(entry.group)

    def _leave(self, group: Group | None) -> None:
        if group is None:
            return
        self._members[group] -= 1
        if not self._members[group]:
            for counts in (self._members, self._turns, self._passing_turns):
                counts.pop(group, None)

    def moved(self, context: Context, remembers: bool = True) -> None:
        """`remembers` says that somebody may ask later where it was before."""
        self._expected = {}
        self._where.moved(context, remembers)

    def connected(self, client: str, is_so: bool) -> None:
        self.needs_log.clear()
        if is_so:
            self.away.pop(client, None)
        else:
            self.away[client] = None

    def forget(self, client: str) -> None:
        """The client, and whatever it wants."""
        for name in list(self._of.get(client, ())):
            self._remove(name)
        self.away.pop(client, None)
        self._expected = {}
        self._where.forget(client)

    def walk_on(self, graph: MovementGraph | None) -> None:
        """Another movement graph for `myloc`."""
        self._expected = {}
        self.graph = graph
        self._engine = Engine(self.space, None, graph)
        self._where.tell(self._engine)
        self._by_slot = {self._engine.subscribe(entry.wanted): entry for entry in self._entries.values()}

    def fitting(self, topic: str) -> Sequence[Entry]:
        """Subscriptions whose topic filter fits, whatever else they ask for."""
        return self._tree.matching(topic)

    # Who gets what.

    def plain(self, topic: str) -> Plan | None:
        """Who gets every message of a topic, whatever it says; None if that depends on the message."""
        plan = self._plans.get(topic, UNKNOWN)
        if plan is UNKNOWN:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            recipients = self._all_of(topic)
            plan = self._plans[topic] = (
                None if recipients is None else alike([(client, asked_of(each)) for client, each in recipients])
            )
        return plan

    def route(self, topic: str) -> Route | None:
        """The same, by how they get one of QoS 1."""
        if topic not in self._routes:
            if len(self._routes) >= PLANS_MAX:
                self._routes.clear()
            recipients = self._all_of(topic)
            self._routes[topic] = None if recipients is None else self._routed(recipients)
        return self._routes[topic]

    def _routed(self, recipients: Recipients) -> Route:
        reliable: Recipients = []
        others: AskedBy = []
        for client, entries in recipients:
            if any(each.asked.qos for each in entries):
                reliable.append((client, entries))
            else:
                others.append((client, asked_of(entries)))
        return Route(reliable, others, alike(others))

    def everybody(self, topic: str) -> Recipients:
        """Clients that get every message of a topic, one by one; nobody if that depends on the message."""
        return self._all_of(topic) or []

    def _all_of(self, topic: str) -> Recipients | None:
        """The same, one by one."""
        if topic not in self._everybody:
            recipients = self._find_all_of(topic)
            self._kept += 1 + len(recipients or ())
            if self._kept > RECIPIENTS_KEPT_MAX or len(self._everybody) >= PLANS_MAX:
                self._everybody.clear()
                self._routes.clear()
                self._plans.clear()
                self._kept = 0
            self._everybody[topic] = recipients
        return self._everybody[topic]

    def _find_all_of(self, topic: str) -> Recipients | None:
        found: dict[str, list[Entry]] = {}
        for entry in self._tree.matching(topic):
            if not entry.plain:
                return None
            found.setdefault(entry.client, []).append(entry)
        return sorted(found.items(), key=FIRST)

    def of(self, event: Event, now_us: int, chosen: Sequence[Choice] = (), passing: bool = False) -> Recipients:
        """Clients, in the order of their names, with those of their subscriptions that want the event; `chosen` says
        which members of groups get it, and `passing` that it is of QoS 0. Who is where is what it was when it was
        published."""
        moment_us = moment_of(event, now_us)
        if is_open(event) and moment_us <= event.expires_us:
            recipients = self._all_of(event.subject)
            if recipients is not None:
                return recipients
        known = self._expected.get(event.id)
        if known is not None and known[0] is event and known[1] == now_us:
            entries = known[2]
        else:
            entries = self._wanting_one(event, event.published_us, moment_us)
        return self._recipients(event, entries, chosen, passing)

    def expect(self, events: Sequence[Event], now_us: int) -> None:
        """Has events that are asked about next (`of`) matched in one call. What was found is forgotten as soon as
        anything changes that decides, and with the next that are expected."""
        self._expected = {}
        asked = [each for each in events if is_open(each) and self._all_of(each.subject) is None]
        if len(asked) < 2 or self._scoped or not self.ready:
            return
        where, entries = self._where, self._by_slot
        slack_m = where.roughly_all([each.published_us for each in asked])
        if slack_m is None:
            return
        found = self._engine.match_each(
            asked,
            [moment_of(each, now_us) for each in asked],
            slack_m,
            lambda place: partial(where.context_if_known, asked[place].published_us),
        ).by_event(len(asked))
        for event, slots in zip(asked, found, strict=True):
            self._expected[event.id] = (event, now_us, [entries[slot] for slot in slots])

    def of_passing(
        self, events: Sequence[Event], now_us: int, chosen: Sequence[Sequence[Choice]]
    ) -> list[Recipients]:
        """The same of many events that were published now, with QoS 0."""
        found = self._wanting(events, now_us, now_us)
        return [
            self._recipients(event, entries, choice, True)
            for event, entries, choice in zip(events, found, chosen, strict=True)
        ]

    def of_lasting(self, events: Sequence[Event], now_us: int) -> list[Recipients]:
        """The same of events that were published before and last: shared subscriptions had their turn then."""
        found = self._wanting(events, now_us, now_us)
        return [
            self._recipients(event, [each for each in entries if each.asked.filter.group is None], (), False)
            for event, entries in zip(events, found, strict=True)
        ]

    def _recipients(
        self, event: Event, entries: Sequence[Entry], chosen: Sequence[Choice], passing: bool
    ) -> Recipients:
        found: dict[str, list[Entry]] = {}
        shared: dict[Group, list[Entry]] = {}
        for entry in entries:
            client = entry.client
            if entry.observed is None:
                if entry.asked.no_local and client == event.publisher.host:
                    continue
                if entry.group is not None:
                    shared.setdefault(entry.group, []).append(entry)
                    continue
            if client in found:
                found[client].append(entry)
            else:
                found[client] = [entry]
        if shared:
            self._choose(shared, chosen, passing, found)
        return sorted(found.items(), key=FIRST)

    def _choose(
        self,
        shared: dict[Group, list[Entry]],
        chosen: Sequence[Choice],
        passing: bool,
        found: dict[str, list[Entry]],
    ) -> None:
        """Which member of each group gets it."""
        choices = {(each.group, each.pattern): each.client for each in chosen}
        for key, members in shared.items():
            if key in choices:
                # Where its client is not here, another broker gives it to it.
                turn = [each for each in members if each.client == choices[key] and is_common(each.asked)]
            else:
                turn = [self._turn(key, sorted(members, key=client_of), passing)]
            for each in turn:
                found.setdefault(each.client, []).append(each)

    def _wanting(self, events: Sequence[Event], by_us: int, moment_us: int) -> Sequence[Sequence[Entry]]:
        """By where everybody was at one time, asked of another."""
        engine, entries = self._engine, self._by_slot
        if not entries:
            return [()] * len(events)
        if not self.ready:
            return [self._wanting_by_definition(event, by_us, moment_us) for event in events]
        where = self._where
        slack_m = None if self._scoped or not all(map(is_open, events)) else where.roughly(by_us)
        if slack_m is None:
            return self._wanting_exactly(events, by_us, moment_us)

        found = engine.match(events, moment_us, slack_m, partial(where.context_if_known, by_us))
        return [[entries[slot] for slot in slots] for slots in found.by_event(len(events))]

    def _wanting_one(self, event: Event, by_us: int, moment_us: int) -> Sequence[Entry]:
        entries, where = self._by_slot, self._where
        if not self.ready or self._scoped or not entries or not is_open(event):
            return self._wanting((event,), by_us, moment_us)[0]
        slack_m = where.roughly(by_us)
        if slack_m is None:
            return self._wanting((event,), by_us, moment_us)[0]
        # Where nobody may be elsewhere, nobody is asked where it is.
        context_of = partial(where.context_if_known, by_us)
        return [entries[slot] for slot in self._engine.match_one(event, moment_us, slack_m, context_of)]

    def _wanting_exactly(self, events: Sequence[Event], by_us: int, moment_us: int) -> Sequence[Sequence[Entry]]:
        """Where other hosts than subscribers matter, or somebody was far from where it is now."""
        engine, entries = self._engine, self._by_slot
        self._where.exactly(by_us)
        guests = [event.publisher.host for event in events if self._guest(event, by_us)]
        found = [[entries[slot] for slot in slots] for slots in engine.match(events, moment_us).by_event(len(events))]
        for guest in guests:
            engine.forget(guest)
        return found

    def _wanting_by_definition(self, event: Event, by_us: int, moment_us: int) -> Sequence[Entry]:
        known = self._configuration_at(event, by_us)
        return [each for each in self.fitting(event.subject) if matches(event, each.wanted, known, moment_us)]

    def _configuration_at(self, event: Event, by_us: int) -> Configuration:
        guest = event.publisher.at(by_us, self.space) if self._is_guest(event) else None
        return Configuration(self.space, ContextsAt(self._where, by_us, guest), None, self.graph)

    def _is_guest(self, event: Event) -> bool:
        """A publisher that is elsewhere counts as a host where anybody asks for hosts."""
        return event.publisher.host not in self.contexts and (self._scoped > 0 or not is_open(event))

    def _guest(self, event: Event, now_us: int) -> bool:
        if self._is_guest(event):
            self._engine.place(event.publisher.at(now_us, self.space))
            return True
        return False

    def wants(self, event: Event, wanted: Subscription, now_us: int) -> bool:
        """Of one subscription, by the definition."""
        moment_us = moment_of(event, now_us)
        if not self.ready:
            return matches(event, wanted, self._configuration_at(event, now_us), moment_us)
        self._where.exactly(now_us)
        guest = self._guest(event, now_us)
        wants = matches(event, wanted, self._engine.configuration, moment_us)
        if guest:
            self._engine.forget(event.publisher.host)
        return wants

    def wants_retained(self, event: Event, wanted: Subscription, now_us: int) -> bool:
        """As if it were published now."""
        if is_simple(wanted) and is_open(event):
            return True
        return self.wants(replace(event, published_us=now_us, expires_us=now_us), wanted, now_us)

    def _turn(self, key: Group, members: list[Entry], passing: bool) -> Entry:
        members = [each for each in members if each.client not in self.away] or members
        turns = self._passing_turns if passing else self._turns
        turn = turns.get(key, 0)
        turns[key] = turn + 1
        return members[turn % len(members)]


def audience_of(
    space: Space,
    graph: MovementGraph | None,
    contexts: dict[str, Context],
    entries: list[Entry],
    turns: dict[Group, int],
    away: dict[str, None],
    earlier: Earlier | None = None,
) -> Audience:
    audience = Audience(space, graph)
    for context in contexts.values():
        audience.moved(context)
    for entry in entries:
        audience.subscribe(entry.client, entry.asked, entry.wanted)
    audience._turns = turns
    audience.away = away
    audience._where.earlier = earlier or Earlier()
    return audience


def is_open(event: Event) -> bool:
    return is_everywhere(event.relevance) and is_everywhere(event.audience)


def moment_of(event: Event, now_us: int) -> int:
    """When to ask whether it is valid: an instantaneous event holds when it is published, and no event comes before
    it was, however the clocks of two brokers differ."""
    return event.published_us if event.instantaneous else max(now_us, event.published_us)
