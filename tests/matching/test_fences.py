"""The index of fences leaves out no fence for which a move matters, and the rest is the definition's."""

import random

import pytest

from roamcast.matching import fences as module
from roamcast.matching.fences import FenceIndex
from roamcast.model.fence import BEGIN, OUTSIDE, Fence, FenceRule, Fix, State, Transition, advance
from roamcast.model.region import Anchored, Box, Circle, Polygon, Shape
from roamcast.model.space import Earth, Plane, Space, wrapped
from roamcast.model.values import BadValue, Point
from roamcast.model.way import Way, pieces
from tests.effort import seeds

PLANE, EARTH = Plane(), Earth()
SIDE_M = 4_000.0
HOMES: dict[str, tuple[Space, Point]] = {
    "plane": (PLANE, Point(0.0, 0.0)),
    "town": (EARTH, Point(24.94, 60.17)),
    "date line": (EARTH, Point(179.99, -17.0)),
    "arctic": (EARTH, Point(16.0, 84.99)),
}
RULES = (
    FenceRule(hysteresis_m=0.0),
    FenceRule((Transition.ENTER, Transition.LEAVE, Transition.CROSS), hysteresis_m=30.0),
    FenceRule((Transition.LEAVE, Transition.DWELL), dwell_us=3_000_000, outside_us=2_000_000),
    FenceRule(certainty="surely"),
)


@pytest.fixture(autouse=True)
def compiled_from_the_first_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW", 0)


def place(rng: random.Random, space: Space, home: Point) -> Point:
    return space.moved(home, rng.uniform(-SIDE_M, SIDE_M), rng.uniform(-SIDE_M, SIDE_M))


def shape(rng: random.Random, space: Space, home: Point) -> Shape:
    centre, size_m = place(rng, space, home), rng.choice([5.0, 40.0, 300.0, 2_500.0])
    if rng.random() < 0.4:
        return Circle(centre, size_m * rng.uniform(0.5, 1.0))
    corners = [
        space.moved(centre, size_m * x, size_m * y)
        for x, y in ((-1, -1), (rng.uniform(0.1, 1), -1), (rng.uniform(-0.5, 1), rng.uniform(-0.9, 1)), (-1, 0.8))
    ]
    if isinstance(space, Earth):
        corners = [corner if abs(corner.x - centre.x) < 180 else around(corner, centre) for corner in corners]
    try:
        if rng.random() < 0.3:
            # A box over the date line has its west in the east.
            low, high = (
                Point(wrapped(each.x), each.y) if space == EARTH else each for each in (corners[0], corners[2])
            )
            return Box(low, high)
        return Polygon(tuple(corners))
    except BadValue:
        return Circle(centre, size_m)


def around(corner: Point, centre: Point) -> Point:
    return Point(corner.x + (360 if centre.x > 0 else -360), corner.y)


class World:
    def __init__(self, seed: int, home: str, count: int) -> None:
        self.rng = random.Random(seed)
        self.space, self.home = HOMES[home]
        self.index = FenceIndex(self.space)
        self.fences: dict[str, Fence] = {}
        self.put(count)

    def put(self, count: int) -> None:
        new = [
            Fence(f"f{self.rng.randrange(10**6)}", shape(self.rng, self.space, self.home), self.rng.choice(RULES))
            for _ in range(count)
        ]
        self.index.put_all(new)
        self.fences.update({each.name: each for each in new})

    def remove(self, share: float) -> None:
        for name in [each for each in self.fences if self.rng.random() < share]:
            assert self.index.remove(name)
            del self.fences[name]

    def way(self) -> tuple[Point, Point]:
        start = place(self.rng, self.space, self.home)
        reach_m = self.rng.choice([0.0, 3.0, 30.0, 400.0, 5_000.0])
        end = self.space.moved(start, self.rng.uniform(-reach_m, reach_m), self.rng.uniform(-reach_m, reach_m))
        return start, end

    def passed(self, start: Point, end: Point) -> set[str]:
        way = Way(start, end)
        return {name for name, each in self.fences.items() if len(pieces(way, region_of(each), self.space)) > 1}


def region_of(fence: Fence) -> Shape:
    assert not isinstance(fence.region, Anchored)
    return fence.region


