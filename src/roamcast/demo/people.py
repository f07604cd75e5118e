"""Who lives in the demo's town, and where its brokers stand: the same seed gives the same town.

Most clients drive or walk; some stand still. How many there are of each follows from the number of those that move.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random

from msgspec import Struct

from roamcast.demo.streets import Journey, Network, load_town, metres_between, paths, roads
from roamcast.model.values import Point

LIGHTS_MAX = 12
PARKINGS_MAX = 8
BUS_STOPS = 4
NAMES = ("north-west", "north-east", "south-west", "south-east")
LINKS = (("north-west", "north-east"), ("north-west", "south-west"), ("south-west", "south-east"))
"""A tree, as brokers want it."""


class Quarter(Struct, frozen=True):
    """A part of the town, and the broker that serves it."""

    name: str
    place: Point


class Standing(Struct, frozen=True):
    """Something that has its place."""

    name: str
    place: Point
    corner: int
    """Of the roads."""


class People:
    def __init__(self, clients: int, seed: int) -> None:
        self.seed = seed
        self.quarters = quarters_of(roads())
        buses, walkers = max(1, clients // 10), max(1, clients * 3 // 10)
        cars = max(1, clients - buses - walkers)
        self.cars = {f"car-{number}": self._journey(f"car-{number}", roads()) for number in range(1, cars + 1)}
        self.buses = {f"bus-{number}": self._line(f"bus-{number}") for number in range(1, buses + 1)}
        self.walkers = {
            f"walker-{number}": self._journey(f"walker-{number}", paths()) for number in range(1, walkers + 1)
        }
        self.ambulance = self._journey("ambulance-1", roads())
        self.lights = self._lights()
        self.parkings = self._parkings()
        self.market = Point(*east_end(roads()))

    def generator(self, name: str) -> Random:
        """Of one of them: what others do changes nothing for it."""
        return Random(f"{self.seed} {name}")

    def quarter_of(self, place: Point) -> Quarter:
        return min(self.quarters, key=lambda each: metres_between(each.place, place))

    def _journey(self, name: str, network: Network) -> Journey:
        return Journey(network, self.generator(name))

    def _line(self, name: str) -> Journey:
        """A bus goes round and round."""
        generator, corners = self.generator(name), roads().corners
        stops = tuple(generator.sample(range(len(corners)), BUS_STOPS))
        return Journey(roads(), generator, stops)

    def _lights(self) -> list[Standing]:
        """Those that most will pass, so that there is something to see."""
        corners = {corner: number for number, corner in enumerate(roads().corners)}
        lit = dict.fromkeys(corners[each] for each in load_town().points("light"))
        passed = Counter(each for journey in self.cars.values() for each in journey.ahead if each in lit)
        most = sorted(lit, key=lambda each: (-passed[each], each))[:LIGHTS_MAX]
        return [Standing(f"light-{count}", roads().corners[each], each) for count, each in enumerate(most, 1)]

    def _parkings(self) -> list[Standing]:
        corners = {corner: number for number, corner in enumerate(roads().corners)}
        found = self.generator("parkings").sample(load_town().points("parking"), PARKINGS_MAX)
        return [Standing(f"parking-{count}", each, corners[each]) for count, each in enumerate(found, 1)]


def bounds_of(network: Network) -> tuple[Point, Point]:
    eastings, northings = [each.x for each in network.corners], [each.y for each in network.corners]
    return Point(min(eastings), min(northings)), Point(max(eastings), max(northings))


def quarters_of(network: Network) -> tuple[Quarter, ...]:
    """As many corners in each: halves by longitude, and halves of those by latitude."""
    corners = sorted(network.corners, key=lambda each: (each.x, each.y))
    found: dict[str, Point] = {}
    for side, half in zip(("west", "east"), halves(corners), strict=True):
        ordered = sorted(half, key=lambda each: (each.y, each.x))
        for end, part in zip(("south", "north"), halves(ordered), strict=True):
            found[f"{end}-{side}"] = middle_of(part)
    return tuple(Quarter(name, found[name]) for name in NAMES)


def halves(corners: Sequence[Point]) -> tuple[Sequence[Point], Sequence[Point]]:
    return corners[: len(corners) // 2], corners[len(corners) // 2 :]


def middle_of(corners: Sequence[Point]) -> Point:
    count = len(corners)
    return Point(sum(each.x for each in corners) / count, sum(each.y for each in corners) / count)


def east_end(network: Network) -> tuple[float, float]:
    """Where the market is: by the harbour, in the south-east."""
    low, high = bounds_of(network)
    corner = max(network.corners, key=lambda each: each.x - 2 * abs(each.y - (low.y + (high.y - low.y) / 4)))
    return corner.x, corner.y
