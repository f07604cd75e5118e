"""What routing one notification costs a broker, against the number of subscriptions in its table (R2).

Subscriptions of many clients to one subject: a third wants one of many kinds below a price, a third a narrow range of
prices, a third what is near a place of its own. The number that an event concerns is kept the same, about four, so
what grows is only what must not be looked at. Beside it, the same by asking every subscription.

Then the same with as many wildcards, one for each client (`cars/17/#`), and what a new subscription costs a broker
that asks one neighbour by covering: each with a subject of its own, or all with one subject and a kind of their own.
The last grows with the number of different filters under one subject, so it is measured up to fewer.
"""

import statistics
import time
from random import Random

from bench import progress
from roamcast.broker.routing import asking_for
from roamcast.broker.wishes import Table, Wish
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import Filter, parse_text
from roamcast.model.filter.evaluate import compile_filter
from roamcast.model.filter.scene import Scene
from roamcast.model.space import Plane
from roamcast.model.values import Point, Value

TAKES = "2 minutes"
SCALES = (100, 1_000, 10_000, 100_000)
EVENTS = 300
FILTERS_MAX = 1_000
SIDE_M = 10_000.0


def filter_for(rng: Random, kind: int, count: int) -> Filter:
    match kind:
        case 0:
            return parse_text(f"kind = 'k{rng.randrange(max(1, count // 10))}' AND price < {rng.randint(1, 100_000)}")
        case 1:
            low, width = rng.uniform(0, 100_000), 300_000 / count
            return parse_text(f"price >= {low:.3f} AND price < {low + width:.3f}")
        case _:
            x, y = rng.uniform(0, SIDE_M), rng.uniform(0, SIDE_M)
            radius_m = SIDE_M * (3 / count) ** 0.5
            shape = f"BBOX({x:.1f}, {y:.1f}, {x + radius_m:.1f}, {y + radius_m:.1f})"
            return parse_text(f"S_WITHIN(place, {shape})")


def event(rng: Random, count: int) -> Event:
    attributes: dict[str, Value] = {
        "kind": f"k{rng.randrange(max(1, count // 10))}",
        "price": rng.uniform(0, 100_000),
        "place": Point(rng.uniform(0, SIDE_M), rng.uniform(0, SIDE_M)),
    }
    return Event("e", "offers", Context("p"), 0, 0, attributes)


def measured(count: int) -> tuple[float, float, float]:
    """Median µs to route one event, µs to ask all, and how many sources it concerns."""
    rng = Random(f"routing/{count}")
    table = Table(Plane())
    asked = []
    for number in range(count):
        wish = Wish(f"w{number}", "offers", filter_for(rng, number % 3, count))
        table.add(f"client {number}", wish)
        asked.append(compile_filter(wish.filter, Plane(), None))
    taken, concerned = [], 0
    for _ in range(EVENTS):
        raised = event(rng, count)
        started = time.perf_counter_ns()
        concerned += len(table.concerned(raised))
        taken.append(time.perf_counter_ns() - started)
    scene = Scene(raised.attributes.get, None, raised.publisher)
    started = time.perf_counter_ns()
    sum(ask(scene) is True for ask in asked)
    return statistics.median(taken) / 1_000, (time.perf_counter_ns() - started) / 1_000, concerned / EVENTS


def measured_patterns(count: int) -> float:
    """Median µs to route an event that one of so many wildcards matches."""
    rng = Random(f"patterns/{count}")
    table = Table(Plane())
    for number in range(count):
        table.add(f"client {number}", Wish(f"w{number}", f"cars/{number}/#", parse_text("speed > 3")))
    taken = []
    for _ in range(EVENTS):
        raised = Event("e", f"cars/{rng.randrange(count)}/left/door", Context("p"), 0, 0, {"speed": 5})
        started = time.perf_counter_ns()
        assert len(table.concerned(raised)) == 1
        taken.append(time.perf_counter_ns() - started)
    return statistics.median(taken) / 1_000


def measured_asking(count: int, one_subject: bool) -> float:
    """Mean µs of CPU for a new subscription, while so many come one after the other."""
    wishes = [
        Wish(f"w{number}", "cars", parse_text(f"kind = 'k{number}'"))
        if one_subject
        else Wish(f"w{number}", f"cars/{number}", parse_text("speed > 3"))
        for number in range(count)
    ]
    asking = asking_for("covering", Plane(), 16)
    started = time.process_time_ns()
    for number, wish in enumerate(wishes):
        asking.add(f"client {number}", wish)
    return (time.process_time_ns() - started) / 1_000 / count


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    print(f"{'subscriptions':>13} {'µs an event':>12} {'asking all':>12} {'concerned':>10}")
    for count in SCALES:
        microseconds, all_us, concerned = measured(count)
        print(f"{count:13,} {microseconds:12.1f} {all_us:12.1f} {concerned:10.1f}")
        figures[f"route_us_{count}"] = microseconds
        figures[f"ask_all_us_{count}"] = all_us
        progress.note(figures)
    print(f"{'subscriptions':>13} {'µs wildcards':>12} {'µs to add':>12} {'one subject':>12}")
    for count in SCALES:
        figures[f"route_wildcards_us_{count}"] = wildcards_us = measured_patterns(count)
        figures[f"subscribe_us_{count}"] = own_us = measured_asking(count, False)
        one_us = ""
        if count <= FILTERS_MAX:
            figures[f"subscribe_one_subject_us_{count}"] = us = measured_asking(count, True)
            one_us = f"{us:.1f}"
        print(f"{count:13,} {wildcards_us:12.1f} {own_us:12.1f} {one_us:>12}")
        progress.note(figures)
    return figures
