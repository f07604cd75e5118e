"""L4: fixed places, recorded traces and simulated movement behind one interface, made from one line of text."""

import asyncio
import math
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from roamcast.model.space import Earth, Plane, Space
from roamcast.model.values import Point
from roamcast.movement import BadSource, Cleaner, Fix, Limits, Reason, Source, source
from roamcast.movement.following import positions
from roamcast.movement.legs import Track
from roamcast.movement.traces import load_trace
from roamcast.sim.scenario import load_scenario
from tests.effort import examples
from tests.movement.clocks import SECOND_US, START_US, Given, TestClock, first

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "scenarios/traces"


def played(text: str, count: int = 1_000, clock: TestClock | None = None) -> list[Fix]:
    return asyncio.run(first(source(text, clock=clock or TestClock()), count))


def seconds(fixes: list[Fix]) -> list[float]:
    return [(fix.at_us - START_US) / SECOND_US for fix in fixes]


def csv(tmp_path: Path, *rows: str, header: str = "host,time,x,y") -> str:
    path = tmp_path / "t.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return f"trace:{path}"


def test_l4_a_fixed_place_is_told_again_before_it_counts_as_lost() -> None:
    fixes = played("fixed:24.94,60.17", 3)
    assert {fix.position for fix in fixes} == {(24.94, 60.17)}
    assert {fix.speed_mps for fix in fixes} == {0.0}
    assert max(seconds(fixes)[1:]) / 2 < Limits().gap_us / SECOND_US


@pytest.mark.parametrize("name", ["square.csv", "square.fcd.xml", "square.gpx"])
def test_l4_every_format_plays_the_fixes_that_were_recorded(name: str) -> None:
    path = TRACES / name
    host, recorded = next(iter(load_trace(path).hosts.items()))
    fixes = played(f"trace:{path}#{host}")
    track = Track(recorded.legs())
    origin = load_trace(path).origin
    assert len(fixes) > 3
    for fix in fixes:
        expected = track.position_at(fix.at_us - START_US)
        found = fix.point if origin is None else Point(*Earth().offset_m(origin, fix.point))
        assert (found.x, found.y) == pytest.approx((expected.x, expected.y), abs=1e-3)


def test_l4_between_the_waypoints_of_bonnmotion_a_node_goes_straight_with_speed_and_heading(tmp_path: Path) -> None:
    path = tmp_path / "two.movements"
    path.write_text("0 0 0 10 100 0\n0 5 5\n")
    fixes = played(f"trace:{path}#0", 12)
    assert [round(fix.position[0]) for fix in fixes] == [*range(0, 101, 10), 100]
    assert (fixes[3].speed_mps, fixes[3].heading_deg) == (10.0, 90.0)
    assert (fixes[11].speed_mps, fixes[11].heading_deg) == (0.0, None)


def test_l4_a_trace_plays_at_its_own_pace_or_faster(tmp_path: Path) -> None:
    text = csv(tmp_path, "a,100,0,0", "a,102,2,0", "a,105,5,0")
    assert seconds(played(text)) == [0, 2, 5]
    assert seconds(played(text + "?speed=2")) == [0, 1, 2.5]


def test_l4_hosts_of_one_file_keep_their_times_to_each_other(tmp_path: Path) -> None:
    text = csv(tmp_path, "a,100,0,0", "b,107,1,0", "b,108,2,0")
    assert seconds(played(text + "#b")) == [7, 8]
    assert seconds(played(text + "#b?begin_s=7")) == [0, 1]


def test_l4_a_loop_begins_again_a_second_after_the_end(tmp_path: Path) -> None:
    text = csv(tmp_path, "a,0,0,0", "a,2,2,0")
    assert seconds(played(text + "?loop", 5)) == [0, 2, 3, 5, 6]
    walked = tmp_path / "w.movements"
    walked.write_text("0 0 0 3 3 0\n")
    assert [fix.position[0] for fix in played(f"trace:{walked}?loop", 7)] == [0, 1, 2, 0, 1, 2, 0]


def test_l4_what_was_measured_wrongly_is_played_and_found_by_the_cleaner(tmp_path: Path) -> None:
    rows = ("a,0,24,60", "a,1,nan,60", "a,2,24,99", "a,1,24,60", "a,3,24,60")
    fixes = played(csv(tmp_path, *rows, header="host,time,lon,lat"))
    assert seconds(fixes) == [0, 1, 2, 1, 3]
    cleaner = Cleaner(Earth())
    assert [cleaner.add(fix) is not None for fix in fixes] == [True, False, False, True, True]
    assert cleaner.counts[Reason.OUT_OF_RANGE] == 2


@pytest.mark.parametrize(("wrong", "at"), [("1970-01-06T00:00:00Z", 0), ("2080-01-06T00:00:00Z", 2)])
def test_l4_nobody_waits_decades_for_a_clock_that_was_wrong(tmp_path: Path, wrong: str, at: int) -> None:
    times = [f"2024-05-04T08:00:0{second}Z" for second in range(4)]
    times[at] = wrong
    fixes = played(csv(tmp_path, *(f"a,{time},{place},0" for place, time in enumerate(times))))
    assert [fix.position[0] for fix in fixes] == [0, 1, 2, 3]
    assert max(seconds(fixes)) < 5