@pytest.mark.parametrize("home", HOMES)
@seeds(20)
def test_every_fence_that_a_way_passes_is_found(seed: int, home: str) -> None:
    world = World(seed, home, 150)
    found = 0
    for round_ in range(3):
        for _ in range(20):
            start, end = world.way()
            passed = world.passed(start, end)
            assert passed <= set(world.index.touched(start, end)), (seed, home, start, end)
            found += len(passed)
        if round_ == 0:
            world.remove(0.5)
        world.put(60)
    assert found


@pytest.mark.parametrize("home", ["plane", "town"])
@seeds(10, quick=1)
def test_many_ways_at_once_find_what_each_finds(seed: int, home: str) -> None:
    world = World(seed, home, 100)
    ways = [world.way() for _ in range(50)]
    columns = [[getattr(way[end], axis) for way in ways] for end in (0, 1) for axis in ("x", "y")]
    which, found = world.index.touched_all(*columns)
    pairs = {(int(way), world.index.name(int(fence))) for way, fence in zip(which, found, strict=True)}
    assert pairs == {(number, name) for number, way in enumerate(ways) for name in world.index.touched(*way)}


@pytest.mark.parametrize("few", [0, 1_000])
@pytest.mark.parametrize("home", HOMES)
@seeds(10, quick=1)
def test_judging_what_is_touched_is_judging_everything(
    seed: int, home: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a broker does it: what the way touches, and those fences of which something is pending."""
    monkeypatch.setattr(module, "FEW", few)
    world = World(seed, home, 60)
    fold, asked = dict.fromkeys(world.fences, BEGIN), dict.fromkeys(world.fences, BEGIN)
    at, last, told = world.home, None, 0
    for second in range(60):
        if second % 6 == 0:
            at = place(world.rng, world.space, world.home)
        reach_m = world.rng.choice([0.0, 20.0, 300.0, 2_000.0])
        at = world.space.moved(at, world.rng.uniform(-reach_m, reach_m), world.rng.uniform(-reach_m, reach_m))
        fix = Fix(second * 1_000_000, at, world.rng.choice([None, 15.0]))
        names = set(world.index.touched(None if last is None else last.position, at))
        for name, fence in world.fences.items():
            fold[name], expected = advance(fence, fold[name], fix, world.space)
            stay = asked[name].stay
            if (
                name in names
                or (stay != OUTSIDE and not (stay.fix_inside and stay.passed_us is None))
                or waits(fence, stay.entered_us)
            ):
                assert world.index.get(name) == fence
                asked[name], found = advance(fence, State(last, stay), fix, world.space)
                assert found == expected, (seed, name)
                told += len(found)
            else:
                assert expected == ()
            assert asked[name].stay == fold[name].stay, (seed, name)
        last = fix
    assert told


def waits(fence: Fence, entered_us: int | None) -> bool:
    """For a time of dwelling, which is a timer of the broker's."""
    return entered_us is not None and fence.rule.dwell_us is not None


def test_who_stays_inside_touches_nothing() -> None:
    index = FenceIndex(PLANE)
    index.put_all(Fence(f"{number}", Circle(Point(0, 0), 100.0 + number)) for number in range(40))
    assert index.touched(Point(0, 0), Point(30, 30)) == []
    assert len(index.touched(None, Point(0, 0))) == 40
    assert index.touched(Point(500, 0), Point(600, 0)) == []


@pytest.mark.parametrize("radius_m", [30_000_000.0, 1e9])
def test_a_fence_around_everything_is_looked_at_by_itself(radius_m: float) -> None:
    index = FenceIndex(PLANE)
    index.put_all([Fence("all", Circle(Point(0, 0), radius_m))])
    assert index.touched(Point(0, 0), Point(radius_m + 5, 0)) == ["all"]
    assert index.touched(Point(0, 0), Point(5, 0)) == []


def test_a_fence_takes_the_place_of_the_one_of_its_name() -> None:
    index = FenceIndex(PLANE)
    index.put_all([Fence("a", Circle(Point(0, 0), 5)), Fence("b", Circle(Point(0, 0), 5))])
    index.put_all([Fence("a", Box(Point(90, 90), Point(110, 110)))])
    assert (len(index), index.get("a")) == (2, Fence("a", Box(Point(90, 90), Point(110, 110))))
    assert index.touched(Point(-9, 0), Point(9, 0)) == ["b"]
    assert index.remove("a")
    assert not index.remove("a")
    assert index.get("a") is None


def test_a_fence_that_moves_is_not_for_the_index() -> None:
    with pytest.raises(BadValue, match="moves with a host"):
        FenceIndex(PLANE).put_all([Fence("ring", Anchored(Circle(Point(0, 0), 5), "b"))])
