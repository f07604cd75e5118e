"""What a movement model is worth: it is asked about hosts that it was not learned from.

| what | question, at each visit of such a host | right if |
|---|---|---|
| `ploc` | which places are within q steps of here? | the place so many steps later is among them |
| `next` | where to next? | it is the first, or among the first three |
| `trip` | of who rests here: where does the next trip end? | the same |
| `broker` | of who has just come here: where after so many mean residence times? | the same |

`ploc` needs its size beside it: all places together are always right. The broker that is guessed first is the one
that a mesh forwards to (M10): along the likeliest steps, each place for its mean residence time. The other two are
the likeliest of all ways together. Nobody is asked about what the journal does not tell, as where its last visit led.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from roamcast.model.movement import VERSION, Habits, MovementModel
from roamcast.spark.files import file_system
from roamcast.spark.movement_tables import SCORES, STAYS, STEPS, TRIPS

REACHES = (0, 1, 2, 3)
"""The q of ploc(x, q)."""
STEPS_AHEAD = (1, 2, 3)
GUESSES = (1, 3)
BROKER_AHEAD = (0.5, 1.0, 2.0, 4.0)
"""In mean residence times."""
MOMENTS_PER_RESIDENCE = 4
"""In so many small steps a mean residence time is divided to see where many hosts would be after it."""
SPREAD_MAX = 64
"""At so many places at most, the likeliest ones."""
STAYS_MAX = 1_024
"""How many places ahead a way is followed, as in a mesh."""
KNOWN_MAX = 100_000
"""How many answers are remembered."""


class Visit(NamedTuple):
    place: str
    from_us: int
    until_us: int
    rest_us: int


class Asked(NamedTuple):
    """A row of `scores` without its counts."""

    what: str
    ahead: float
    reach: int


class Examine:
    """What a worker does with the visits of hosts in the order of their ways; it reads the model from its tables."""

    def __init__(self, places: Mapping[str, str], rest_us: int) -> None:
        self.places = dict(places)
        self.rest_us = rest_us

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        exam: Exam | None = None
        for _, rows in groupby(visits_in(batches), key=lambda row: row[0]):
            if exam is None:
                stays, steps, trips = (read(self.places[table.name], table) for table in (STAYS, STEPS, TRIPS))
                exam = Exam(model_of(stays, steps, trips), mean_residence_s(stays), self.rest_us)
            exam.take([visit for _, visit in rows])
        if exam is not None:
            yield from exam.rows().to_batches()


def visits_in(batches: Iterator[Any]) -> Iterator[tuple[tuple[str, int], Visit]]:
    for batch in batches:
        names = ("host", "way", "place", "from_us", "until_us", "rest_us")
        for host, way, *of_visit in zip(*(batch[name].to_pylist() for name in names), strict=True):
            yield (host, way), Visit(*of_visit)


def read(place: str, table: Any) -> dict[str, list[Any]]:
    files, path = file_system(place)
    found: dict[str, list[Any]] = pq.read_table(path, filesystem=files, schema=table.schema).to_pydict()
    return found


def model_of(
    stays: Mapping[str, list[Any]],
    steps: Mapping[str, list[Any]],
    trips: Mapping[str, list[Any]],
    cell_m: float = 0.0,
    origin: tuple[float, float] = (0.0, 0.0),
) -> MovementModel:
    """The model in the columns of its three tables."""
    following: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for found, table, to in ((following, steps, "next"), (ends, trips, "end")):
        for place, other, times in zip(table["place"], table[to], table["times"], strict=True):
            found.setdefault(place, {})[other] = times
    names = ("residence_p10_us", "residence_p50_us", "residence_p90_us")
    rows = zip(stays["place"], stays["residence_us"], *(stays[name] for name in names), strict=True)
    places = {
        place: Habits(mean / 1e6, following.get(place, {}), ends.get(place, {}), (p10 / 1e6, p50 / 1e6, p90 / 1e6))
        for place, mean, p10, p50, p90 in rows
    }
    return MovementModel(VERSION, places, cell_m, origin)


def mean_residence_s(stays: Mapping[str, list[Any]]) -> float:
    """Over all whole visits, or over all where there is none."""
    for weights in (stays["whole"], stays["visits"]):
        total = float(sum(weights))
        if total:
            took_us = sum(round(mean * weight) for mean, weight in zip(stays["residence_us"], weights, strict=True))
            return float(took_us / total / 1e6)
    return 0.0


class Exam:
    """Asks the model, and counts."""

    def __init__(self, model: MovementModel, mean_s: float, rest_us: int) -> None:
        self.model, self.mean_s, self.rest_us = model, mean_s, rest_us
        self.graph = model.graph()
        self.asked: Counter[Asked] = Counter()
        self.hits: Counter[Asked] = Counter()
        self.named: Counter[Asked] = Counter()
        self.guessed_brokers = lru_cache(KNOWN_MAX)(self._guessed_brokers)

    def take(self, way: list[Visit]) -> None:
        for number, visit in enumerate(way):
            for ahead in STEPS_AHEAD:
                if number + ahead < len(way):
                    self.ask_ploc(visit.place, way[number + ahead].place, ahead)
            if number + 1 < len(way):
                self.ask("next", 1, self.most(visit.place, "next"), way[number + 1].place)
        rests = [visit for visit in way if visit.rest_us >= self.rest_us]
        for visit, end in pairwise(rests):
            self.ask("trip", 1, self.most(visit.place, "ends"), end.place)
        for ahead_s in BROKER_AHEAD:
            self.ask_brokers(way, ahead_s)

    def ask_ploc(self, here: str, there: str, ahead: int) -> None:
        for reach in REACHES:
            self.count(Asked("ploc", ahead, reach), self.graph.ploc(here, reach), there)

    def ask_brokers(self, way: list[Visit], ahead: float) -> None:
        ahead_us = round(ahead * self.mean_s * 1e6)
        later = 0
        for visit in way:
            at_us = visit.from_us + ahead_us
            while later < len(way) and way[later].until_us <= at_us:
                later += 1
            if later == len(way):
                return
            if way[later].from_us <= at_us:
                self.ask("broker", ahead, self.guessed_brokers(visit.place, ahead), way[later].place)

    def ask(self, what: str, ahead: float, guesses: tuple[str, ...], there: str) -> None:
        for most in GUESSES:
            self.count(Asked(what, ahead, most), guesses[:most], there)

    def count(self, asked: Asked, named: tuple[str, ...] | frozenset[str], there: str) -> None:
        self.asked[asked] += 1
        self.hits[asked] += there in named
        self.named[asked] += len(named)

    def most(self, place: str, which: str) -> tuple[str, ...]:
        """The places that followed most often, the most frequent first."""
        habits = self.model.places.get(place)
        times: dict[str, int] = {} if habits is None else getattr(habits, which)
        return tuple(sorted(times, key=lambda other: (-times[other], other))[: max(GUESSES)])

    def _guessed_brokers(self, place: str, ahead: float) -> tuple[str, ...]:
        first = along(self.model, place, ahead * self.mean_s)
        spread = spread_out(
            self.model, place, round(ahead * MOMENTS_PER_RESIDENCE), self.mean_s / MOMENTS_PER_RESIDENCE
        )
        others = sorted(spread, key=lambda other: (-spread[other], other))
        return (first, *(other for other in others if other != first))[: max(GUESSES)]

    def rows(self) -> Any:
        rows = [
            asked._asdict() | {"asked": count, "hits": self.hits[asked], "named": self.named[asked]}
            for asked, count in sorted(self.asked.items())
        ]
        return pa.Table.from_pylist(rows, schema=SCORES.schema)


def along(model: MovementModel, place: str, seconds: float) -> str:
    """Where one is after so long on the likeliest way, as the mesh's prediction has it."""
    for _ in range(STAYS_MAX):
        following, stay_s = model.likeliest(place), model.residence_s(place)
        if following is None or stay_s is None or seconds < stay_s:
            break
        seconds -= stay_s
        place = following
    return place


def spread_out(model: MovementModel, place: str, moments: int, moment_s: float) -> dict[str, float]:
    """Where many hosts would be that were here: in each moment as many leave a place as its mean residence says."""
    share = {place: 1.0}
    for _ in range(moments):
        reached: dict[str, float] = {}
        for here, part in share.items():
            habits = model.places.get(here)
            leave = 0.0 if habits is None or not habits.next else min(1.0, moment_s / habits.residence_s)
            reached[here] = reached.get(here, 0.0) + part * (1 - leave)
            if habits is not None and leave:
                times = sum(habits.next.values())
                for other, count in habits.next.items():
                    reached[other] = reached.get(other, 0.0) + part * leave * count / times
        heaviest = sorted(reached, key=lambda other: (-reached[other], other))[:SPREAD_MAX]
        share = {other: reached[other] for other in heaviest}
    return share
