"""P1: CSV, Parquet and GeoParquet become moves, with their hosts and times; mistakes say what to do."""

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from roamcast.importer.asking import Asked
from roamcast.importer.fixes import BadImport, Columns, Reading, Times
from roamcast.importer.intake import Drop
from roamcast.journal import ContextChange, read_records, read_run
from roamcast.model.space import Earth, Plane
from tests.effort import examples
from tests.importer.given import NOON_US, imported, moves_of, places

ROW = "a,2024-05-01T12:00:00Z,24.9,60.1\n"


def test_csv_keeps_hosts_and_times_and_puts_rows_in_order(tmp_path: Path) -> None:
    text = "id,time,lon,lat\nb,2024-05-01T12:00:30Z,24.9,60.1\na,2024-05-01T14:00:20+02:00,24.8,60.2\n" + ROW
    assert places(moves_of(text, tmp_path)) == [
        ("a", NOON_US, 24.9, 60.1),
        ("a", NOON_US + 20_000_000, 24.8, 60.2),
        ("b", NOON_US + 30_000_000, 24.9, 60.1),
    ]
    assert (read_run(tmp_path / "journal").space, read_run(tmp_path / "journal").seed) == (Earth(), None)


def test_columns_are_named_by_options(tmp_path: Path) -> None:
    columns = Columns(host="who", time="when", lon="east", lat="north")
    text = "who,when,east,north,lon\n7,2024-05-01T12:00:00Z,24.9,60.1,0\n"
    assert places(moves_of(text, tmp_path, Reading(columns=columns))) == [("7", NOON_US, 24.9, 60.1)]


def test_metres_make_a_plane_and_small_times_a_simulation(tmp_path: Path) -> None:
    assert places(moves_of("node;t;x;y\nn;1.5;10;20\n", tmp_path)) == [("n", 1_500_000, 10, 20)]
    run = read_run(tmp_path / "journal")
    assert (run.space, run.seed) == (Plane(), 0)


def test_start_makes_the_times_of_a_simulation_absolute(tmp_path: Path) -> None:
    reading = Reading(times=Times(start_us=NOON_US))
    assert places(moves_of("node,t,x,y\nn,1.5,10,20\n", tmp_path, reading)) == [("n", NOON_US + 1_500_000, 10, 20)]
    assert read_run(tmp_path / "journal").seed is None


@pytest.mark.parametrize("digits", ["1714564800", "1714564800000", "1714564800000000", "1714564800000000000"])
def test_the_unit_of_numbers_is_told_by_their_size(digits: str, tmp_path: Path) -> None:
    assert places(moves_of(f"id,time,lon,lat\na,{digits},1,2\n", tmp_path)) == [("a", NOON_US, 1, 2)]


def test_a_given_unit_wins(tmp_path: Path) -> None:
    reading = Reading(times=Times(unit="ms"))
    assert places(moves_of("id,time,x,y\na,1500,1,2\n", tmp_path, reading)) == [("a", 1_500_000, 1, 2)]


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("2024-05-01 15:00:00", Times(timezone="Europe/Helsinki")),
        ("01/05/2024 12:00:00", Times(timezone="UTC", format="%d/%m/%Y %H:%M:%S")),
    ],
)
def test_a_time_without_a_zone_is_in_the_one_that_is_given(text: str, times: Times, tmp_path: Path) -> None:
    assert moves_of(f"id,time,lon,lat\na,{text},1,2\n", tmp_path, Reading(times=times))[0].at_us == NOON_US


def test_date_and_time_may_be_two_columns(tmp_path: Path) -> None:
    reading = Reading(columns=Columns(time="date+clock"), times=Times(timezone="UTC"))
    assert moves_of("id,date,clock,lon,lat\na,2024-05-01,12:00:00,1,2\n", tmp_path, reading)[0].at_us == NOON_US


