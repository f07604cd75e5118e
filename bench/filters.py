"""How long filters take: parsing, one event through the closure, many through numpy, and `covers`."""

import time
from collections.abc import Callable

import numpy as np

from roamcast.model.context import Context
from roamcast.model.filter.cover import covers, understood
from roamcast.model.filter.evaluate import compile_filter
from roamcast.model.filter.mask import Column, Columns, mask
from roamcast.model.filter.parse import parse_text
from roamcast.model.filter.scene import Scene
from roamcast.model.space import Plane
from roamcast.model.values import Point, Value, Velocity

TAKES = "4 s"
TEXT = "severity >= 3 AND what IN ('accident', 'ice') AND near(position, 200) AND price <= me.budget"
NARROWER = "severity >= 4 AND what = 'ice' AND near(position, 100) AND price <= me.budget AND lane = 2"
ROWS = 100_000


def microseconds(action: Callable[[], object], repeats: int) -> float:
    action()
    started = time.process_time()
    for _ in range(repeats):
        action()
    return (time.process_time() - started) / repeats * 1e6


def main() -> dict[str, float]:
    space = Plane()
    wanted, narrower = parse_text(TEXT), parse_text(NARROWER)
    assert covers(wanted, narrower, space)
    me = Context("car", Point(0, 0), velocity=Velocity(1, 0), attributes={"budget": 5.0})
    event: dict[str, Value] = {"severity": 4, "what": "ice", "position": Point(100, 100), "price": 3.0}

    def covered_at_first() -> None:
        understood.cache_clear()
        covers(wanted, narrower, space)

    closure = compile_filter(wanted, space, None)
    scene = Scene(event.get, me)
    figures = {
        "parse_us": microseconds(lambda: parse_text(TEXT), 500),
        "closure_us": microseconds(lambda: closure(scene), 50_000),
        "covers_us": microseconds(lambda: covers(wanted, narrower, space), 500),
        "covers_at_first_us": microseconds(covered_at_first, 500),
        "mask_us_per_row": mask_us_per_row(),
    }
    figures["closure_over_mask"] = figures["closure_us"] / figures["mask_us_per_row"]
    for name, value in figures.items():
        print(f"{name:18} {value:10.3f}")
    return figures


def mask_us_per_row() -> float:
    rng = np.random.default_rng(1)
    texts = ["accident", "ice", "jam"]
    severities = rng.integers(1, 6, ROWS).tolist()
    points = [Point(float(x), float(y)) for x, y in rng.uniform(-400, 400, (ROWS, 2))]
    columns = Columns(
        rows=ROWS,
        attributes={
            "severity": Column.of(severities),
            "what": Column.of([texts[each] for each in rng.integers(0, 3, ROWS)]),
            "position": Column.of(points),
            "price": Column.of(rng.uniform(0, 10, ROWS).tolist()),
        },
        me={"position": Column.of([Point(0, 0)] * ROWS), "budget": Column.of([5.0] * ROWS)},
    )
    wanted = parse_text(TEXT)
    return microseconds(lambda: mask(wanted, columns, Plane(), None), 5) / ROWS


if __name__ == "__main__":
    main()
