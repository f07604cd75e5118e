"""What a journal is of, and how to cut it: found once, before anything is computed.

Time is cut into *buckets* that hold about as much work each, by quantiles and not by equal widths: a night in which
nothing moves is one bucket. A row of a prepared table lies in a *bin*: the smallest range of buckets, doubled from
level to level, that holds all of its time. So a row is stored once however long it lasts, and who judges a bucket
reads its own bin and the few that contain it. Bins are numbered as a binary heap is: 1 holds all buckets, `2 n` and
`2 n + 1` the halves of `n`.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import reduce
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.journal.plain import plain_space, space_of
from roamcast.journal.records import FENCE_PUT, RUN_ENDED
from roamcast.model.places import MovementGraph
from roamcast.model.space import Space
from roamcast.spark.journal import Journal
from roamcast.spark.ledger import Ledger
from roamcast.spark.tables import BadPipeline

PERIOD_US = 100_000
"""As the ideal system of a simulation looks at what lasts: ten times a second."""
MOVES_PER_BUCKET = 200_000
EVENTS_PER_BUCKET = 20_000
MOVES_PER_HOST = 4
"""At least so many of each host in a bucket, or many of its stretches would belong to two."""
BUCKETS_MAX = 4_096
TICKS = 8_192
"""Borders of buckets are multiples of this part of the whole, or of the period."""
QUANTILES = 1_024
CROWDED = 16
"""Of so many buckets' load a bucket is divided: when all of that happens at once, or hosts are very many."""
CUT_MAX = 5
"""Openings without an end that are named."""


class Extent(msgspec.Struct, frozen=True):
    """Where events were published; nothing if none has a position."""

    west: float | None = None
    east: float | None = None
    south: float | None = None
    north: float | None = None


NOWHERE = Extent()


@dataclass(frozen=True)
class Settings:
    """What is known of a journal before any job runs, and how it is cut."""

    space: Space
    neighbour_range_m: float
    graph: MovementGraph | None
    borders: tuple[int, ...]
    """Of the buckets: bucket `n` reaches from `borders[n]` up to, not including, `borders[n + 1]`."""
    until_us: int
    """The last moment that is looked at."""
    period_us: int
    cut: tuple[str, ...] = ()
    """The first writers whose run did not say that it ended: what they recorded last may be missing."""
    extent: Extent = NOWHERE
    compiled: bool = True
    """Whether simple events go to the compiled kernel; the results are the same."""
    sides: tuple[int, ...] = ()
    """Into how many columns and rows of cells each bucket is divided; none is if nothing is given."""
    fences: bool = False
    """Whether the journal tells of fences."""

    @property
    def first_us(self) -> int:
        """Of the first bucket: at or before the first record, and a multiple of the period."""
        return self.borders[0]

    @property
    def buckets(self) -> int:
        return len(self.borders) - 1

    @property
    def leaves(self) -> int:
        """The bin of the first bucket; as many bins are of one bucket."""
        return 1 << (self.buckets - 1).bit_length()

    def side_of(self, bucket: int) -> int:
        return self.sides[bucket] if self.sides else 1

    @property
    def cells(self) -> list[tuple[int, int]]:
        """What is judged at a time: buckets, and of those that are divided each cell."""
        return [(bucket, cell) for bucket in range(self.buckets) for cell in range(self.side_of(bucket) ** 2)]

    def bucket_of(self, time_us: int) -> int:
        return min(max(bisect_right(self.borders, time_us) - 1, 0), self.buckets - 1)

    def bins_of(self, bucket: int) -> list[int]:
        """The bins that hold rows of a bucket: its own, and all that contain it."""
        own = self.leaves + bucket
        return [own >> level for level in range(own.bit_length())]

    def plain(self) -> dict[str, Any]:
        """As JSON has it, for readers of prepared tables."""
        graph = None if self.graph is None else self.graph.neighbours
        space: Any = self.space
        values = {name: value for name, value in vars(self).items() if name not in ("space", "graph")}
        found: dict[str, Any] = msgspec.to_builtins({**values, "space": plain_space(space), "graph": graph})
        return found

    @classmethod
    def of_plain(cls, values: dict[str, Any]) -> "Settings":
        graph = values["graph"]
        neighbours = None if graph is None else MovementGraph({each: tuple(near) for each, near in graph.items()})
        rest = {
            "space": space_of(values["space"]),
            "graph": neighbours,
            "extent": msgspec.convert(values["extent"], Extent),
            "borders": tuple(values["borders"]),
            "cut": tuple(values["cut"]),
            "sides": tuple(values["sides"]),
        }
        return cls(**{**values, **rest})


