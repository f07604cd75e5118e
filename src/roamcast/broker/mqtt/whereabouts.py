"""Where a broker's clients are: by their last report, carried forward to the millisecond if they told a velocity.

The matching engine is told of reports when somebody asks, all of them in one call. Those that move are carried
forward there, and those who have reported since are put back, when it must be exact for everybody. Else it is enough
to look a little further (`roughly`) and to ask of those at the edge where they are (`context_at`), which takes less.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from roamcast.broker.mqtt.drift import SLACK_MIN_M, Drift
from roamcast.broker.mqtt.earlier import Earlier
from roamcast.matching import Engine
from roamcast.model.context import Context
from roamcast.model.space import Space

CARRY_EVERY_US = 1_000
SLACK_MAX_M = 10.0
"""How far clients may be from where the engine has them because they move."""
JUMP_MAX_M = 50.0
JUMPS_MAX = 64
"""The same of those who were elsewhere when an event was published that comes late, and how many they may be."""


class Whereabouts:
    def __init__(self, space: Space, engine: Engine) -> None:
        self.space = space
        self.contexts: dict[str, Context] = {}
        self.earlier = Earlier()
        self._unplaced: dict[str, Context] = {}
        """Reports that the engine has not been told yet."""
        self._put_back: dict[str, Context] = {}
        """By client, the earlier report by which the engine has it."""
        self.tell(engine)

    def tell(self, engine: Engine) -> None:
        """Another engine, which knows nobody."""
        self._engine, self._drift, self._carried_us = engine, Drift(self.space), 0
        self._unplaced, self._put_back = dict(self.contexts), {}

    def moved(self, context: Context, remembers: bool) -> None:
        if remembers:
            before = self.contexts.get(context.host)
            if before is not None and before is not context:
                self.earlier.replaced(before, context)
        self.contexts[context.host] = context
        if context.at_us < self._carried_us:
            # It comes from another broker: who asked in this millisecond already must not leave it where it was then.
            self._carried_us = 0
        self._unplaced[context.host] = context

    def forget(self, client: str) -> None:
        self.contexts.pop(client, None)
        self.earlier.forget(client)
        self._unplaced.pop(client, None)
        self._put_back.pop(client, None)
        self._drift.remove(client)
        self._engine.forget(client)

    def _place(self) -> None:
        if self._unplaced:
            contexts, self._unplaced = [*self._unplaced.values()], {}
            for context, number in zip(contexts, self._engine.place_all(contexts), strict=True):
                self._drift.put(context, number)
                self._put_back.pop(context.host, None)

    def exactly(self, moment_us: int) -> None:
        """Has everybody where it is at the beginning of a millisecond: that must not depend on who asked before.

        Who has reported since is where it was then; whose reports of then are forgotten is where the oldest that is
        known says, since nobody knows how it came there. They stay there until somebody asks for another moment:
        events that come together were often published together."""
        self._place()
        earlier, known = {each.host: each for each in self.earlier.at(moment_us)}, self._put_back
        if known:
            self._come_back([host for host in known if host not in earlier])
        begun_us = begin_of(moment_us)
        if len(self._drift) and begun_us != self._carried_us:
            self._carry(begun_us)
            known = {}
        if earlier:
            changed = [each for host, each in earlier.items() if known.get(host) is not each or moves(each)]
            self._engine.place_all([each.at(max(moment_us, each.at_us), self.space) for each in changed])
        self._put_back = earlier

    def roughly(self, moment_us: int) -> float | None:
        """The same to within some metres, which are told; None if they are too many to be of use."""
        self._place()
        if self._put_back:
            self._come_back([*self._put_back])
            self._put_back = {}
        jump_m = self._jump_m(moment_us)
        if jump_m > JUMP_MAX_M:
            return None
        begun_us = begin_of(moment_us)
        slack_m = self._drift.slack_m(self._carried_us, begun_us)
        if slack_m > SLACK_MAX_M:
            self._carry(begun_us)
            slack_m = 0.0
        return slack_m + jump_m

    def roughly_all(self, moments_us: Sequence[int]) -> float | None:
        """The same for several moments."""
        first_m = self.roughly(moments_us[0])
        if first_m is None:
            return None
        since_us = self._carried_us
        others = [self._drift.slack_m(since_us, begin_of(each)) + self._jump_m(each) for each in {*moments_us}]
        slack_m = max(first_m, *others)
        return slack_m if slack_m <= SLACK_MAX_M + JUMP_MAX_M else None

    def _jump_m(self, moment_us: int) -> float:
        """How far those who have reported since a moment are from where they were then, at most."""
        if not self.earlier.knows_after(moment_us):
            return 0.0
        return self.earlier.farthest_m(moment_us, JUMPS_MAX, partial(self._between_m, moment_us))

    def _between_m(self, moment_us: int, earlier: Context) -> float:
        here = self.contexts[earlier.host].position
        there = earlier.position_at(max(moment_us, earlier.at_us), self.space)
        if here is None or there is None:
            return math.inf
        return self.space.distance_m(here, there) + SLACK_MIN_M

    def context_at(self, client: str, moment_us: int) -> Context:
        """Exactly where one client is."""
        earlier = self.earlier.of(client, moment_us)
        if earlier is not None:
            return earlier.at(max(moment_us, earlier.at_us), self.space)
        context = self.contexts[client]
        return context.at(max(begin_of(moment_us), context.at_us), self.space)

    def context_if_known(self, moment_us: int, client: str) -> Context | None:
        return self.context_at(client, moment_us) if client in self.contexts else None

    def _carry(self, begun_us: int) -> None:
        self._carried_us = begun_us
        self._engine.move(*self._drift.positions(begun_us))

    def _come_back(self, hosts: Sequence[str]) -> None:
        if hosts:
            self._engine.place_all([self.contexts[host] for host in hosts])
            self._carried_us = 0


class ContextsAt(Mapping[str, Context]):
    """All clients as they were at a moment, and perhaps a guest: each is made when it is asked for."""

    def __init__(self, where: Whereabouts, now_us: int, guest: Context | None) -> None:
        self._where = where
        self._now_us = now_us
        self._guest = guest

    def __getitem__(self, host: str) -> Context:
        if self._guest is not None and host == self._guest.host:
            return self._guest
        return self._where.context_at(host, self._now_us)

    def __contains__(self, host: object) -> bool:
        return host in self._where.contexts or (self._guest is not None and host == self._guest.host)

    def __iter__(self) -> Iterator[str]:
        yield from self._where.contexts
        if self._guest is not None:
            yield self._guest.host

    def __len__(self) -> int:
        return len(self._where.contexts) + (self._guest is not None)


def moves(context: Context) -> bool:
    return context.velocity is not None or bool(context.pause_left_us)


def begin_of(now_us: int) -> int:
    return now_us - now_us % CARRY_EVERY_US
