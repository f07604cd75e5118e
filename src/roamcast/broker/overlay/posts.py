"""Posts: where a consumer's modulator works on what producers send (O1, O4).

A post takes each event once and those of one producer in their order, whichever brokers they came from: an event says
which one of its producer was sent to the post before it (`after`), and waits until that has come. What the modulator
makes is numbered, so that the home broker can put it in order although the post may move. All of this is the post's
state and moves with it.
"""

from functools import partial

from roamcast.broker.modulators.guarded import Guarded
from roamcast.broker.modulators.interface import BadModulator
from roamcast.broker.modulators.make import make_modulator
from roamcast.broker.modulators.spec import spec_from_text
from roamcast.broker.overlay.gauge import UNMEASURED, Gauge
from roamcast.broker.overlay.messages import Address, Modulated, PostState
from roamcast.broker.overlay.params import OverlayParams
from roamcast.model.event import Event
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Note


class Post:
    def __init__(
        self,
        subscription: Subscription,
        made: int,
        home: str,
        space: Space,
        params: OverlayParams,
        born: int = 0,
        gauge: Gauge = UNMEASURED,
    ) -> None:
        """Raises `BadModulator` for a modulator that this broker does not take."""
        self.subscription = subscription
        self.made = made
        self.home = home
        self.bounds = params.clients
        self.gauge = gauge
        self.born = born
        """Of the session that it works for: an earlier session of the client may have a post of the same name."""
        self.modulator: Guarded | None = None
        if subscription.modulator:
            self.modulator = make_modulator(spec_from_text(subscription.modulator), space, params.modulators)
        self.next_number = 1
        self.marks: dict[str, int] = {}
        """By producer, the serial of its last event that was taken; the one heard of longest ago comes first."""
        self.held: dict[str, list[tuple[Event, int, Address]]] = {}
        """By producer, what waits for an earlier one."""
        self.held_us = 0
        """Since when something waits."""
        self.missed = 0
        """How many events did not get here because of a bound, and the home broker was not told yet."""
        self.load = 0.0
        """The share of a broker's time that its modulator took in the last period in which that was measured."""

    def take(self, now_us: int, event: Event, serial: int, address: Address) -> list[Modulated]:
        """Whatever this event makes possible."""
        producer = event.publisher.host
        if serial <= self.marks.get(producer, 0):
            return []
        waiting = self.held.setdefault(producer, [])
        if all(each[1] != serial for each in waiting):
            waiting.append((event, serial, address))
            waiting.sort(key=lambda each: each[1])
        self.held_us = self.held_us or now_us
        return self._go_on(now_us, producer, patient=len(waiting) <= self.bounds.counterpart_events_max)

    def lose_patience(self, now_us: int, held_us_max: int) -> list[Modulated]:
        """What has waited too long waits no more: the one before it was lost with a broker."""
        if not self.held or now_us - self.held_us < held_us_max:
            return []
        made: list[Modulated] = []
        for producer in list(self.held):
            made += self._go_on(now_us, producer, patient=False)
        return made

    def _go_on(self, now_us: int, producer: str, patient: bool) -> list[Modulated]:
        made: list[Modulated] = []
        waiting = self.held[producer]
        while waiting:
            event, serial, address = waiting[0]
            if serial > self.marks.get(producer, 0):
                if patient and address.after > self.marks.get(producer, 0):
                    break
                self._mark(producer, serial)
                self.missed += address.missed
                made += self._modulate(now_us, event, serial)
            waiting.pop(0)
        if not waiting:
            del self.held[producer]
        if not self.held:
            self.held_us = 0
        return made

    def _mark(self, producer: str, serial: int) -> None:
        self.marks.pop(producer, None)
        self.marks[producer] = serial
        if len(self.marks) > self.bounds.marks_max:
            del self.marks[next(iter(self.marks))]

    def _modulate(self, now_us: int, event: Event, serial: int) -> list[Modulated]:
        modulator = self.modulator
        work = partial(list, (event,)) if modulator is None else partial(modulator.take, event, now_us)
        events = self.gauge.modulate(self.subscription.id, work)
        made = []
        for each in events:
            made.append(
                Modulated(
                    self.subscription.subscriber,
                    self.subscription.id,
                    self.made,
                    self.next_number,
                    each,
                    serial,
                    self.missed,
                )
            )
            self.next_number += 1
            self.missed = 0
        return made

    @property
    def is_stateless(self) -> bool:
        return self.modulator is None or self.modulator.is_stateless

    def troubles(self) -> list[Note]:
        """What has gone wrong in the modulator since this was last asked."""
        if self.modulator is None:
            return []
        name = self.subscription.id
        notes = [Note("modulator_failed", f"{name}: {reason}") for reason in self.modulator.news()]
        return [*notes, Note("modulator_off", name)] if self.modulator.switched_off() else notes

    def state(self) -> PostState:
        return PostState(
            self.subscription,
            self.made,
            self.home,
            b"" if self.modulator is None else self.modulator.state(),
            self.next_number,
            tuple(self.marks.items()),
            tuple(each for waiting in self.held.values() for each in waiting),
            self.missed,
            self.load,
            self.born,
        )


def post_from(
    state: PostState, home: str, now_us: int, space: Space, params: OverlayParams, gauge: Gauge = UNMEASURED
) -> Post:
    """Raises `BadModulator` as `Post` does."""
    post = Post(state.subscription, state.made, home, space, params, state.born, gauge)
    if post.modulator is not None:
        post.modulator.load(state.state)
    post.next_number = state.next_number
    post.marks = dict(state.marks)
    for event, serial, address in state.held:
        post.held.setdefault(event.publisher.host, []).append((event, serial, address))
        post.held_us = now_us
    post.missed = state.missed
    post.load = state.load
    return post


def refused_by(subscription: Subscription, space: Space, params: OverlayParams) -> str | None:
    """Why this broker does not take the subscription's modulator; None: it does."""
    try:
        Post(subscription, 0, "", space, params)
    except BadModulator as problem:
        return str(problem)
    return None