def test_l4_an_origin_puts_metres_on_earth(tmp_path: Path) -> None:
    text = csv(tmp_path, "a,0,0,0", "a,1,30,40") + "?origin=24.94,60.17"
    one, other = played(text)
    assert one.position == (24.94, 60.17)
    assert Earth().distance_m(one.point, other.point) == pytest.approx(50, abs=0.01)


def test_l4_a_host_of_a_scenario_moves_as_it_does_in_a_run() -> None:
    path = ROOT / "scenarios/town.toml"
    group = load_scenario(path).hosts[0]
    track = Track(group.mobility.legs(random.Random("7/mobility/car-3"), 2, 60))
    for fix in played(f"simulated:{path}#car-3?seed=7", 30):
        leg = track.leg_at(fix.at_us - START_US)
        assert fix.point == leg.position_at(fix.at_us - START_US)
        assert fix.speed_mps == pytest.approx(leg.velocity.speed)


@pytest.mark.parametrize(
    "text",
    [
        "simulated:random-waypoint, width_m = 100, height_m = 50, speed_min_mps = 1, speed_max_mps = 2",
        'simulated:{kind = "random-waypoint", width_m = 100, height_m = 50, speed_min_mps = 1, speed_max_mps = 2}',
    ],
)
def test_l4_a_model_of_movement_is_named_by_its_table(text: str) -> None:
    fixes = played(text, 50)
    assert fixes == played(text, 50)
    assert all(0 <= fix.position[0] <= 100 and 0 <= fix.position[1] <= 50 for fix in fixes)
    assert all(fix.speed_mps is not None and 0.99 < fix.speed_mps < 2.01 for fix in fixes)
    assert seconds(fixes) == list(range(50))


@pytest.mark.parametrize(
    "text",
    [
        'simulated:static, placement = {kind = "at", points = [[3, 4]]}',
        'simulated:static, placement = {kind = "at", points = [[3, 4]]}?seed=3&speed=2',
        'simulated:{kind = "static", placement = {kind = "at", points = [[3, 4]]}}?seed=3',
    ],
)
def test_l4_a_table_within_the_table_and_options_behind_it_are_understood(text: str) -> None:
    assert played(text, 1)[0].position == (3.0, 4.0)


def test_l4_a_file_in_a_table_does_not_make_it_a_scenario() -> None:
    with pytest.raises(BadSource, match=r"gone\.toml"):
        source("simulated:{kind = 'trace', path = 'gone.toml', trace_kind = 'csv'}")


measured = st.one_of(
    st.floats(-200, 200).map(repr), st.sampled_from(["nan", "inf", "-inf", "1e300", "", "x", "0x1", "1e-400"])
)
measured_at = st.one_of(st.integers(0, 50).map(str), st.sampled_from(["1970-01-01T00:00:00Z", "-5", "1e9", "soon"]))
csv_rows = st.lists(st.tuples(measured_at, measured, measured), max_size=8)


@given(csv_rows, st.sampled_from(["x,y", "lon,lat"]), st.booleans())
@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_l4_whatever_was_recorded_plays_to_its_end_or_is_refused_at_once(
    tmp_path: Path, rows: list[tuple[str, str, str]], columns: str, on_earth: bool
) -> None:
    text = csv(tmp_path, *(",".join(("a", *row)) for row in rows), header=f"host,time,{columns}")
    placed = on_earth and columns == "x,y"
    try:
        fixes = played(text + ("?origin=24.94,60.17" if placed else ""))
    except BadSource:
        return
    assert len(fixes) == len(rows)
    cleaner = Cleaner(Earth() if placed or columns == "lon,lat" else Plane())
    for fix in fixes:
        cleaner.add(fix)


def test_l4_other_seeds_walk_elsewhere_and_at_another_pace() -> None:
    text = "simulated:{kind='random-waypoint',width_m=100,height_m=50,speed_min_mps=1,speed_max_mps=2}"
    assert played(text + "?seed=1", 1) != played(text + "?seed=2", 1)
    speed_mps = played(text + "?speed=3", 1)[0].speed_mps
    assert speed_mps is not None
    assert speed_mps > 2.9


