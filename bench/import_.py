"""How fast `roamcast import` takes a year of people's traces, like those of Geolife: CSV and Parquet.

People go between a few places of their own, some trips a day, and their recorders run on the way only: a fix every
one to five seconds with some metres of noise. `ROAMCAST_BENCH_FIXES` says how many; Geolife has 24 million.
"""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from bench.progress import note
from roamcast.importer.fixes import Reading, Times
from roamcast.importer.running import import_files

TAKES = "25 s"
FIXES = int(os.environ.get("ROAMCAST_BENCH_FIXES", "2000000"))
PEOPLE = 182
DAYS = 365
START_S = 1_704_067_200
CENTRE = (116.40, 39.90)
PLACES = 6
SPEEDS_MPS = (1.4, 4.5, 11.0)
"""On foot, by bicycle, by car or bus."""
NOISE_DEGREES = 2e-5
METRES_PER_DEGREE = (85_300.0, 111_000.0)


def person(number: int, fixes: int, rng: np.random.Generator) -> Any:
    """One person's year as columns: user, time, lat, lon."""
    step_s = float(rng.integers(1, 6))
    places = np.array(CENTRE) + rng.normal(0, 0.04, (PLACES, 2))
    times: list[npt.NDArray[Any]] = []
    points: list[npt.NDArray[Any]] = []
    day_fixes = fixes // DAYS
    for day in range(DAYS):
        now_s, here, made = START_S + day * 86_400 + 7 * 3_600 + rng.uniform(0, 3_600), 0, 0
        while made < day_fixes:
            there = int(rng.integers(0, PLACES))
            metres = np.hypot(*((places[there] - places[here]) * METRES_PER_DEGREE))
            steps = max(10, int(metres / rng.choice(SPEEDS_MPS) / step_s))
            count = min(day_fixes - made, steps)
            share = (np.arange(count) / steps)[:, None]
            points.append(places[here] * (1 - share) + places[there] * share)
            times.append(now_s + np.arange(count) * step_s)
            made, here = made + count, there
            now_s += count * step_s + rng.uniform(900, 3 * 3_600)
    where = np.concatenate(points) + rng.normal(0, NOISE_DEGREES, (sum(map(len, times)), 2))
    when = pa.array((np.concatenate(times) * 1_000).astype(np.int64)).cast(pa.timestamp("ms"))
    user = pa.DictionaryArray.from_arrays(np.zeros(len(when), np.int32), pa.array([f"{number:03d}"]))
    return pa.table(
        {"user": user.cast(pa.string()), "time": when, "lat": where[:, 1].round(6), "lon": where[:, 0].round(6)}
    )


def year(fixes: int, seed: int = 1) -> Iterator[Any]:
    rng = np.random.default_rng(seed)
    return (person(number, fixes // PEOPLE, rng) for number in range(PEOPLE))


def write_year(directory: Path, fixes: int) -> int:
    """The same fixes as `year.csv` and `year.parquet`; answers how many."""
    rows = 0
    people = year(fixes)
    first = next(people)
    with (
        arrow_csv.CSVWriter(directory / "year.csv", first.schema) as as_csv,
        pq.ParquetWriter(directory / "year.parquet", first.schema) as as_parquet,
    ):
        for each in (first, *people):
            as_csv.write(each)
            as_parquet.write(each)
            rows += each.num_rows
    return rows


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        rows = write_year(directory, FIXES)
        reading = Reading(times=Times(timezone="Asia/Shanghai"))
        for kind in ("csv", "parquet"):
            began, used = time.perf_counter(), time.process_time()
            found = import_files([directory / f"year.{kind}"], directory / f"journal-{kind}", reading=reading)
            wall_s, cpu_s = time.perf_counter() - began, time.process_time() - used
            print(
                f"{kind}: {rows:,} fixes of {found.hosts} people in {wall_s:.1f} s ({cpu_s:.1f} CPU s), "
                f"{rows / wall_s:,.0f} fixes/s, {found.gaps:,} gaps"
            )
            figures |= {f"{kind}_fixes_per_s": rows / wall_s, f"{kind}_us_per_fix_cpu": cpu_s / rows * 1e6}
            note(figures)
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {figures['peak_mb']:,.0f} MB")
    return figures


if __name__ == "__main__":
    if len(sys.argv) == 2:
        # python -m bench.import_ DIRECTORY leaves the data there.
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        print(f"{write_year(Path(sys.argv[1]), FIXES):,} fixes in {sys.argv[1]}")
    else:
        main()