def test_csv_without_a_header_or_host_is_named_by_its_path(tmp_path: Path) -> None:
    reading = Reading(names=("lat", "lon", "time"), skip_lines=1, host_name="{parent}/{stem}")
    found = moves_of("written by hand\n60.1,24.9,1714564800\n", tmp_path, reading)
    assert places(found) == [(f"{tmp_path.name}/given", NOON_US, 24.9, 60.1)]


def test_csv_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "given.csv.gz"
    path.write_bytes(gzip.compress(("id,time,lon,lat\n" + ROW).encode()))
    assert places(imported(path, tmp_path / "journal")[1]) == [("a", NOON_US, 24.9, 60.1)]


def test_geolife_directories_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "Data" / "007" / "Trajectory" / "20240501.plt"
    path.parent.mkdir(parents=True)
    path.write_text("x\n" * 6 + "39.9,116.4,0,492,45413.5,2024-05-01,12:00:00\n")
    assert places(imported(tmp_path / "Data", tmp_path / "journal")[1]) == [("007", NOON_US, 116.4, 39.9)]


@pytest.mark.parametrize(
    ("text", "reading", "said"),
    [
        ("id,time,a,b\n", Reading(), "no column is known as the position; the columns are id, time, a, b; name it w"),
        (
            "id,t,lon,lat\n",
            Reading(columns=Columns(time="at")),
            "no column 'at' for --time; the columns are id, t, lon",
        ),
        (
            "id,time,lon,lat\na,2024-05-01T12:00:00,1,2\n",
            Reading(),
            "does not say its time zone; give it, for example",
        ),
        ("id,time,lon,lat\na,1.5.24,1,2\n", Reading(), "give their form, for example --time-format"),
        ("id,name,time,lon,lat\na,b,1,1,2\n", Reading(), "id and name could all be the host; say which with --host"),
        ("time,lon,lat\n1,1,2\n", Reading(), "no column is known as the host"),
        ("id,time,lon,lat\na,1,60,116\n", Reading(), "seem to be swapped: exchange --lon and --lat"),
        (
            "id,time,lon,lat\na,1,385000,6672000\n",
            Reading(),
            "if these are metres, name the columns with --x and --y",
        ),
        ("id,time,lon,lat\na,1,east,2\n", Reading(), "invalid value 'east'"),
        ("id,time,lon,lat\n,1,1,2\n", Reading(), "no fix was found in .*1 rows: no_host"),
        ("", Reading(), "the file is empty"),
        (
            "id,time,lon,lat\na,2024-05-01T12:00:00,1,2\n",
            Reading(times=Times(timezone="Mars")),
            "--timezone 'Mars' is not known",
        ),
        ("time,lon,lat\n1,1,2\n", Reading(host_name="{dir}"), "only {stem}, {parent} and {grandparent}"),
    ],
)
def test_a_mistake_says_what_to_do(text: str, reading: Reading, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadImport, match=said):
        moves_of(text, tmp_path, reading)
    assert list((tmp_path / "journal").iterdir()) == []


def geoparquet(path: Path, crs: dict[str, Any] | None, geometry: Any) -> None:
    described = {"encoding": "WKB", "geometry_types": ["Point"], **({} if crs is None else {"crs": crs})}
    about = {"version": "1.1.0", "primary_column": "where", "columns": {"where": described}}
    when = pa.array([NOON_US], pa.timestamp("us", "UTC"))
    table = pa.table({"id": pa.array([7]), "time": when, "where": geometry, "lon": [0.0], "lat": [0.0]})
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(about)}), path)


@pytest.mark.parametrize(
    "geometry",
    [pa.array([shapely.to_wkb(shapely.Point(24.9, 60.1))]), pa.array([{"x": 24.9, "y": 60.1}])],
    ids=["wkb", "geoarrow"],
)
def test_geoparquet_is_read_by_its_points(geometry: Any, tmp_path: Path) -> None:
    geoparquet(tmp_path / "g.parquet", None, geometry)
    assert places(imported(tmp_path / "g.parquet", tmp_path / "journal")[1]) == [("7", NOON_US, 24.9, 60.1)]