BAD = [
    ("here", "it begins with one of fixed:, trace:, simulated:, gpsd:"),
    ("gps:1", "it begins with one of"),
    ("fixed:", "give two numbers, such as 24.94,60.17"),
    ("fixed:1,2,3", "give two numbers"),
    ("fixed:1,inf", "is not a position"),
    ("trace:", "the file is missing"),
    ("trace:gone.csv", "gone.csv: No such file or directory"),
    ("trace:gone.txt", "use .xml, .gpx, .csv, .movements; or say kind=csv"),
    ("trace:gone.movements", "gone.movements: No such file or directory"),
    ("trace:a.csv?kind=kml", "there is no kind 'kml' (known: fcd, fcd-geo, gpx, csv, bonnmotion)"),
    ("trace:a.csv?sped=2", "there is no option 'sped' (known here: speed, begin_s, loop, origin, kind)"),
    ("trace:a.csv?speed=fast", "speed is 'fast'; give a number"),
    ("trace:a.csv?speed=0", "speed is 0.0; give 0.001 to 1000"),
    ("trace:a.csv?loop=yes", "loop is there or is not"),
    ("trace:a.csv?origin=1", "origin is '1'; give two numbers"),
    ("trace:a.csv?origin=1,91", "latitude -90 to 90"),
    ("trace:a.csv?loop&loop", "option 'loop' appears twice"),
    ("simulated:running", "kind: there is no 'running' (allowed: random-waypoint, static"),
    ("simulated:static", "missing key 'placement'"),
    ("simulated:{kind=}", "is not a TOML table"),
    ("simulated:gone.toml#car", "gone.toml: cannot be read"),
    ("simulated:{kind='trace',path='gone.csv'}", "gone.csv"),
    ("simulated:a.toml?seed=x", "seed is 'x'; give an integer"),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_l4_a_source_that_cannot_be_had_says_why(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadSource) as problem:
        source(text)
    assert said in str(problem.value)


def test_l4_which_host_of_a_file_is_meant_must_be_said_if_there_are_several(tmp_path: Path) -> None:
    text = csv(tmp_path, "a,0,0,0", "b,0,0,0")
    with pytest.raises(BadSource, match=r"say which of its 2 hosts; write t\.csv#HOST with one of a, b"):
        source(text)
    with pytest.raises(BadSource, match="there is no host 'c'"):
        source(text + "#c")
    scenario = ROOT / "scenarios/town.toml"
    with pytest.raises(BadSource, match="with one of car-1, car-2, car-3, car-4, car-5, …"):
        source(f"simulated:{scenario}")


def test_l4_entities_are_refused_before_they_expand(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gpx"
    path.write_text('<!DOCTYPE gpx [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><gpx><trk><name>&b;</name></trk></gpx>')
    with pytest.raises(BadSource, match="declares a document type"):
        source(f"trace:{path}")


def test_l4_a_file_beyond_the_bound_is_not_even_opened(tmp_path: Path) -> None:
    for name in ("huge.csv", "huge.movements"):
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate((1 << 30) + 1)
        with pytest.raises(BadSource, match="at most 1073741824"):
            source(f"trace:{path}")


@pytest.mark.parametrize(
    ("text", "space", "said"),
    [
        ("fixed:200,10", Earth(), "not a position on Earth"),
        (f"trace:{TRACES}/square.gpx#bus", Plane(), "gives longitudes and latitudes, and metres are needed"),
        (f"simulated:{ROOT}/scenarios/town.toml#car-1", Earth(), "origin=LONGITUDE,LATITUDE puts it on Earth"),
    ],
)
def test_l4_a_source_of_another_space_is_refused(text: str, space: Space, said: str) -> None:
    with pytest.raises(BadSource) as problem:
        source(text, space)
    assert said in str(problem.value)


def test_l4_a_source_of_the_same_space_is_taken() -> None:
    assert source("fixed:200,10", Plane())
    assert source(f"simulated:{ROOT}/scenarios/town.toml#car-1?origin=24.94,60.17", Earth())


def heard(given: Source, cleaner: Cleaner) -> list[Fix | None]:
    async def collect() -> list[Fix | None]:
        return [fix async for fix in positions(given, cleaner)]

    return asyncio.run(collect())


def test_l4_whoever_is_slow_gets_the_newest_position() -> None:
    fixes = [Fix(second * SECOND_US, (second, 0.0), 1.0, 90.0) for second in range(5)]
    assert heard(Given(*fixes), Cleaner(Plane())) == [fixes[-1], None]


def test_l4_a_source_without_any_position_tells_of_none() -> None:
    assert heard(Given(Fix(0, (math.nan, 0.0))), Cleaner(Plane())) == []


class Silent:
    """Gives one fix, then nothing until it is let go on, then another."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def fixes(self) -> AsyncIterator[Fix]:
        yield Fix(0, (0.0, 0.0))
        await self.go_on.wait()
        yield Fix(SECOND_US, (1.0, 0.0))


def test_l4_a_silent_source_has_no_position_until_it_speaks_again() -> None:
    async def story() -> list[Fix | None]:
        silent = Silent()
        found: list[Fix | None] = []
        async for fix in positions(silent, Cleaner(Plane(), Limits(gap_us=20_000))):
            found.append(fix)
            if fix is None:
                silent.go_on.set()
        return found

    found = asyncio.run(story())
    assert [fix and fix.position[0] for fix in found] == [0.0, None, 1.0, None]


class Failing:
    async def fixes(self) -> AsyncIterator[Fix]:
        yield Fix(0, (0.0, 0.0))
        raise OSError("gone")


def test_l4_a_source_that_fails_is_not_silent_about_it() -> None:
    with pytest.raises(OSError, match="gone"):
        heard(Failing(), Cleaner(Plane()))
