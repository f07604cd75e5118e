"""Replay of recorded traces (S10, L4): one trajectory in every format, presence, gaps, trips."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.space import Earth
from roamcast.model.values import Point, Velocity
from roamcast.movement.legs import FOREVER_US, Leg
from roamcast.movement.traces import (
    GAP_LIMIT_US,
    SINGLE_FIX_US,
    Outside,
    Recorded,
    Trace,
    TraceReplay,
    load_trace,
)
from tests.effort import examples
from tests.movement.mobility_checks import SECOND_US, check_legs, check_trips

EXAMPLES = Path(__file__).parents[2] / "scenarios" / "traces"
FIXES = {
    "0": [(0, 0.0, 0.0), (1, 3.5, 4.25), (2.5, 3.5, 4.25), (4, 10.0, -2.0)],
    "1": [(1.25, 50.0, 50.0), (3, 60.0, 50.0)],
}
GEO_ORIGIN = Point(-6.2885, 53.3575)


def geo(x: float, y: float) -> Point:
    moved = Earth().moved(GEO_ORIGIN, x, y)
    return Point(round(moved.x, 9), round(moved.y, 9))


def fcd(tmp_path: Path, *, degrees: bool = False) -> Path:
    steps: dict[float, str] = {}
    for host, fixes in FIXES.items():
        for time, x, y in fixes:
            at = geo(x, y) if degrees else Point(x, y)
            steps[time] = (
                steps.get(time, "") + f'<vehicle id="{host}" x="{at.x!r}" y="{at.y!r}" speed="1" lane="a_0"/>'
            )
    body = "".join(f'<timestep time="{time}">{steps[time]}</timestep>\n' for time in sorted(steps))
    path = tmp_path / "t.xml"
    path.write_text(f'<?xml version="1.0"?>\n<fcd-export>{body}</fcd-export>')
    return path


def csv_in_metres(tmp_path: Path) -> Path:
    rows = [f"{host},{time},{x!r},{y!r}" for host, fixes in FIXES.items() for time, x, y in fixes]
    path = tmp_path / "m.csv"
    path.write_text("\n".join(["host,time,x,y", *rows]))
    return path


def csv_in_degrees(tmp_path: Path) -> Path:
    rows = [
        f"{geo(x, y).y!r};spare;{host};2024-05-04T08:00:{time:09.6f}Z;{geo(x, y).x!r}"
        for host, fixes in FIXES.items()
        for time, x, y in fixes
    ]
    path = tmp_path / "d.csv"
    path.write_text("\r\n".join(["Latitude;what;Vehicle_ID;Timestamp;Longitude", *rows]), encoding="utf-8-sig")
    return path


def gpx(tmp_path: Path) -> Path:
    tracks = ""
    for host, fixes in FIXES.items():
        points = "".join(
            f'<trkpt lat="{geo(x, y).y!r}" lon="{geo(x, y).x!r}"><ele>3</ele>'
            f"<time>2024-05-04T10:00:{time:09.6f}+02:00</time></trkpt>\n"
            for time, x, y in fixes
        )
        tracks += f"<trk><trkseg>{points}</trkseg><name>{host}</name></trk>"
    path = tmp_path / "t.gpx"
    path.write_text(f'<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">{tracks}</gpx>')
    return path


def bonnmotion(tmp_path: Path) -> Path:
    path = tmp_path / "t.movements"
    path.write_text("".join(" ".join(f"{t} {x!r} {y!r}" for t, x, y in fixes) + "\n" for fixes in FIXES.values()))
    return path


def csv_trace(tmp_path: Path, *rows: str, **options: object) -> Trace:
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["host,time,x,y", *rows]) + "\n")
    return load_trace(path, **options)  # type: ignore[arg-type]


def legs(trace: Trace) -> dict[str, list[Leg]]:
    return {host: list(recorded.legs()) for host, recorded in trace.hosts.items()}


def test_the_same_trajectory_in_metres_gives_equal_legs_in_every_format(tmp_path: Path) -> None:
    from_fcd = load_trace(fcd(tmp_path))
    from_csv = load_trace(csv_in_metres(tmp_path))
    from_bonnmotion = load_trace(bonnmotion(tmp_path), outside="absent")
    assert legs(from_fcd) == legs(from_csv) == legs(from_bonnmotion)
    assert from_fcd.origin is None


def test_the_same_trajectory_in_degrees_gives_equal_legs_in_every_format(tmp_path: Path) -> None:
    from_gpx = load_trace(gpx(tmp_path))
    from_csv = load_trace(csv_in_degrees(tmp_path))
    from_fcd = load_trace(fcd(tmp_path, degrees=True), "fcd-geo")
    assert legs(from_gpx) == legs(from_csv) == legs(from_fcd)
    assert from_gpx.origin == from_csv.origin == from_fcd.origin == GEO_ORIGIN


def test_degrees_become_metres_around_the_earliest_fix(tmp_path: Path) -> None:
    in_metres = legs(load_trace(csv_in_metres(tmp_path)))
    projected = legs(load_trace(gpx(tmp_path)))
    for host, expected in in_metres.items():
        for leg, found in zip(expected, projected[host], strict=True):
            assert (found.start_us, found.end_us, found.present) == (leg.start_us, leg.end_us, leg.present)
            assert (found.start.x, found.start.y) == pytest.approx((leg.start.x, leg.start.y), abs=1e-3)


def test_an_origin_can_be_given_so_that_traces_fit_together(tmp_path: Path) -> None:
    shifted = load_trace(gpx(tmp_path), origin=geo(-100, 0))
    start = next(shifted.hosts["0"].legs()).start
    assert (start.x, start.y) == pytest.approx((100, 0), abs=1e-3)


def test_a_host_moves_straight_between_fixes_and_rests_at_equal_ones(tmp_path: Path) -> None:
    found = list(load_trace(csv_in_metres(tmp_path)).hosts["0"].legs())
    check_legs(found)
    check_trips(found)
    assert [leg.resting for leg in found] == [False, True, False, True]
    assert found[0].velocity == Velocity(3.5, 4.25)
    assert (found[0].destination, found[0].pause_us) == (Point(3.5, 4.25), 1_500_000)
    assert found[1].pause_left_us == 1_500_000
    assert (found[2].destination, found[2].pause_us) == (Point(10.0, -2.0), 0)


def test_a_trip_of_many_fixes_has_the_destination_of_its_last(tmp_path: Path) -> None:
    trace = csv_trace(tmp_path, "a,0,0,0", "a,1,1,0", "a,2,2,1", "a,3,5,5", "a,4,5,5", "a,6,5,5", "a,7,0,0")
    found = list(trace.hosts["a"].legs())
    assert [leg.destination for leg in found[:3]] == [Point(5, 5)] * 3
    assert [leg.pause_us for leg in found[:3]] == [3 * SECOND_US] * 3
    assert (found[3].start_us, found[3].end_us) == (3 * SECOND_US, 6 * SECOND_US)


def test_a_host_is_present_from_its_first_fix_until_its_last(tmp_path: Path) -> None:
    trace = load_trace(csv_in_metres(tmp_path))
    late = trace.hosts["1"]
    assert (late.present_from_us, late.present_until_us) == (1_250_000, 3_000_000)
    assert [leg.present for leg in late.legs()] == [False, True, False]
    assert list(late.legs())[-1].end_us == FOREVER_US
    check_legs(list(late.legs()))


def test_bonnmotion_nodes_are_always_there(tmp_path: Path) -> None:
    late = load_trace(bonnmotion(tmp_path)).hosts["1"]
    assert (late.present_from_us, late.present_until_us) == (0, FOREVER_US)
    found = list(late.legs())
    check_legs(found)
    check_trips(found)
    assert [(leg.resting, leg.present) for leg in found] == [(True, True), (False, True), (True, True)]


def test_a_host_with_a_single_fix_is_there_for_a_moment_or_at_rest_for_ever(tmp_path: Path) -> None:
    lone = csv_trace(tmp_path, "a,0,0,0", "a,9,9,9", "b,9,1,1").hosts["b"]
    assert (lone.present_from_us, lone.present_until_us) == (9 * SECOND_US, 9 * SECOND_US + SINGLE_FIX_US)
    check_legs(list(lone.legs()))
    standing = csv_trace(tmp_path, "a,0,0,0", outside="rest").hosts["a"]
    assert [(leg.start, leg.end_us) for leg in standing.legs()] == [(Point(0, 0), FOREVER_US)]


def test_in_a_long_gap_the_host_rests_and_then_jumps(tmp_path: Path) -> None:
    seconds = GAP_LIMIT_US // SECOND_US
    trace = csv_trace(tmp_path, "a,0,0,0", "a,1,1,0", f"a,{seconds + 2},90,0", f"a,{seconds + 3},91,0")
    found = list(trace.hosts["a"].legs())
    check_legs(found)
    assert [(leg.resting, leg.jumps) for leg in found] == [
        (False, False),
        (True, False),
        (False, True),
        (True, False),
    ]
    assert found[2].start == Point(90, 0)
    just_short = csv_trace(tmp_path, "a,0,0,0", f"a,{seconds},90,0")
    assert not next(just_short.hosts["a"].legs()).resting
    longer = csv_trace(tmp_path, "a,0,0,0", f"a,{seconds + 1},90,0", gap_limit_us=2 * GAP_LIMIT_US)
    assert not next(longer.hosts["a"].legs()).resting


def test_times_count_from_the_earliest_fix_unless_kept(tmp_path: Path) -> None:
    rows = ("a,1005,0,0", "a,1006,1,1", "b,1000,2,2", "b,1001,3,3")
    assert csv_trace(tmp_path, *rows).hosts["a"].present_from_us == 5 * SECOND_US
    assert csv_trace(tmp_path, *rows, from_earliest=False).hosts["a"].present_from_us == 1005 * SECOND_US


def test_fixes_out_of_order_are_sorted_and_repeated_ones_count_once(tmp_path: Path) -> None:
    mixed = csv_trace(tmp_path, "a,2,5,5", "b,1,0,0", "a,0,1,1", "a,2,5,5", "a,1,2,2", "b,0,9,9")
    plain = csv_trace(tmp_path, "a,0,1,1", "a,1,2,2", "a,2,5,5", "b,0,9,9", "b,1,0,0")
    assert legs(mixed) == legs(plain)


def test_decimal_times_are_exact_to_the_microsecond(tmp_path: Path) -> None:
    trace = csv_trace(tmp_path, "a,1714809600.000001,0,0", "a,1714809600.000004,1,1")
    assert trace.hosts["a"].present_until_us == 3
    path = tmp_path / "us.csv"
    path.write_text("id,t_us,x,y\na,7,0,0\na,9,1,1\n")
    assert load_trace(path).hosts["a"].present_until_us == 2


times = st.lists(st.integers(0, 10**9), min_size=1, max_size=12, unique=True).map(sorted)
places = st.sampled_from([0.0, 1.0, -3.5, 1e8, -1e8, 0.1])


@given(times, st.data(), st.sampled_from([None, 1, 10**7, 10**9]), st.sampled_from(["absent", "rest"]))
@examples(300)
def test_any_fixes_give_legs_that_hit_each_of_them(
    times_us: list[int], data: st.DataObject, gap: int | None, outside: Outside
) -> None:
    size = len(times_us)
    xs = data.draw(st.lists(places, min_size=size, max_size=size))
    ys = data.draw(st.lists(places, min_size=size, max_size=size))
    found = list(Recorded(times_us, xs, ys, gap, outside).legs())
    check_legs(found)
    check_trips(found)
    assert found[-1].end_us == FOREVER_US
    for time_us, x, y in zip(times_us, xs, ys, strict=True):
        leg = next(leg for leg in found if leg.start_us <= time_us < leg.end_us)
        assert leg.position_at(time_us) == Point(x, y)


@pytest.mark.parametrize("name", ["square.fcd.xml", "square.csv", "square.movements", "square.gpx"])
def test_the_example_traces_are_small_and_replay(name: str) -> None:
    path = EXAMPLES / name
    assert path.stat().st_size < 10_000
    trace = load_trace(path)
    assert len(trace.hosts) == 3
    for found in legs(trace).values():
        check_legs(found)
        check_trips(found)


def test_a_replay_gives_host_number_i_the_ith_host_of_the_trace(tmp_path: Path) -> None:
    replay = TraceReplay(str(csv_in_metres(tmp_path)))
    assert replay.hosts() == ("0", "1")
    expected = legs(load_trace(replay.path))
    for index, host in enumerate(replay.hosts()):
        assert list(replay.legs(random.Random(1), index, 2)) == expected[host]
    with pytest.raises(ValueError, match="only 2 hosts"):
        replay.legs(random.Random(1), 2, 3)


def test_a_replay_takes_the_options_of_the_loader(tmp_path: Path) -> None:
    origin = geo(-100, 0)
    replay = TraceReplay(str(gpx(tmp_path)), "gpx", 1, "rest", (origin.x, origin.y))
    expected = load_trace(replay.path, gap_limit_us=10**6, outside="rest", origin=origin)
    assert legs(replay.trace()) == legs(expected)
    assert replay.trace() is replay.trace()
