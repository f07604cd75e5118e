"""Geocast (C8): a message travels greedily towards a region, then floods it; every host decides for itself.

Any message with a `route` can travel. A frame says where its sender is. A host that hears a message for the first
time is in one of three positions:

- inside the region: it repeats the message after a random delay;
- nearer to the region than the sender: it repeats it after a delay that is the shorter the more progress it makes;
- anywhere else: it lets it go; with `bridges` on, it repeats what it hears from inside if it knows a neighbour in the
  region that is out of reach of all who repeated it so far, since not every region hangs together by itself.

For each message under way a host is WAITING (to send), SENT (and listening for progress) or HELD (in a void):

| state   | what happens                                             | then                                      |
|---------|----------------------------------------------------------|-------------------------------------------|
| WAITING | a nearer host is overheard, or the region is covered     | forgotten: suppressed                     |
| WAITING | the delay is over                                        | SENT on the way there, forgotten inside   |
| SENT    | a nearer host is overheard                               | forgotten: it made progress               |
| SENT    | nothing is overheard for `retry_ms`, `retries_max` times | HELD if nobody nearer is known, else lost |
| HELD    | a neighbour turns up that is nearer                      | SENT, as a new attempt                    |
| HELD    | `held_s` are over                                        | forgotten                                 |

Void recovery (C13) is what HELD does. First the message walks around the void (`faces.py`) until it comes to somebody
nearer to the region than the void, who goes on greedily. Then it is carried until somebody nearer comes by.
Each recovery is a new attempt, which hosts that let the message go before consider again.

A region need not hang together by itself. If a message `seeks` all of it, hosts inside let it walk outside as well
(`walks.py` says when, and what is guaranteed then).

Guarantee: no host sends one attempt of a message more often than 1 + `retries_max` times, and the memory for ids, for
messages under way and for held ones is bounded. `age_us` adds up the time a message waited at its hosts, so receivers
need no common clock.
"""

from collections.abc import Iterable
from random import Random

from msgspec.structs import replace

from roamcast.adhoc.geocast_params import GeocastParams
from roamcast.adhoc.journeys import Journeys
from roamcast.adhoc.nearness import distance_to_m, farthest_m, sender_distance_of
from roamcast.adhoc.neighbours import Here, Neighbour, NeighbourTable
from roamcast.adhoc.routes import Route, Routed, UnderWay, Walk
from roamcast.adhoc.walks import Walks
from roamcast.model.region import Shape
from roamcast.model.space import Space
from roamcast.model.values import Point
from roamcast.node.boundary import Broadcast, Does, Note, SetTimer
from roamcast.node.recent import Recent

NOTHING_NEW: tuple[bool, list[Does]] = (False, [])
"""What most copies come to; nobody adds to the list."""
HOP_US = 500
"""What a hop takes beside its waiting: airtime and access to the channel, about."""