@dataclass(frozen=True)
class Survey:
    """How much there is, and when."""

    hosts: int
    first_us: int
    last_us: int
    work: Any
    """Stretches of time, columns `first_us`, `last_us`, `buckets`: how many buckets' worth of work lies in each; and
    `load`, the same where a bucket need not hold several moves of each host."""

    @classmethod
    def of_ledger(cls, ledger: Ledger) -> "Survey | None":
        """From what ingest wrote down of each segment, without reading any."""
        taken = ledger.taken.filter(pc.greater(ledger.taken["rows"], 0))
        if not len(taken):
            return None
        moves = taken.filter(pc.equal(taken["table"], "moves"))
        hosts = pc.struct_field(moves["ranges"].combine_chunks().flatten(), "host").unique()
        first, last = pc.min(taken["first_us"]).as_py(), pc.max(taken["last_us"]).as_py()
        return cls(len(hosts), first, last, weighed(taken, len(hosts), "rows"))

    @classmethod
    def of_journal(cls, journal: Journal) -> "Survey | None":
        """One job over the times of moves and publications."""
        shares = [n / QUANTILES for n in range(QUANTILES + 1)]
        frames = [
            getattr(journal, name).agg(
                F.lit(name).alias("table"),
                F.approx_count_distinct("host").alias("hosts"),
                F.count("*").alias("rows"),
                F.percentile_approx("at_us", shares, 10 * QUANTILES).alias("at_us"),
            )
            for name in ("moves", "publications", "subscriptions", "contexts")
        ]
        found = [row.asDict() for row in frames[0].union(frames[1]).union(frames[2]).union(frames[3]).collect()]
        there = [row for row in found if row["rows"]]
        if not there:
            return None
        pieces = [
            {"table": row["table"], "first_us": a, "last_us": b, "rows": row["rows"] / QUANTILES}
            for row in there
            for a, b in zip(row["at_us"], row["at_us"][1:], strict=False)
        ]
        hosts = max(row["hosts"] for row in found if row["table"] == "moves")
        first, last = min(row["at_us"][0] for row in there), max(row["at_us"][-1] for row in there)
        return cls(hosts, first, last, weighed(pa.Table.from_pylist(pieces), hosts, "rows"))


def weighed(pieces: Any, hosts: int, rows: str) -> Any:
    def worth(moves: int) -> Any:
        per_bucket = {"moves": moves, "publications": EVENTS_PER_BUCKET}
        weights = [
            count / per_bucket[table] if table in per_bucket else 0.0
            for table, count in zip(pieces["table"].to_pylist(), pieces[rows].to_pylist(), strict=True)
        ]
        return pa.array(weights)

    several = worth(max(MOVES_PER_BUCKET, MOVES_PER_HOST * hosts))
    names = ["first_us", "last_us", "buckets", "load"]
    return pa.table([pieces["first_us"], pieces["last_us"], several, worth(MOVES_PER_BUCKET)], names)


