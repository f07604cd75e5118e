"""The consumer's side of streams: what arrived, what is missing, what waits for its turn.

`Inbox` joins recovery (S11) and order (S14) for every stream this node listens to, and decides what an arrival
releases. It knows nothing of places and filters; `node.py` does.
"""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from roamcast.adhoc.proximity.messages import Missed, Raised
from roamcast.adhoc.proximity.ordering import Arrival, Order
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.adhoc.proximity.recovery import Reception
from roamcast.model.space import Space
from roamcast.model.subject import subject_matches
from roamcast.model.values import Point
from roamcast.node.boundary import Broadcast, Does, Note, SetTimer

RECOVER_TIMER = "recover "
ORDER_TIMER = "order "


class Inbox:
    def __init__(self, params: ProximityParams, rng: Random) -> None:
        self.params = params
        self.rng = rng
        self.receptions: dict[str, Reception] = {}
        self.orders: dict[str, Order] = {}
        self.by_proximity: dict[str, dict[str, None]] = {}
        """The streams of each proximity."""
        self._asks = 0

    def open(self, stream: str, proximity_id: str, subject: str, latest: int) -> tuple[Reception, list[Does]]:
        """The reception of a stream; a new one is owed what comes after number `latest`, and may take the place of
        the one that was opened first."""
        known = self.receptions.get(stream)
        if known is not None:
            return known, []
        effects: list[Does] = []
        if len(self.receptions) >= self.params.streams_max:
            oldest = next(iter(self.receptions))
            effects = [Note("stream_dropped", oldest), *self.close(oldest)]
        reception = Reception(proximity_id, latest, self.params.cached_events_max, subject)
        self.receptions[stream] = reception
        self.by_proximity.setdefault(proximity_id, {})[stream] = None
        return reception, effects

    def close(self, stream: str) -> list[Does]:
        """Forgets a stream; what waited in it for its turn is lost, and noted."""
        reception = self.receptions.pop(stream, None)
        order = self.orders.pop(stream, None)
        if reception is None:
            return []
        streams = self.by_proximity[reception.proximity_id]
        del streams[stream]
        if not streams:
            del self.by_proximity[reception.proximity_id]
        held = [] if order is None else [order.held[number] for number in sorted(order.held)]
        return [Note("held_event_dropped", each.event.id) for each in held if each is not None]

    def close_proximity(self, proximity_id: str) -> list[Does]:
        streams = list(self.by_proximity.get(proximity_id, {}))
        return [effect for stream in streams for effect in self.close(stream)]

    def unsubscribed(self, subscription_id: str, wants: Callable[[str], bool]) -> list[Does]:
        """Closes the streams of subjects that nobody here wants any more."""
        effects: list[Does] = []
        for stream, reception in list(self.receptions.items()):
            if not wants(reception.subject):
                effects += self.close(stream)
        for order in self.orders.values():
            order.reached.pop(subscription_id, None)
        return effects

    # What a beacon or a subscription says is owed.

    def told(self, now_us: int, stream: str, latest: int, lasting: tuple[int, ...], changed: bool) -> list[Does]:
        reception = self.receptions[stream]
        reception.told(latest, lasting, changed)
        order = self.orders.get(stream)
        if order is not None:
            self._owe(order, reception, max(order.reached.values(), default=0))
        return self.expect(now_us, stream, reception)

    def again(self, now_us: int, subject: str) -> list[Does]:
        """What lasts in streams of a subject, or of subjects that fit a pattern, is owed to a new subscription."""
        effects: list[Does] = []
        for stream, reception in list(self.receptions.items()):
            if not subject_matches(subject, reception.subject):
                continue
            reception.again()
            if stream in self.orders:
                self._owe(self.orders[stream], reception, 0)
            effects += self.expect(now_us, stream, reception)
        return effects

    def _owe(self, order: Order, reception: Reception, after: int) -> None:
        """What lasts and is missing has its turn again, unless every subscription is past it."""
        if reception.lasting:
            missing = dict.fromkeys(reception.missing())
            order.owe(each for each in reception.lasting if each > after and each in missing)

    # Arrivals.

    def arrive(self, now_us: int, message: Raised, arrival: Arrival | None) -> tuple[list[Arrival], list[Does]]:
        """What can be delivered now; no arrival means that the event came but was not for this place."""
        known = self.receptions.get(message.stream)
        if known is not None:
            return self._arrive(now_us, message, arrival, known)
        reception, effects = self.open(
            message.stream, message.proximity_id, message.event.subject, message.sequence - 1
        )
        released, more = self._arrive(now_us, message, arrival, reception)
        return released, effects + more

    def _arrive(
        self, now_us: int, message: Raised, arrival: Arrival | None, reception: Reception
    ) -> tuple[list[Arrival], list[Does]]:
        event, sequence = message.event, message.sequence
        in_order = message.delivery.order != "none"
        late = message.replay and sequence <= reception.latest
        if not late and not reception.believes(sequence, sequence - 1):
            # Where order was promised it waits for confirmation, and is asked for then like all that is missing.
            doubt: list[Does] = [Note("sequence_doubted", event.id)]
            return ([arrival] if arrival is not None and not in_order else []), doubt
        if message.replay and event.instantaneous and not reception.is_owed(sequence):
            return [], []
        # Something that lasts and came too early for this place may be asked for when it is the right one.
        comes_again = arrival is None and not event.instantaneous
        if not comes_again and not reception.take(sequence):
            return [], []
        reception.source = event.publisher.position
        whole = reception.solid == reception.latest and not reception.lasting
        effects = [] if whole else self.expect(now_us, message.stream, reception)
        if not in_order or comes_again:
            return ([arrival] if arrival is not None else []), effects
        return self._in_order(now_us, message, arrival, reception, effects)

    def _in_order(
        self, now_us: int, message: Raised, arrival: Arrival | None, reception: Reception, effects: list[Does]
    ) -> tuple[list[Arrival], list[Does]]:
        stream, sequence = message.stream, message.sequence
        order = self.orders.get(stream)
        # An order that is ahead of its stream followed numbers that turned out to be none.
        if order is None or order.following > reception.latest + 1:
            order = self.orders[stream] = Order(reception.floor + 1, self.params.held_events_max)
            order.owe((*reception.missing(), sequence))
        if order.owed or sequence != order.following:
            order.expect_only((*reception.missing(), sequence))
        if arrival is not None:
            arrival = replace(arrival, sequence=sequence, reached=order.reached)
        released = order.take(now_us, sequence, arrival)
        if released is None:
            return [], [*effects, Note("late_for_order", message.event.id)] if arrival is not None else effects
        return released, effects + self._await_order(stream, order)

    def order_due(self, now_us: int, stream: str) -> tuple[list[Arrival], list[Does]]:
        order = self.orders.get(stream)
        if order is None or order.since_us is None:
            return [], []
        if now_us < order.since_us + self.params.order_wait_us:
            return [], self._await_order(stream, order)
        released = order.give_up(now_us)
        return released, [Note("order_gap_given_up", stream), *self._await_order(stream, order)]

    def _await_order(self, stream: str, order: Order) -> list[Does]:
        if order.since_us is None:
            return []
        return [SetTimer(ORDER_TIMER + stream, order.since_us + self.params.order_wait_us)]

    # Asking for what is missing.

    def expect(self, now_us: int, stream: str, reception: Reception) -> list[Does]:
        """Gives what is missing some time to come by itself, and asks for it then."""
        if reception.waiting or self.params.recovery_asks_max == 0 or not reception.missing():
            return []
        reception.waiting = True
        return self._be_patient(now_us, stream)

    def _be_patient(self, now_us: int, stream: str) -> list[Does]:
        patience_us = round(self.params.recovery_patience_us * (1 + self.rng.random()))
        return [SetTimer(RECOVER_TIMER + stream, now_us + patience_us)]

    def put_off(self, now_us: int, timer: str) -> list[Does]:
        """A timer came when nothing can be asked for or delivered: it comes again if its stream is still there."""
        if timer.startswith(RECOVER_TIMER):
            stream = timer.removeprefix(RECOVER_TIMER)
            return self._be_patient(now_us, stream) if stream in self.receptions else []
        order = self.orders.get(timer.removeprefix(ORDER_TIMER))
        if order is None or order.since_us is None:
            return []
        return [SetTimer(timer, now_us + max(1, self.params.order_wait_us))]

    def overhear(self, now_us: int, message: Missed) -> list[Does]:
        """Somebody asks for all that is missing here: the answer will do for both."""
        reception = self.receptions.get(message.stream)
        if reception is None or not reception.waiting or reception.yielded:
            return []
        if not set(reception.missing()) <= set(message.sequences):
            return []
        reception.waiting, reception.yielded = False, True
        return self.expect(now_us, message.stream, reception)

    def ask(
        self,
        now_us: int,
        stream: str,
        asker: str,
        position: Point,
        producer: Point | None,
        group: int,
        forward: bool,
        space: Space,
    ) -> list[Does]:
        """Asks for what is missing, toward where the producer is thought to be; the last time everywhere inside, for
        the way may begin with a detour."""
        reception = self.receptions.get(stream)
        if reception is None:
            return []
        reception.waiting = reception.yielded = False
        wanted, given_up, is_last = reception.ask(self.params.recovery_asks_max)
        effects: list[Does] = [Note("recovery_given_up", stream)] * given_up
        if wanted:
            self._asks += 1
            toward = None if is_last else producer
            left_m = space.distance_m(position, toward) if toward is not None else 0.0
            missed = Missed(
                asker, self._asks, reception.proximity_id, stream, wanted, position, forward, toward, left_m
            )
            effects.append(Broadcast(missed, group))
        return effects + self.expect(now_us, stream, reception)