class Geocast:
    __slots__ = (
        "host",
        "journeys",
        "neighbours",
        "params",
        "refuses",
        "rng",
        "seen",
        "sender_m",
        "space",
        "timer_prefix",
        "under_way",
        "walks",
    )

    def __init__(
        self,
        host: str,
        params: GeocastParams,
        rng: Random,
        space: Space,
        neighbours: NeighbourTable,
        refuses: bool = False,
        timer_prefix: str = "geocast:",
    ) -> None:
        self.host = host
        self.params = params
        self.rng = rng
        self.space = space
        self.sender_m = sender_distance_of(space).of
        self.neighbours = neighbours
        self.refuses = refuses
        self.timer_prefix = timer_prefix
        self.seen = Recent(params.seen_ids_max)
        self.journeys = Journeys(params.under_way_max, timer_prefix)
        self.under_way = self.journeys.by_key
        self.walks = Walks(host, params, rng, space, neighbours, self.journeys, self.seen)

    @property
    def held(self) -> int:
        """How many messages wait in a void."""
        return self.journeys.held

    # Sending.

    def send(self, now_us: int, message: Routed, contended: bool = False) -> list[Does]:
        """Sets a message of this host on its way; its route has this host's `here`.

        `contended`: others are about to send the same message, so wait for a moment and listen. What was heard or
        sent already is not sent again.
        """
        route = message.route
        if not self.seen.add(route.id):
            return []
        distance_m = distance_to_m(route.target, route.here.position, self.space)
        entry = UnderWay(route.id, message, "flood" if distance_m == 0 else "greedy", distance_m, now_us)
        if distance_m == 0:
            self.walks.seek(now_us, entry, route.here.position)
        if not contended:
            return self._transmit(now_us, entry, route.here)
        delay_ms = self.rng.uniform(0, self.params.flood_delay_ms)
        return self.journeys.wait(now_us, entry, delay_ms)

    def heard(self, now_us: int, message: Routed, position: Point | None) -> tuple[bool, list[Does]]:
        """A copy arrived; answers whether it is the first one of this message, and what to do about it.

        A host that does not know its position lets the copy go.
        """
        route = message.route
        if route.attempt or route.walk is not None:
            return self._heard_recovering(now_us, message, position)
        entry = self.under_way.get(route.id)
        if entry is not None:
            return False, self.heard_again(now_us, entry, route)
        if not self.seen.add(route.id):
            return NOTHING_NEW
        if position is None or self.refuses:
            return True, []
        return True, self._consider(now_us, message, position)

    def _heard_recovering(self, now_us: int, message: Routed, position: Point | None) -> tuple[bool, list[Does]]:
        """A copy that walks, or that goes on from a void: hosts that know the message consider it once more."""
        route, walk = message.route, message.route.walk
        if (
            walk is not None
            and (taken := self.walks.heard(now_us, message, walk, position, self.refuses)) is not None
        ):
            return taken
        fresh, effects = self._heard_attempt(now_us, message, position)
        return fresh, effects + self.walks.overheard(route) if route.attempt else effects

    def _heard_attempt(self, now_us: int, message: Routed, position: Point | None) -> tuple[bool, list[Does]]:
        route = message.route
        entry = self.under_way.get(route.id)
        if entry is not None and entry.message.route.attempt >= route.attempt:
            return False, self.heard_again(now_us, entry, route)
        if not route.attempt and route.id in self.seen:
            return NOTHING_NEW
        fresh = self.seen.add(route.id)
        if route.attempt and not self.seen.add(f"{route.id}#{route.attempt}"):
            return fresh, []
        effects = [] if entry is None else self.journeys.forget(entry)
        if position is None or self.refuses:
            return fresh, effects
        return fresh, effects + self._consider(now_us, message, position)

    def _consider(self, now_us: int, message: Routed, position: Point) -> list[Does]:
        route, params = message.route, self.params
        if route.hops >= params.hops_max:
            return [Note("geocast_hops_exceeded", route.id)]
        distance_m = distance_to_m(route.target, position, self.space)
        if distance_m == 0:
            entry = UnderWay(route.id, message, "flood", 0.0, now_us)
            self._overhear(entry, route)
            self.walks.seek(now_us, entry, position)
            return self.journeys.wait(now_us, entry, self.rng.uniform(0, params.flood_delay_ms))
        before_m = route.escape_m
        if before_m is None:
            before_m = self.sender_m(route.target, route.here.position)
        if distance_m < before_m:
            progress = min(1.0, (before_m - distance_m) / params.range_m)
            delay_ms = params.greedy_delay_ms * (1 - progress) + self.rng.uniform(0, params.jitter_ms)
            return self.journeys.wait(now_us, UnderWay(route.id, message, "greedy", distance_m, now_us), delay_ms)
        if params.bridges:
            entry = UnderWay(route.id, message, "bridge", distance_m, now_us)
            self._overhear(entry, route)
            if self._bridges(now_us, entry):
                return self.journeys.wait(now_us, entry, self.rng.uniform(0, params.flood_delay_ms))
        return []

    # Listening.

    def heard_again(self, now_us: int, entry: UnderWay, route: Route) -> list[Does]:
        """Another copy of what is under way here."""
        if entry.way == "greedy":
            target = entry.message.route.target
            if self.sender_m(target, route.here.position) >= entry.distance_m:
                return []
            self._overhear(entry, route)
            if entry.state == "waiting" and self.params.bridges and self._bridges(now_us, entry):
                entry.way = "bridge"
                return []
            return self.journeys.forget(entry)
        if entry.state == "sent":
            return self.journeys.forget(entry)
        self._overhear(entry, route)
        if entry.way == "bridge":
            return [] if self._bridges(now_us, entry) else self.journeys.forget(entry)
        return self.journeys.forget(entry) if self._covered(now_us, entry) else []

    def _bridges(self, now_us: int, entry: UnderWay) -> bool:
        """Whether a host outside the region is needed to spread a message that has arrived there."""
        return entry.copies > 0 and self._someone_missed(now_us, entry)

    def _overhear(self, entry: UnderWay, route: Route) -> None:
        """Inside, only copies from inside count: the last hop outside listens for the first one."""
        position = route.here.position
        if self.sender_m(entry.message.route.target, position) == 0:
            entry.copies += 1
            entry.forwarders.append(position)

    def _covered(self, now_us: int, entry: UnderWay) -> bool:
        """Whether it would be of no use to repeat a message: all who need it have heard others repeat it."""
        if entry.walk is not None:
            return False
        return entry.copies >= self.params.suppress_copies and not self._someone_missed(now_us, entry)

    def _someone_missed(self, now_us: int, entry: UnderWay) -> bool:
        """Whether a neighbour that needs the message is out of reach of all who were heard to repeat it."""
        reach_m = self.params.coverage * self.params.range_m
        target = entry.message.route.target
        for neighbour in self.neighbours.current(now_us):
            position = neighbour.here.position
            if distance_to_m(target, position, self.space) > 0:
                continue
            if not any(self.space.within(each, position, reach_m) for each in entry.forwarders):
                return True
        return False

    # Timers.

    def fired(self, now_us: int, name: str, here: Here | None) -> list[Does]:
        """The timer of one message: `name` as it was set, with the prefix. A host that does not know any more where
        it is cannot send it, and gives it up."""
        entry = self.under_way.get(name.removeprefix(self.timer_prefix))
        if entry is None:
            return []
        if here is None:
            return [*self.journeys.forget(entry), Note("geocast_dropped", entry.message.route.id)]
        if entry.state == "waiting":
            return self._transmit(now_us, entry, here)
        if entry.state == "held":
            return [*self.journeys.forget(entry), Note("geocast_held_too_long", entry.message.route.id)]
        if entry.tries <= self.params.retries_max:
            return self._transmit(now_us, entry, here)
        return self._stuck(now_us, entry, here) if entry.way == "greedy" else self.journeys.forget(entry)

    def _transmit(self, now_us: int, entry: UnderWay, here: Here) -> list[Does]:
        message, route = entry.message, entry.message.route
        on_the_way = entry.way == "greedy"
        changed = replace(
            route,
            here=here,
            hops=route.hops + 1,
            age_us=route.age_us + now_us - entry.heard_us + HOP_US,
            escape_m=None if on_the_way or entry.way == "flood" else route.escape_m,
            walk=entry.walk,
        )
        broadcast = Broadcast(replace(message, route=changed))
        alone = entry.way == "flood" and route.hops == 0 and self._has_listeners(now_us, route.target)
        # Outside a region a walk may end in silence, so silence does not say that it was lost.
        past_void = entry.way == "walk" and entry.walk is not None and entry.walk.start is not None
        if not on_the_way and not alone and not past_void:
            self.under_way.pop(entry.key, None)
            return [broadcast]
        entry.state = "sent"
        entry.tries += 1
        dropped = self.journeys.keep(entry)
        return [
            *dropped,
            broadcast,
            SetTimer(self.timer_prefix + entry.key, now_us + round(self.params.retry_ms * 1_000)),
        ]

    def _has_listeners(self, now_us: int, target: Shape) -> bool:
        """Whether somebody is known to be in the region who would repeat what this host says."""
        return any(
            distance_to_m(target, each.here.position, self.space) == 0 for each in self.neighbours.current(now_us)
        )

    # Voids.

    def _stuck(self, now_us: int, entry: UnderWay, here: Here) -> list[Does]:
        """No progress was overheard. Where the whole region is in range nobody is there; where somebody nearer is
        known the frames were lost; else this is a void."""
        route, params = entry.message.route, self.params
        if farthest_m(route.target, here.position, self.space) <= params.range_m:
            return self.journeys.forget(entry)
        if self._knows_nearer(now_us, route.target, here.position):
            return [*self.journeys.forget(entry), Note("geocast_lost", route.id)]
        effects: list[Does] = [Note("geocast_void", route.id)]
        if params.walks and entry.carries == 0:
            walk = self.walks.around_void(now_us, entry, here.position)
            effects += [] if walk is None else self._try_again(now_us, entry, here, walk)
        if entry.carries >= params.carries_max or self.held >= params.held_max:
            return effects + self.journeys.forget(entry)
        self.journeys.hold(entry)
        until_us = entry.heard_us + round(params.held_s * 1e6)
        return [*effects, SetTimer(self.timer_prefix + route.id, until_us)]

    def _try_again(self, now_us: int, entry: UnderWay, here: Here, walk: Walk | None = None) -> list[Does]:
        """Sends a new attempt, which hosts that know the message consider anew."""
        message, route = entry.message, entry.message.route
        entry.distance_m = distance_to_m(route.target, here.position, self.space)
        entry.carries += 1
        attempt = replace(route, attempt=route.attempt + 1)
        self.seen.add(f"{route.id}#{attempt.attempt}")
        entry.message = replace(message, route=attempt)
        changed = replace(
            attempt,
            here=here,
            hops=route.hops + 1,
            age_us=route.age_us + now_us - entry.heard_us + HOP_US,
            escape_m=entry.distance_m,
            walk=walk,
        )
        return [Broadcast(replace(message, route=changed))]

    def _knows_nearer(self, now_us: int, target: Shape, position: Point) -> bool:
        mine_m = distance_to_m(target, position, self.space)
        return any(
            distance_to_m(target, each.here.position, self.space) < mine_m
            for each in self._fresh_neighbours(now_us, position)
        )

    def _fresh_neighbours(self, now_us: int, position: Point) -> Iterable[Neighbour]:
        """Those that are surely in range still: at the edge of it a neighbour may have gone since it was heard."""
        return (
            each
            for each in self.neighbours.current(now_us)
            if self.space.within(position, each.here.position, self.params.coverage * self.params.range_m)
        )

    def carry(self, now_us: int, here: Here) -> list[Does]:
        """To be called from time to time: what is held goes on as soon as somebody nearer is around."""
        effects: list[Does] = []
        for entry in self.journeys.those_held():
            route = entry.message.route
            if not self._knows_nearer(now_us, route.target, here.position):
                continue
            self.journeys.release(entry)
            entry.tries = self.params.retries_max + 1
            effects += self._try_again(now_us, entry, here)
            effects.append(SetTimer(self.timer_prefix + route.id, now_us + round(self.params.retry_ms * 1_000)))
        return effects