@dataclass(frozen=True)
class Cut:
    """Where time is cut into buckets, and which of them are divided into cells."""

    borders: tuple[int, ...]
    sides: tuple[int, ...]

    @classmethod
    def of(cls, found: Survey, first_us: int, until_us: int, period_us: int) -> "Cut":
        """Every bucket has about as much work; the last border is after the last moment. What is still too much for
        one worker, since it happens at once, is divided."""
        span_us = until_us + 1 - first_us
        tick_us = -(-span_us // (TICKS * period_us)) * period_us
        ticks = -(-span_us // tick_us)
        work, load = (so_far(found.work, name, first_us, tick_us, ticks) for name in ("buckets", "load"))
        count = int(np.clip(round(float(work[-1])), 1, min(BUCKETS_MAX, ticks)))
        at = np.searchsorted(work, work[-1] * np.arange(1, count) / count) + 1
        inner = np.unique(np.clip(at, 1, ticks - 1)) if ticks > 1 else np.zeros(0, np.int64)
        loads = np.diff(np.concatenate([[0.0], load[inner - 1], load[-1:]]))
        sides = np.ceil(np.sqrt(np.maximum(loads / CROWDED, 1.0))).astype(int)
        borders = (first_us, *(first_us + inner * tick_us).tolist(), first_us + ticks * tick_us)
        return cls(borders, tuple(sides.tolist()) if sides.max() > 1 else ())


def so_far(pieces: Any, name: str, first_us: int, tick_us: int, ticks: int) -> Any:
    """How much there is up to the end of each tick, if each piece is spread evenly over its time."""
    steps = np.zeros(ticks + 1)
    begin, end = (
        np.clip((pieces[each].to_numpy() - first_us) // tick_us, 0, ticks - 1) for each in ("first_us", "last_us")
    )
    rate = pieces[name].to_numpy() / (end - begin + 1)
    np.add.at(steps, begin, rate)
    np.add.at(steps, end + 1, -rate)
    return np.cumsum(np.cumsum(steps[:-1]))


def settings_of(
    journal: Journal, *, period_us: int = PERIOD_US, until_us: int | None = None, survey: Survey | None = None
) -> Settings:
    """`until_us`: the last moment to look at. Unless it is given, that is when the last run ended; in a journal whose
    run was cut, the time of the last record, since nobody knows what came after it."""
    found = survey or Survey.of_journal(journal)
    if found is None:
        raise BadPipeline(f"{journal.place}: the journal is empty; no segment with records was found in it")
    told = told_by(journal)
    if until_us is None:
        until_us = found.last_us if told.ended_us is None else max(found.last_us, told.ended_us)
    if until_us < found.first_us:
        raise BadPipeline(
            f"{journal.place}: its first record is of {found.first_us / 1e6:.6f} s; --until-s is {until_us / 1e6:.6f}"
        )
    first_us = found.first_us // period_us * period_us
    cut = Cut.of(found, first_us, until_us, period_us)
    world = told.world
    return Settings(
        space_of(world["space"]),
        world["neighbour_range_m"],
        graph_of(world["movement_graph"]),
        cut.borders,
        until_us,
        period_us,
        told.cut,
        told.extent,
        sides=cut.sides,
        fences=told.fences,
    )


@dataclass(frozen=True)
class Told:
    """What a journal says of itself."""

    world: dict[str, Any]
    ended_us: int | None
    """When the last run ended."""
    cut: tuple[str, ...]
    extent: Extent
    fences: bool


def told_by(journal: Journal) -> Told:
    """One job for worlds, openings, endings and the extent of publications."""
    # Maps cannot be compared in Spark, so the graph travels as the pairs it is made of, sorted.
    graph = F.to_json(F.sort_array(F.map_entries("movement_graph"))).alias("movement_graph")
    worlds = journal.runs.groupBy("space", "neighbour_range_m", graph).agg(F.min("host").alias("host"))
    ended = journal.notes.where(F.col("what") == RUN_ENDED).select("host", "incarnation", "at_us")
    where = journal.publications.agg(
        F.min("publisher.x").alias("west"),
        F.max("publisher.x").alias("east"),
        F.min("publisher.y").alias("south"),
        F.max("publisher.y").alias("north"),
    )
    fences = journal.notes.agg(F.max(F.col("what") == FENCE_PUT).alias("there"))
    frames = {
        "world": worlds,
        "run": journal.runs.select("host", "incarnation"),
        "end": ended,
        "extent": where,
        "fence": fences,
    }
    found = collected(frames)
    extent = msgspec.convert(found["extent"][0], Extent)
    ended_us = max((line["at_us"] for line in found["end"]), default=None)
    closed = {(line["host"], line["incarnation"]) for line in found["end"]}
    openings = sorted((line["host"], line["incarnation"]) for line in found["run"])
    cut = [f"{host}, opening {number}" for host, number in openings if (host, number) not in closed]
    return Told(
        one_world(journal, found["world"]),
        ended_us,
        tuple(cut[:CUT_MAX]),
        extent,
        any(line.get("there") for line in found["fence"]),
    )


def collected(frames: dict[str, DataFrame]) -> dict[str, list[dict[str, Any]]]:
    """The rows of small frames of any kinds in one job; what is null is left out."""
    lines = [frame.select(F.lit(kind), F.to_json(F.struct("*"))) for kind, frame in frames.items()]
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in frames}
    for kind, line in reduce(DataFrame.union, lines).collect():
        found[kind].append(msgspec.json.decode(line))
    return found


def one_world(journal: Journal, worlds: list[dict[str, Any]]) -> dict[str, Any]:
    """The one description of the world that all runs of a journal must agree on."""
    if not worlds:
        raise BadPipeline(f"{journal.place}: table 'runs' has no rows, so nothing says what the journal is of")
    names = ("space", "neighbour_range_m", "movement_graph")
    one, *others = sorted((dict.fromkeys(names) | world for world in worlds), key=lambda each: str(each["host"]))
    for other in others:
        field = next(name for name in names if one[name] != other[name])
        raise BadPipeline(
            f"{journal.place}: table 'runs', field '{field}': '{one['host']}' and '{other['host']}' differ"
        )
    return one


def graph_of(pairs: str | None) -> MovementGraph | None:
    if pairs is None:
        return None
    return MovementGraph({each["key"]: tuple(each["value"]) for each in msgspec.json.decode(pairs)})
