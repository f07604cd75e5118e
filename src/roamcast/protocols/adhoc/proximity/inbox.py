"""The consumer's side of streams: what arrived, what is missing, what waits for its turn.

`Inbox` joins recovery (S11) and order (S14) for every stream this node listens to, and decides what an arrival
releases. It knows nothing of places and filters; `node.py` does.
"""

from random import Random

from roamcast.model.values import Point
from roamcast.node.boundary import Broadcast, Does, Note, SetTimer
from roamcast.protocols.adhoc.proximity.messages import Missed, Raised
from roamcast.protocols.adhoc.proximity.ordering import Arrival, Order
from roamcast.protocols.adhoc.proximity.params import ProximityParams
from roamcast.protocols.adhoc.proximity.recovery import Reception

RECOVER_TIMER = "recover "
ORDER_TIMER = "order "


class Inbox:
    def __init__(self, params: ProximityParams, rng: Random) -> None:
        self.params = params
        self.rng = rng
        self.receptions: dict[str, Reception] = {}
        self.orders: dict[str, Order] = {}
        self._asks = 0

    def open(self, stream: str, proximity_id: str, latest: int) -> Reception:
        """The reception of a stream; a new one is owed what comes after number `latest`."""
        known = self.receptions.get(stream)
        if known is not None:
            return known
        if len(self.receptions) >= self.params.streams_max:
            self.close(next(iter(self.receptions)))
        reception = Reception(proximity_id, latest, self.params.cached_events_max)
        self.receptions[stream] = reception
        return reception

    def close(self, stream: str) -> None:
        self.receptions.pop(stream, None)
        self.orders.pop(stream, None)

    def close_proximity(self, proximity_id: str) -> None:
        for stream in [key for key, each in self.receptions.items() if each.proximity_id == proximity_id]:
            self.close(stream)

    # Arrivals.

    def arrive(self, now_us: int, message: Raised, arrival: Arrival | None) -> tuple[list[Arrival], list[Does]]:
        """What can be delivered now; no arrival means that the event came but was not for this place."""
        sequence, stream = message.sequence, message.stream
        reception = self.open(stream, message.proximity_id, sequence - 1)
        if message.replay and message.event.instantaneous and not reception.is_owed(sequence):
            return [], []
        # Something that lasts and came too early for this place may be asked for when it is the right one.
        if (arrival is not None or message.event.instantaneous) and not reception.take(sequence):
            return [], []
        effects = self.expect(now_us, stream, reception)
        if message.delivery.order == "none":
            return ([arrival] if arrival is not None else []), effects
        return self._in_order(now_us, message, arrival, reception, effects)

    def _in_order(
        self, now_us: int, message: Raised, arrival: Arrival | None, reception: Reception, effects: list[Does]
    ) -> tuple[list[Arrival], list[Does]]:
        stream = message.stream
        order = self.orders.get(stream)
        if order is None:
            first = min((each for each in reception.lasting if each <= reception.floor), default=reception.floor + 1)
            order = self.orders[stream] = Order(first, self.params.held_events_max)
        released = order.take(now_us, message.sequence, arrival)
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
        patience_us = round(self.params.recovery_patience_us * (1 + self.rng.random()))
        return [SetTimer(RECOVER_TIMER + stream, now_us + patience_us)]

    def overhear(self, now_us: int, message: Missed) -> list[Does]:
        """Somebody asks for all that is missing here: the answer will do for both."""
        reception = self.receptions.get(message.stream)
        if reception is None or not reception.waiting or reception.yielded:
            return []
        if not set(reception.missing()) <= set(message.sequences):
            return []
        reception.waiting, reception.yielded = False, True
        return self.expect(now_us, message.stream, reception)

    def ask(self, now_us: int, stream: str, asker: str, position: Point, group: int, forward: bool) -> list[Does]:
        reception = self.receptions.get(stream)
        if reception is None:
            return []
        reception.waiting = reception.yielded = False
        wanted, given_up = reception.ask(self.params.recovery_asks_max)
        effects: list[Does] = [Note("recovery_given_up", stream)] * given_up
        if wanted:
            self._asks += 1
            missed = Missed(asker, self._asks, reception.proximity_id, stream, wanted, position, forward)
            effects.append(Broadcast(missed, group))
        return effects + self.expect(now_us, stream, reception)
