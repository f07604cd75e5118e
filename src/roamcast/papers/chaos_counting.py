"""The modulator of overlay trials: it counts, so that one which lost its state or began anew is found out (O4)."""

from collections.abc import Mapping

import msgspec

from roamcast.broker.modulators.interface import derived
from roamcast.broker.modulators.registry import registered
from roamcast.model.event import Event
from roamcast.model.space import Space
from roamcast.model.values import Value
from roamcast.papers.chaos_record import Ledger

COUNTING = "trial/counting"


@registered(COUNTING)
class Counting:
    """Writes on each event which one it is of those that this modulator has seen."""

    def __init__(self, parameters: Mapping[str, Value], space: Space) -> None:
        self.count = 0

    def take(self, event: Event, now_us: int) -> list[Event]:
        self.count += 1
        return [derived(event, {**event.attributes, "count": self.count})]

    def state(self) -> bytes:
        return msgspec.msgpack.encode(self.count)

    def load(self, state: bytes) -> None:
        self.count = msgspec.msgpack.decode(state, type=int)


class Counts(Ledger):
    """Besides, the numbers that the modulators wrote on what each subscription got."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, list[int]] = {}

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        super().delivered(now_us, host, event, subscription_id)
        self.counts.setdefault(subscription_id, []).append(int(str(event.attributes["count"])))
