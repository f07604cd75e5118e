"""Modulators of clients' subscriptions, run at the border: the last step before delivery (O1; docs/PROTOCOL.md, 9).

Each subscription that names a modulator has two instances of it. One takes what is logged, messages of QoS 1 and 2:
what it remembers is in snapshots, comes again when the log is read again, and goes with the session elsewhere. The
other takes messages of QoS 0, which nothing is logged of: what it remembers is gone with the process.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from roamcast.broker.modulators.guarded import Guarded
from roamcast.broker.modulators.interface import BadModulator
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.make import make_modulator
from roamcast.broker.modulators.spec import spec_from_text
from roamcast.model.event import Event
from roamcast.model.space import Space

MADE_OF = ">"
"""Between an event's id and the subscription whose modulator made the event from it."""
Remarking: TypeAlias = Callable[[str, str], None]


class Running(Struct):
    text: str
    """What the subscription says of it."""
    lasting: Guarded | None
    """None: this broker does not know such a modulator any more."""
    passing: Guarded | None = None


class Modulators:
    """Those of one client, by topic filter."""

    def __init__(self, space: Space, limits: Limits) -> None:
        self.space = space
        self.limits = limits
        self.running: dict[str, Running] = {}

    def __reduce__(self) -> tuple[object, ...]:
        told = [(name, each.text) for name, each in self.running.items()]
        return (modulators_of, (self.space, self.limits, told, self.states()))

    def __contains__(self, name: str) -> bool:
        return name in self.running

    def __len__(self) -> int:
        return len(self.running)

    def make(self, text: str) -> Guarded:
        """Raises `BadModulator`."""
        return make_modulator(spec_from_text(text), self.space, self.limits)

    def put(self, name: str, text: str) -> None:
        """The modulator of a subscription; none, if `text` is empty. One that is the same goes on as it was."""
        known = self.running.get(name)
        if not text:
            self.running.pop(name, None)
        elif known is None or known.text != text:
            try:
                self.running[name] = Running(text, self.make(text))
            except BadModulator:
                # It was taken once, here or elsewhere: nothing passes rather than everything.
                self.running[name] = Running(text, None)

    def states(self) -> tuple[tuple[str, bytes], ...]:
        running = self.running.items()
        return tuple((name, each.lasting.state()) for name, each in running if each.lasting is not None)

    def load(self, states: Iterable[tuple[str, bytes]]) -> None:
        for name, state in states:
            running = self.running.get(name)
            if running is not None and running.lasting is not None:
                running.lasting = self.make(running.text)
                running.lasting.load(state)

    def switch_off(self, name: str) -> bool:
        """Until the subscription is made again with another. False if it has none."""
        running = self.running.get(name)
        for each in () if running is None else (running.lasting, running.passing):
            if each is not None:
                each.switch_off()
        return running is not None

    def take(self, name: str, event: Event, now_us: int, passing: bool, remark: Remarking) -> list[Event]:
        """What is delivered in place of an event."""
        running = self.running[name]
        if passing and running.passing is None and running.lasting is not None:
            running.passing = self.make(running.text)
            running.passing.off = running.lasting.off
        modulator = running.passing if passing else running.lasting
        if modulator is None:
            remark("modulator_missing", name)
            return []
        made = modulator.take(event, now_us)
        for reason in modulator.news():
            remark("modulator_failed", f"{name}: {reason}")
        if modulator.switched_off():
            remark("modulator_off", name)
        return made


def modulators_of(
    space: Space, limits: Limits, told: list[tuple[str, str]], states: tuple[tuple[str, bytes], ...]
) -> Modulators:
    modulators = Modulators(space, limits)
    for name, text in told:
        modulators.put(name, text)
    modulators.load(states)
    return modulators