def test_geoparquet_of_another_reference_system_is_refused(tmp_path: Path) -> None:
    crs = {"id": {"authority": "EPSG", "code": 3067}}
    geoparquet(tmp_path / "g.parquet", crs, pa.array([shapely.to_wkb(shapely.Point(385_000, 6_672_000))]))
    with pytest.raises(BadImport, match=r"EPSG:3067, not longitude and latitude .* to_crs\(4326\)"):
        imported(tmp_path / "g.parquet", tmp_path / "journal")


def test_geoparquet_of_lines_is_refused(tmp_path: Path) -> None:
    geoparquet(tmp_path / "g.parquet", None, pa.array([shapely.to_wkb(shapely.LineString([(0, 0), (1, 1)]))]))
    with pytest.raises(BadImport, match="other shapes than points"):
        imported(tmp_path / "g.parquet", tmp_path / "journal")


fixes = st.lists(
    st.tuples(
        st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=4),
        st.integers(NOON_US, NOON_US + 10**12),
        st.floats(1, 179),
        st.floats(1, 80),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda each: each[:2],
)


@given(fixes, st.sampled_from(["csv", "parquet"]))
@examples(60)
def test_what_is_exported_is_imported_as_it_was(rows: list[tuple[str, int, float, float]], kind: str) -> None:
    hosts, times, lons, lats = (list(each) for each in zip(*rows, strict=True))
    table = pa.table({"host": hosts, "time_us": times, "lon": lons, "lat": lats})
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / f"exported.{kind}"
        arrow_csv.write_csv(table, path) if kind == "csv" else pq.write_table(table, path)
        found, moves = imported(path, Path(name) / "journal")
    outliers = found.dropped.get(Drop.OUTLIER, 0)
    assert found.fixes + outliers == len(rows)
    assert set(places(moves)) <= set(rows)
    assert len(places(moves)) == found.fixes
    if not outliers:
        assert sorted(places(moves)) == sorted(rows)


def test_a_host_may_be_called_null_and_a_time_may_be_missing(tmp_path: Path) -> None:
    rows = ["host,time_us,lon,lat", f"null,{NOON_US},1,2", f",{NOON_US},1,2", "van,NA,1,2"]
    (tmp_path / "f.csv").write_text("\n".join(rows))
    found, _ = imported(tmp_path / "f.csv", tmp_path / "journal")
    assert (found.fixes, found.dropped) == (1, {Drop.NO_HOST: 1, Drop.NO_TIME: 1})


def test_columns_become_attributes_that_change_with_time(tmp_path: Path) -> None:
    """In order of time, though not of rows; a cell that is empty takes the attribute away."""
    text = "id,time,x,y,Type,seats\na,2,0,0,bus,40\na,1,0,0,bus,30\na,3,0,0,bus,40\nb,1,0,0,,4\nb,2,0,0,taxi,4\n"
    moves_of(text, tmp_path, Reading(attributes={"kind": "Type", "seats": "seats"}))
    records = list(read_records(tmp_path / "journal", ContextChange))
    assert [(each.host, each.at_us // 1_000_000, each.attributes) for each in records] == [
        ("a", 1, {"kind": "bus", "seats": 30}),
        ("b", 1, {"seats": 4}),
        ("a", 2, {"kind": "bus", "seats": 40}),
        ("b", 2, {"kind": "taxi", "seats": 4}),
    ]


def test_an_attribute_names_its_column(tmp_path: Path) -> None:
    with pytest.raises(
        BadImport, match="there is no column 'colour' for --attribute; the columns are id, time, x, y"
    ):
        moves_of("id,time,x,y\na,1,0,0\n", tmp_path, Reading(attributes={"colour": "colour"}))
    with pytest.raises(BadImport, match="'a b' is not a valid attribute name"):
        Asked(columns={}, attributes=("a b=c",)).reading()
