"""What a journal is of, and how finely to cut it: the settings of all jobs, from the ledger and the table `runs`.

Only small answers come back from Spark here: how many records there are, from when to when, of how many hosts, and
the one description of the world that all runs of a journal must agree on.
"""

from dataclasses import dataclass

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.journal.plain import space_of
from roamcast.journal.records import RUN_ENDED
from roamcast.model.places import MovementGraph
from roamcast.pipeline.job import BadPipeline, Settings
from roamcast.pipeline.store import Store
from roamcast.pipeline.tables import NOTES, RUNS, SEGMENTS, SUBSCRIPTIONS

PERIOD_US = 100_000
"""As the ideal system of a simulation looks at what lasts: ten times a second."""
MOVES_PER_BUCKET = 200_000
MOVES_PER_HOST = 4
"""At least so many of each host in a bucket: a stretch is in every bucket that it touches, fewer would double it."""
BUCKETS_MIN = 4
INDEXED_MAX = 5_000_000
"""Publications and subscriptions that an index may hold, at some hundred bytes each; more are joined by sorting."""
FILTERS_MAX = 32
SLOTS_MAX = 64
BUCKETS_MAX = 10_000
CUT_MAX = 5
"""Openings without an end that are named."""


@dataclass(frozen=True)
class Survey:
    records: int
    moves: int
    wishes: int
    """Publications and subscriptions."""
    hosts: int
    first_us: int
    last_us: int


def survey(store: Store) -> Survey:
    segments = store.read(SEGMENTS)
    moves = F.when(F.col("table") == "moves", F.col("rows"))
    wishes = F.when(F.col("table").isin("publications", "subscriptions"), F.col("rows"))
    found = segments.agg(F.sum("rows"), F.sum(moves), F.min("first_us"), F.max("last_us"), F.sum(wishes)).first()
    of_moves = segments.where(F.col("table") == "moves").select(F.explode("ranges.host").alias("host"))
    hosts = of_moves.agg(F.approx_count_distinct("host")).first()
    assert found is not None
    assert hosts is not None
    if found[2] is None:
        raise BadPipeline(f"{store.journal}: the journal is empty; no segment with records was found in it")
    return Survey(found[0], found[1] or 0, found[4] or 0, hosts[0], found[2], found[3])


def settings_of(
    store: Store, *, period_us: int = PERIOD_US, until_us: int | None = None, join: str = "auto"
) -> Settings:
    """`until_us`: the last moment to look at. Unless it is given, that is when the last run ended; in a journal whose
    run was cut, the time of the last record, since nobody knows what came after it."""
    found = survey(store)
    space, neighbour_range_m, graph = world_of(store)
    ended_us, cut = endings(store)
    if until_us is None:
        until_us = found.last_us if ended_us is None else max(found.last_us, ended_us)
    if until_us < found.first_us:
        raise BadPipeline(
            f"{store.journal}: its first record is of {found.first_us / 1e6:.6f} s; --until-s is {until_us / 1e6:.6f}"
        )
    first_us = found.first_us // period_us * period_us
    if join == "auto":
        join = "merge" if found.wishes > INDEXED_MAX else "index"
    bucket_us = bucket_width_us(found, until_us - first_us + 1, period_us)
    share = bucket_us / max(1, until_us - first_us + 1)
    return Settings(
        space_of(space),
        neighbour_range_m,
        graph,
        first_us,
        until_us,
        bucket_us,
        period_us,
        cut,
        join=join,
        filters=commonest_filters(store) if join == "merge" else (),
        slots_per_bucket=min(SLOTS_MAX, max(1, round(found.moves * share / max(1, found.hosts)))),
    )


def commonest_filters(store: Store) -> tuple[str, ...]:
    """The texts of the filters that most subscriptions have, in an order that does not change."""
    counted = store.read(SUBSCRIPTIONS).where("filter IS NOT NULL").groupBy("filter").count()
    rows = counted.orderBy(F.desc("count"), "filter").limit(FILTERS_MAX).collect()
    return tuple(row["filter"] for row in rows)


def endings(store: Store) -> tuple[int | None, tuple[str, ...]]:
    """When the last run ended, and the first few openings of the journal that never said so, by their writers."""
    # Old segments may have been removed from a journal, and a table without any is not there.
    notes = store.read(NOTES) if store.exists(NOTES) else store.spark.createDataFrame([], NOTES.struct)
    said = notes.where(F.col("what") == RUN_ENDED).select("host", "incarnation", F.col("at_us").alias("end"))
    openings = store.read(RUNS).select("host", "incarnation").join(said, ["host", "incarnation"], "left")
    last = openings.agg(F.max("end")).first()
    assert last is not None
    cut = openings.where("end IS NULL").orderBy("host", "incarnation").limit(CUT_MAX).collect()
    return last[0], tuple(f"{row['host']}, opening {row['incarnation']}" for row in cut)


def world_of(store: Store) -> tuple[str, float, MovementGraph | None]:
    """Space, range of neighbours and movement graph."""
    nothing = BadPipeline(f"{store.journal}: table 'runs' has no rows, so nothing says what the journal is of")
    if not store.exists(RUNS):
        raise nothing
    runs = store.read(RUNS)
    # Maps cannot be compared in Spark, so the graph travels as the pairs it is made of, sorted.
    graph = F.to_json(F.sort_array(F.map_entries("movement_graph")))
    worlds = runs.select("space", "neighbour_range_m", "movement_graph", graph.alias("graph"), "host")
    distinct = worlds.dropDuplicates(["space", "neighbour_range_m", "graph"]).orderBy("host").limit(2).collect()
    if not distinct:
        raise nothing
    one = distinct[0]
    for other in distinct[1:]:
        field = next(name for name in ("space", "neighbour_range_m", "movement_graph") if one[name] != other[name])
        raise BadPipeline(
            f"{store.journal}: table 'runs', field '{field}': '{one['host']}' and '{other['host']}' differ"
        )
    places = one["movement_graph"]
    neighbours = None if places is None else MovementGraph({place: tuple(near) for place, near in places.items()})
    return one["space"], one["neighbour_range_m"], neighbours


def bucket_width_us(found: Survey, span_us: int, period_us: int) -> int:
    rows = max(MOVES_PER_BUCKET, MOVES_PER_HOST * found.hosts)
    buckets = min(BUCKETS_MAX, max(BUCKETS_MIN, found.moves // rows))
    return -(-span_us // (buckets * period_us)) * period_us
