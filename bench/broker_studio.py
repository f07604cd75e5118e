"""What the studio costs a broker while somebody looks: CPU time of a message with and without it.

The state machine alone, without sockets: messages of QoS 0 to subscribers that are all plain, one by one and in one
piece, to subscribers with a filter, and reports of where a client is. Of each the best of five.
"""

import time
from collections.abc import Callable

from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.inputs import Arrived, Asked, Reported
from roamcast.matching import Engine
from roamcast.model.context import Context
from roamcast.model.values import Point
from roamcast.mqtt.batches import batch_of
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.topics import parse_filter
from roamcast.server.studio.watcher import Watcher

TAKES = "30 s"
BEGIN_US = 1_700_000_000_000_000
TICK_US = 1_000
BATCH = 20
ROUNDS = 5
CASES = (("plain", 1, 20_000), ("plain", 50, 20_000), ("filter", 1, 4_000), ("filter", 50, 2_000))


def core_of(kind: str, subscribers: int) -> Core:
    core = Core("b", 1)
    Engine(core.space).warm_up()
    asked = (("filter", "severity > 3"),) if kind == "filter" else ()
    for number in range(subscribers):
        name = f"c{number}"
        core.handle(BEGIN_US, Arrived(name, True, 0))
        core.handle(BEGIN_US, Asked(name, 1, (Subscription(parse_filter("t"), user_properties=asked),)))
        core.handle(BEGIN_US, Reported(Context(name, Point(float(number), 0.0), BEGIN_US)))
    core.handle(BEGIN_US, Arrived("w", True, 0))
    return core


def best_us(work: Callable[[int, int], None], count: int) -> float:
    """CPU time of one, in microseconds; `work` is given the time at which to begin, and how many."""
    best, now_us = float("inf"), BEGIN_US
    for _ in range(ROUNDS):
        began_s = time.thread_time()
        work(now_us, count)
        best = min(best, (time.thread_time() - began_s) / count * 1e6)
        now_us += count * TICK_US
    return best


def both(core: Core, work: Callable[[int, int], None], count: int) -> tuple[float, float]:
    without = best_us(work, count)
    core.border.observation.observers.add(Watcher(core))
    return without, best_us(work, count)


def main() -> dict[str, float]:
    figures: dict[str, float] = {}

    def tell(name: str, without_us: float, with_us: float) -> None:
        print(f"{name:<12} {without_us:7.2f} µs without a studio, {with_us:7.2f} µs with one")
        figures[f"{name} without us"], figures[f"{name} with us"] = round(without_us, 2), round(with_us, 2)

    for kind, subscribers, count in CASES:
        core = core_of(kind, subscribers)
        message = Message("t", b'{"severity": 5, "text": "hello"}')

        def passing(now_us: int, count: int, core: Core = core, message: Message = message) -> None:
            for number in range(count // BATCH):
                core.passing(now_us + number * TICK_US, [("w", batch_of(message))] * BATCH)

        tell(f"{kind} to {subscribers}", *both(core, passing, count))
    moving = core_of("plain", 1)

    def reports(now_us: int, count: int) -> None:
        for number in range(count):
            at_us = now_us + number * TICK_US
            moving.handle(at_us, Reported(Context("c0", Point(float(number), 0.0), at_us)))

    tell("report", *both(moving, reports, 5_000))
    return figures
