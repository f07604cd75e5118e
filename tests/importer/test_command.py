"""P1, P3, L6: `roamcast import` as a person meets it, and what the pipeline makes of its journal."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from roamcast.cli.main import app
from roamcast.terminal import EXIT_BAD_INPUT
from tests.importer.given import NOON_US

NOON_S = NOON_US // 1_000_000


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_an_import_says_what_it_did(tmp_path: Path) -> None:
    path = tmp_path / "given.csv"
    path.write_text("taxi,when,lon,lat\na,2024-05-01 20:00:00,116.4,39.9\n,2024-05-01 20:00:00,116.4,39.9\n")
    options = ("--host", "taxi", "--time", "when", "--timezone", "Asia/Shanghai", "--journal", str(tmp_path / "j"))
    code, said, _ = invoke("import", str(path), *options)
    assert code == 0
    assert "2024-05-01 12:00:00 UTC" in said
    assert "dropped: no host" in said
    code, said, _ = invoke("import", str(path), *options[:-1], str(tmp_path / "k"), "--json")
    found = json.loads(said)
    assert (found["hosts"], found["fixes"], found["first_us"], found["dropped"]) == (1, 1, NOON_US, {"no_host": 1})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("gone.csv",), "gone.csv: no such file or directory"),
        (("given.dat",), "its name does not tell its format"),
        (("given.csv", "--format", "kml"), "--format 'kml' is not known; give one of csv, parquet"),
        (("given.csv", "--lon", "east"), "there is no column 'east' for --lon; the columns are id, time, lon, lat"),
        (("given.csv", "--gap", "0"), "--gap is 0; give a finite number above 0"),
        (("given.csv", "--near", "-1"), "--near is -1; give metres above 0"),
        (("given.csv", "--in-gaps", "home"), "--in-gaps 'home' is not known; give one of near, rest, gone, unknown"),
        (("given.csv", "--start", "08:00"), "--start '08:00': give an ISO 8601 time"),
        (("given.csv", "--start", "2026-03-01T08:00:00"), "does not say its time zone; end it with Z"),
        (("given.csv", "given.parquet"), "given.parquet: "),
    ],
)
def test_a_mistake_is_named_with_exit_code_2(
    options: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("given.csv", "given.dat", "given.parquet"):
        Path(name).write_text("id,time,lon,lat\na,1,2,3\n")
    code, _, complaints = invoke("import", *options, "--journal", "j")
    assert (code, said in complaints) == (EXIT_BAD_INPUT, True), complaints
    assert not Path("j/v2").exists()


def commute(number: int) -> str:
    """Three days of somebody who goes to work and back, 1 km in 5 minutes, with the recorder on the way only."""
    rows = []
    for day in range(3):
        for leave_s, west, east in ((8 * 3_600, 0.0, 1.0), (17 * 3_600, 1.0, 0.0)):
            for step in range(31):
                share = west + (east - west) * step / 30
                at_s = NOON_S + day * 86_400 + leave_s + step * 10 + number
                rows.append(f"p{number},{at_s},{24.9 + share * 0.018:.6f},{60.1 + number * 1e-5:.6f}\n")
    return "".join(rows)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("in_gaps", ["near", pytest.param("gone", marks=pytest.mark.slow)])
def test_trips_are_found_where_recorders_were_off_while_people_rested(
    in_gaps: str, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "commute.csv").write_text("id,time,lon,lat\n" + "".join(map(commute, range(4))))
    journal = str(tmp_path / "journal")
    assert invoke("import", str(tmp_path / "commute.csv"), "--journal", journal, "--in-gaps", in_gaps)[0] == 0
    code, said, complaints = invoke("audit", journal, "--json")
    assert (code, complaints) == (0, "")
    assert json.loads(said)["total"]["expected"] == 0
    code, said, _ = invoke("pipeline", "movement", journal, "--rest", "600", "--hold-out", "0", "--json")
    learned = json.loads(said)
    # Six ways each, the ends of five of which are rests: between them the recorder was off.
    assert (code, learned["hosts"], learned["trips"]) == (0, 4, 4 * 4)
