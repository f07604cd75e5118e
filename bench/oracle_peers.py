"""The benchmark's join in other engines: `python -m bench.oracle_peers NAME ROOT` prints what it took, as JSON.

Each reads the same Parquet files, finds where an event's publisher was, joins events and stretches of ways on slots
of ten seconds and cells (sedonadb: by its own spatial join), tests the distance at the event's time exactly, and
writes the pairs to Parquet. Only the circle is tested: no filter, no domain, no lifetimes.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

STEP_US = 10_000_000
RADIUS_M = 482.0
CELL_M = 600.0
"""Above the radius and as far as a host comes in a slot: who is in an audience is at most one cell away."""
REACH_M = 565.0
SHIFT_M = 100_000.0
"""So far apart sedonadb is told that the slots lie: a plane has no time."""

PLACED = f"""
    SELECT e.event_id AS event_id, e.begin_us AS at_us, e.begin_us // {STEP_US} AS slot,
           t.x + t.velocity_east * ((e.begin_us - t.from_us) / 1e6) AS cx,
           t.y + t.velocity_north * ((e.begin_us - t.from_us) / 1e6) AS cy
    FROM events e JOIN tracks t
      ON t.host = e.host AND t.from_us // {STEP_US} = e.begin_us // {STEP_US}"""
NEAR = f"""
    (t.x + t.velocity_east * ((e.at_us - t.from_us) / 1e6) - e.cx)
      * (t.x + t.velocity_east * ((e.at_us - t.from_us) / 1e6) - e.cx)
    + (t.y + t.velocity_north * ((e.at_us - t.from_us) / 1e6) - e.cy)
      * (t.y + t.velocity_north * ((e.at_us - t.from_us) / 1e6) - e.cy) <= {RADIUS_M * RADIUS_M}"""


def duckdb(root: Path, out: Path) -> int:
    import duckdb as engine

    base = engine.connect()
    base.execute("SET threads = 2; SET preserve_insertion_order = false; SET memory_limit = '8GiB'")
    base.execute(f"CREATE VIEW tracks AS SELECT * FROM read_parquet('{root}/tables/tracks/*/*.parquet')")
    base.execute(
        f"CREATE VIEW events AS SELECT event_id, begin_us, publisher.host AS host "
        f"FROM read_parquet('{root}/tables/events/*/*.parquet')"
    )
    cells = f"""
        SELECT e.*, floor(cx / {CELL_M})::INT + dx AS cell_x, floor(cy / {CELL_M})::INT + dy AS cell_y
        FROM ({PLACED}) e, (VALUES (-1), (0), (1)) AS a(dx), (VALUES (-1), (0), (1)) AS b(dy)"""
    base.execute(
        f"""COPY (SELECT e.event_id, t.host AS subscription_id, t.host AS subscriber, e.at_us
        FROM ({cells}) e JOIN tracks t ON t.from_us // {STEP_US} = e.slot
          AND floor(t.x / {CELL_M})::INT = e.cell_x AND floor(t.y / {CELL_M})::INT = e.cell_y
        WHERE {NEAR}) TO '{out}' (FORMAT parquet, COMPRESSION zstd)"""
    )
    found = base.execute(f"SELECT count(*) FROM read_parquet('{out}')").fetchone()
    return int(found[0]) if found else 0


def polars(root: Path, out: Path) -> int:
    import polars as engine

    col = engine.col
    tracks = engine.scan_parquet(f"{root}/tables/tracks/*/*.parquet", hive_partitioning=False).with_columns(
        slot=col("from_us") // STEP_US
    )
    events = engine.scan_parquet(f"{root}/tables/events/*/*.parquet", hive_partitioning=False).select(
        "event_id",
        col("begin_us").alias("at_us"),
        slot=col("begin_us") // STEP_US,
        host=col("publisher").struct["host"],
    )
    here = [
        col("x") + col("velocity_east") * ((col("at_us") - col("from_us")) / 1e6),
        col("y") + col("velocity_north") * ((col("at_us") - col("from_us")) / 1e6),
    ]
    placed = events.join(tracks, on=["host", "slot"]).select("event_id", "at_us", "slot", cx=here[0], cy=here[1])
    around = engine.LazyFrame({"dx": [-1, -1, -1, 0, 0, 0, 1, 1, 1], "dy": [-1, 0, 1] * 3})
    cells = placed.join(around, how="cross").select(
        "event_id",
        "at_us",
        "slot",
        "cx",
        "cy",
        cell_x=(col("cx") / CELL_M).floor().cast(engine.Int64) + col("dx"),
        cell_y=(col("cy") / CELL_M).floor().cast(engine.Int64) + col("dy"),
    )
    ways = tracks.with_columns(
        cell_x=(col("x") / CELL_M).floor().cast(engine.Int64), cell_y=(col("y") / CELL_M).floor().cast(engine.Int64)
    )
    squared = (here[0] - col("cx")) ** 2 + (here[1] - col("cy")) ** 2
    pairs = ways.join(cells, on=["slot", "cell_x", "cell_y"]).filter(squared <= RADIUS_M * RADIUS_M)
    pairs.select("event_id", subscription_id=col("host"), subscriber=col("host"), at_us=col("at_us")).sink_parquet(
        out, compression="zstd"
    )
    return int(engine.scan_parquet(out).select(engine.len()).collect().item())


def sedonadb(root: Path, out: Path) -> int:
    import pyarrow.parquet as pq
    import sedonadb as engine

    base = engine.connect()
    files = sorted(str(path) for path in (root / "tables" / "tracks").glob("*/*.parquet"))
    base.read_parquet(files).to_view("tracks")
    events = pq.read_table(
        root / "tables" / "events", columns=["event_id", "begin_us", "publisher"], partitioning=None
    )
    flat = events.select(["event_id", "begin_us"]).append_column(
        "host", events["publisher"].combine_chunks().field("host")
    )
    base.create_data_frame(flat).to_view("events")
    placed = PLACED.replace("//", "/")
    base.sql(f"SELECT *, ST_Point(cx + slot * {SHIFT_M}, cy) AS place FROM ({placed})").to_memtable().to_view(
        "placed"
    )
    found = base.sql(
        f"""SELECT e.event_id, t.host AS subscription_id, t.host AS subscriber, e.at_us
        FROM (SELECT *, ST_Point(x + (from_us / {STEP_US}) * {SHIFT_M}, y) AS place FROM tracks) t JOIN placed e
          ON ST_DWithin(t.place, e.place, {REACH_M}) WHERE {NEAR}"""
    )
    found.to_parquet(str(out))
    return int(pq.read_metadata(out).num_rows) if out.is_file() else int(pq.read_table(out, columns=[]).num_rows)


PEERS: dict[str, Callable[[Path, Path], int]] = {"duckdb": duckdb, "polars": polars, "sedonadb": sedonadb}


def peak_mb() -> float:
    """Of this process alone; what `getrusage` says includes its parent before the start."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main(name: str, root: Path) -> None:
    try:
        __import__(name)
    except ImportError as problem:
        sys.exit(f"{problem}; pip install 'roamcast[bench]'")
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    pairs = PEERS[name](root, root / f"{name}.parquet")
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    figures = {"wall_s": time.perf_counter() - started, "cpu_s": cpu_s, "pairs": pairs, "all_mb": peak_mb()}
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
