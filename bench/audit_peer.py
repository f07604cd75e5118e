"""What `bench/audit.py` measures as a polars script: `python -m bench.audit_peer JOURNAL` prints its counts as JSON.

It reads the same segments, derives tracks, joins them with events on slots of ten seconds and cells, tests the
circle, compares with deliveries, writes `verdicts`, counts over all, by subject, place, time and delay, and draws the
page. It can do less: no filter, no lifetimes, no other region, and it checks nothing and takes copies twice.
"""

import json
import sys
from pathlib import Path
from typing import Any

from bench.oracle_peers import CELL_M, RADIUS_M, STEP_US

CELLS, SLICES, DELAY_STEPS = 16, 48, 8


def expected(journal: Path) -> Any:
    import polars as pl

    col = pl.col
    moves = pl.scan_parquet(journal / "v2" / "moves" / "*.parquet").filter(col("up")).sort("host", "at_us")
    tracks = moves.select(
        "host", "x", "y", "velocity_east", "velocity_north", from_us=col("at_us"), slot=col("at_us") // STEP_US
    ).with_columns(until_us=col("from_us").shift(-1).over("host"))
    events = pl.scan_parquet(journal / "v2" / "publications" / "*.parquet").select(
        "event_id", "at_us", cx=col("publisher").struct["x"], cy=col("publisher").struct["y"]
    )
    around = pl.LazyFrame({"dx": [-1, -1, -1, 0, 0, 0, 1, 1, 1], "dy": [-1, 0, 1] * 3})
    cells = events.join(around, how="cross").select(
        "event_id",
        "at_us",
        "cx",
        "cy",
        slot=col("at_us") // STEP_US,
        cell_x=(col("cx") / CELL_M).floor().cast(pl.Int64) + col("dx"),
        cell_y=(col("cy") / CELL_M).floor().cast(pl.Int64) + col("dy"),
    )
    ways = tracks.with_columns(
        cell_x=(col("x") / CELL_M).floor().cast(pl.Int64), cell_y=(col("y") / CELL_M).floor().cast(pl.Int64)
    )
    seconds = (col("at_us") - col("from_us")) / 1e6
    away_x = col("x") + col("velocity_east") * seconds - col("cx")
    away_y = col("y") + col("velocity_north") * seconds - col("cy")
    subscribed = pl.scan_parquet(journal / "v2" / "subscriptions" / "*.parquet").select(
        "subscription_id", host=col("subscriber")
    )
    return (
        ways.join(cells, on=["slot", "cell_x", "cell_y"])
        .filter(away_x**2 + away_y**2 <= RADIUS_M * RADIUS_M)
        .join(subscribed, on="host")
        .select("event_id", "subscription_id", subscriber=col("host"), expected_us=col("at_us"))
    )


def verdicts(journal: Path) -> Any:
    import polars as pl

    col = pl.col
    delivered = (
        pl.scan_parquet(journal / "v2" / "deliveries" / "*.parquet")
        .group_by("event_id", "subscription_id")
        .agg(times=pl.len(), delivered_us=col("at_us").min())
    )
    published = pl.scan_parquet(journal / "v2" / "publications" / "*.parquet").select(
        "event_id",
        "subject",
        published_us=col("at_us"),
        x=col("publisher").struct["x"],
        y=col("publisher").struct["y"],
    )
    pairs = expected(journal).join(delivered, on=["event_id", "subscription_id"], how="full", coalesce=True)
    return pairs.join(published, on="event_id", how="left").with_columns(
        latency_us=(col("delivered_us") - col("expected_us")).clip(0)
    )


def lines(found: Any, key: Any) -> list[dict[str, Any]]:
    import polars as pl

    col = pl.col
    there, wanted = col("times").is_not_null(), col("expected_us").is_not_null()
    counts: list[dict[str, Any]] = (
        found.group_by(key.alias("value"))
        .agg(
            expected=wanted.sum(),
            delivered=there.sum(),
            missed=(wanted & ~there).sum(),
            unwanted=(there & ~wanted).sum(),
            duplicates=(col("times") - 1).sum(),
            x=col("x").mean(),
            y=col("y").mean(),
            **{f"latency_p{p}_us": col("latency_us").quantile(p / 100) for p in (50, 90, 99)},
            latency_max_us=col("latency_us").max(),
        )
        .collect()
        .to_dicts()
    )
    return counts


def main(journal: Path) -> None:
    import polars as pl

    from roamcast.spark.ingest import Summary
    from roamcast.spark.page import page
    from roamcast.spark.quality import Quality
    from roamcast.spark.report import Audit, Line

    col = pl.col
    out = journal / "polars"
    out.mkdir(exist_ok=True)
    verdicts(journal).sink_parquet(out / "verdicts.parquet", compression="zstd")
    found = pl.scan_parquet(out / "verdicts.parquet")
    span = found.select(a=col("published_us").min(), b=col("published_us").max(), x=col("x").max(), y=col("y").max())
    first_us, last_us, most_x, most_y = span.collect().row(0)
    slice_us = (last_us - first_us) // SLICES + 1
    place = (col("x") / most_x * CELLS).floor() * CELLS + (col("y") / most_y * CELLS).floor()
    delay = (10 ** ((col("latency_us").clip(1).log10() * DELAY_STEPS).floor() / DELAY_STEPS)).cast(pl.Int64)
    keys = {
        "all": pl.lit("all"),
        "subject": col("subject"),
        "time": (col("published_us") - first_us) // slice_us * slice_us + first_us,
        "delay": delay,
        "place": place,
    }
    counted: dict[str, tuple[Line, ...]] = {}
    for name, key in keys.items():
        made = []
        for row in lines(found, key):
            value = row.pop("value")
            made.append(Line(**row, value=str(value), at_us=value if name in ("time", "delay") else None))
        counted[name] = tuple(made)
    total = counted["all"][0]
    nothing = Quality(Summary(0, 0, 0, 0, 0, 0, ()), (), ())
    times = tuple(sorted(counted["time"], key=lambda line: line.at_us or 0))
    delays = tuple(line for line in counted["delay"] if line.at_us is not None)
    rest = (counted["place"], times, delays, (), nothing)
    audit = Audit(str(journal), "plane", first_us, last_us, 1, total, total.rate, counted["subject"], *rest)
    (out / "index.html").write_text(page(audit))
    print(json.dumps({"total": {"expected": total.expected, "missed": total.missed}}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
