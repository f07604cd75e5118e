"""The declarative modulator: filter, projection, sampling, aggregation over a tumbling window, in this order (O1).

What passes the filter is cut to the attributes kept; of that a sample is taken; of the sample a window is summed up.
A summary is derived from the last event of its window. Time is the broker's: when events arrive. A window by time is
over when an event of another interval comes, whichever way the clock went: after a move the clock may be another's.
"""

import math
from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from roamcast.broker.modulators.interface import Failed, derived
from roamcast.broker.modulators.spec import Aggregate, AtMostOne, ByCount, ByTime, Declarative, Every
from roamcast.model.event import Event
from roamcast.model.filter import Scene, compile_filter
from roamcast.model.space import Space
from roamcast.model.values import INTEGER_LIMIT, Value

Number: TypeAlias = int | float


class Sum(Struct, array_like=True):
    """The numbers of one attribute in the window that is open."""

    count: int = 0
    total: Number = 0
    least: Number = 0
    most: Number = 0

    def add(self, number: Number) -> None:
        self.least = number if self.count == 0 else min(self.least, number)
        self.most = number if self.count == 0 else max(self.most, number)
        self.count += 1
        self.total += number
        if isinstance(self.total, int) and abs(self.total) > INTEGER_LIMIT:
            self.total = float(self.total)


class Progress(Struct, array_like=True):
    """Everything that the modulator remembers."""

    sampled: int = 0
    """How many events came to the sampling since it last let one pass; 0: the next one passes."""
    passed_us: int | None = None
    interval: int = 0
    events: int = 0
    last: Event | None = None
    sums: list[Sum] = field(default_factory=list)


READ_PROGRESS = msgspec.msgpack.Decoder(Progress)


class DeclarativeModulator:
    def __init__(self, spec: Declarative, space: Space) -> None:
        self.spec = spec
        self._judge = compile_filter(spec.filter, space, None)
        self._progress = self._empty()

    def take(self, event: Event, now_us: int) -> list[Event]:
        if not self._judge(Scene(event.attributes.get, None, event.publisher)):
            return []
        if self.spec.keep is not None:
            event = derived(
                event, {name: event.attributes[name] for name in self.spec.keep if name in event.attributes}
            )
        if not self._samples(now_us):
            return []
        return [event] if self.spec.window is None else self._summed_up(event, now_us)

    def state(self) -> bytes:
        return msgspec.msgpack.encode(self._progress)

    def load(self, state: bytes) -> None:
        try:
            progress = READ_PROGRESS.decode(state)
        except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
            raise Failed("state", str(problem)) from problem
        if len(progress.sums) != len(self.spec.aggregates):
            raise Failed("state", "it is that of a modulator with other aggregates")
        self._progress = progress

    def _empty(self) -> Progress:
        return Progress(sums=[Sum() for _ in self.spec.aggregates])

    def _samples(self, now_us: int) -> bool:
        progress = self._progress
        match self.spec.sampling:
            case None:
                return True
            case Every(events):
                passes = progress.sampled == 0
                progress.sampled = (progress.sampled + 1) % events
                return passes
            case AtMostOne(interval_us):
                before_us = progress.passed_us
                # A clock that is behind is another broker's: to wait until it has caught up may take forever.
                if before_us is not None and before_us <= now_us < before_us + interval_us:
                    return False
                progress.passed_us = now_us
                return True

    def _summed_up(self, event: Event, now_us: int) -> list[Event]:
        summaries: list[Event] = []
        match self.spec.window:
            case ByTime(width_us):
                interval = now_us // width_us
                if self._progress.events and interval != self._progress.interval:
                    summaries = self._closed()
                self._progress.interval = interval
                self._add(event)
            case ByCount(events):
                self._add(event)
                if self._progress.events >= events:
                    summaries = self._closed()
        return summaries

    def _add(self, event: Event) -> None:
        self._progress.events += 1
        # Its content is in the sums; what is kept is what the summary will be derived from.
        self._progress.last = derived(event, {})
        for aggregate, numbers in zip(self.spec.aggregates, self._progress.sums, strict=True):
            value = event.attributes.get(aggregate.attribute)
            if isinstance(value, int | float) and not isinstance(value, bool):
                numbers.add(value)

    def _closed(self) -> list[Event]:
        progress, opened = self._progress, self._empty()
        opened.sampled, opened.passed_us = progress.sampled, progress.passed_us
        self._progress = opened
        if progress.last is None:
            return []
        results = {
            aggregate.result: result
            for aggregate, numbers in zip(self.spec.aggregates, progress.sums, strict=True)
            if (result := result_of(aggregate, numbers, progress.events)) is not None
        }
        return [derived(progress.last, results)]


def result_of(aggregate: Aggregate, numbers: Sum, events: int) -> Value | None:
    """None where no event of the window had such a number, or where a double cannot hold the result."""
    if aggregate.function == "count":
        return numbers.count if aggregate.attribute else events
    if numbers.count == 0:
        return None
    match aggregate.function:
        case "min":
            return numbers.least
        case "max":
            return numbers.most
        case "sum":
            return numbers.total if math.isfinite(numbers.total) else None
        case "mean":
            return numbers.total / numbers.count if math.isfinite(numbers.total) else None
