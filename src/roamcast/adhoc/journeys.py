"""The messages that are under way at one host, each with its timer (C8). Of too many, the oldest is forgotten."""

from roamcast.adhoc.routes import UnderWay
from roamcast.node.boundary import CancelTimer, Does, Note, SetTimer


class Journeys:
    __slots__ = ("by_key", "held", "timer_prefix", "under_way_max")

    def __init__(self, under_way_max: int, timer_prefix: str) -> None:
        self.under_way_max = under_way_max
        self.timer_prefix = timer_prefix
        self.by_key: dict[str, UnderWay] = {}
        """Oldest first; it is always the same dictionary, and only this object changes it."""
        self.held = 0
        """How many of them wait in a void."""

    def wait(self, now_us: int, entry: UnderWay, delay_ms: float) -> list[Does]:
        """Keeps a message until it is to be sent."""
        timer = SetTimer(self.timer_prefix + entry.key, now_us + round(delay_ms * 1_000))
        dropped = self.keep(entry)
        return [*dropped, timer] if dropped else [timer]

    def keep(self, entry: UnderWay) -> list[Does]:
        """Puts a message among those under way, of which the oldest goes if they are too many."""
        dropped: list[Does] = []
        key = entry.key
        if len(self.by_key) >= self.under_way_max and key not in self.by_key:
            oldest = next(iter(self.by_key.values()))
            dropped = [*self.forget(oldest), Note("geocast_dropped", oldest.message.route.id)]
        self.by_key[key] = entry
        return dropped

    def forget(self, entry: UnderWay) -> list[Does]:
        key = entry.key
        self.by_key.pop(key, None)
        if entry.state == "held":
            self.held -= 1
        return [CancelTimer(self.timer_prefix + key)]

    def hold(self, entry: UnderWay) -> None:
        entry.state = "held"
        self.held += 1

    def release(self, entry: UnderWay) -> None:
        entry.state = "sent"
        self.held -= 1

    def those_held(self) -> list[UnderWay]:
        return [each for each in self.by_key.values() if each.state == "held"] if self.held else []

    def walks_of(self, message_id: str) -> list[UnderWay]:
        """A message's walks past voids that this host is to go on with."""
        return [
            each
            for each in self.by_key.values()
            if each.way == "walk"
            and each.message.route.id == message_id
            and each.walk is not None
            and each.walk.start is not None
        ]
