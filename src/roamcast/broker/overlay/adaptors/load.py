"""The load adaptor (O6; section 3.5): a broker that is overloaded sends a modulator elsewhere.

The modulator that costs most goes: one broker upstream if that one has room, else one broker downstream, else to the
lightest neighbour with room. One at a time: the next measurement shows whether it was enough. What brokers do not
tell counts as no load, as they are found again within a period.
"""

from roamcast.broker.overlay.channel import LoadMeasured, SystemEvent
from roamcast.broker.overlay.services import Services
from roamcast.node.boundary import Does


class LoadAdaptor:
    interests: tuple[type[SystemEvent], ...] = (LoadMeasured,)

    def __init__(self, services: Services) -> None:
        self.services = services

    def process(self, now_us: int, event: SystemEvent) -> list[Does]:
        if not isinstance(event, LoadMeasured) or event.load <= self.services.params.load_max:
            return []
        if not event.by_subscription:
            return []
        heaviest, load = max(event.by_subscription, key=lambda each: (each[1], each[0]))
        to = self._with_room(heaviest, load)
        if to is None:
            return []
        # It is counted there already, until that broker is found again: two must not go to the same one for its room.
        self.services.brokers.loads[to] = self._load_of(to) + load
        return self.services.departing.place(now_us, heaviest, to, "offload")

    def _with_room(self, subscription_id: str, load: float) -> str | None:
        departing, brokers = self.services.departing, self.services.brokers
        preferred = [departing.upstream_of(subscription_id), departing.downstream_of(subscription_id)]
        lightest = sorted(brokers.topology.neighbours(), key=lambda each: (self._load_of(each), each))
        for broker in [*preferred, *lightest]:
            if broker is not None and self._load_of(broker) + load <= self.services.params.load_max:
                return broker
        return None

    def _load_of(self, broker: str) -> float:
        return self.services.brokers.loads.get(broker, 0.0)
