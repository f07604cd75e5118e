"""P1, L4: each format is read with its hosts and times, into the same moves."""

import sys
from functools import reduce
from operator import xor
from pathlib import Path

import pytest
from google.transit import gtfs_realtime_pb2
from pyais import encode_dict

from roamcast.importer.fixes import BadImport, Reading, Times
from roamcast.importer.rules import Rules
from roamcast.importer.running import import_files
from roamcast.journal import BadJournal, Move, read_records, read_run
from roamcast.model.space import Earth, Plane
from roamcast.movement.fix import Fix
from tests.importer.given import NOON_US, imported, places
from tests.movement.nmea import report

NOON_S = NOON_US // 1_000_000
TOLD = Rules(velocity="told")
GPX = """<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk>{name}<trkseg>
<trkpt lat="60.1" lon="24.9"><time>2024-05-01T12:00:00Z</time></trkpt></trkseg></trk></gpx>"""
FCD = """<fcd-export><timestep time="1.50"><vehicle id="car" x="{x}" y="{y}"/></timestep></fcd-export>"""


def test_gpx_tracks_are_hosts_by_name(tmp_path: Path) -> None:
    (tmp_path / "walk.gpx").write_text(GPX.format(name="<name>ann</name>"))
    assert places(imported(tmp_path / "walk.gpx", tmp_path / "journal")[1]) == [("ann", NOON_US, 24.9, 60.1)]


def test_unnamed_tracks_of_two_files_are_two_hosts(tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        (tmp_path / f"{name}.gpx").write_text(GPX.format(name=""))
    import_files([tmp_path / "ann.gpx", tmp_path / "bob.gpx"], tmp_path / "journal")
    assert {each.host for each in read_records(tmp_path / "journal", Move)} == {"ann/track-1", "bob/track-1"}


def test_sumo_in_metres_is_a_simulation(tmp_path: Path) -> None:
    (tmp_path / "fcd.xml").write_text(FCD.format(x=10, y=20))
    assert places(imported(tmp_path / "fcd.xml", tmp_path / "journal")[1]) == [("car", 1_500_000, 10, 20)]
    assert (read_run(tmp_path / "journal").space, read_run(tmp_path / "journal").seed) == (Plane(), 0)


def test_sumo_in_degrees_with_a_start_is_on_earth_at_its_time(tmp_path: Path) -> None:
    (tmp_path / "fcd.xml").write_text(FCD.format(x=24.9, y=60.1))
    reading = Reading(times=Times(start_us=NOON_US), geographic=True)
    _, moves = imported(tmp_path / "fcd.xml", tmp_path / "journal", reading=reading)
    assert places(moves) == [("car", NOON_US + 1_500_000, 24.9, 60.1)]
    assert read_run(tmp_path / "journal").space == Earth()


def test_bonnmotion_nodes_are_hosts_by_number(tmp_path: Path) -> None:
    (tmp_path / "n.movements").write_text("0 1 2 10 3 4\n")
    assert places(imported(tmp_path / "n.movements", tmp_path / "journal")[1]) == [("0", 0, 1, 2), ("0", 10**7, 3, 4)]


def sentences(**more: float) -> list[str]:
    said = {"mmsi": 211234560, "lon": 24.9, "lat": 60.1, "speed": 10.0, "course": 90.0, **more}
    return encode_dict({"type": 1, **said}, talker_id="AI")


def tagged(sentence: str) -> str:
    block = f"c:{NOON_S}"
    return f"\\{block}*{reduce(xor, block.encode()):02X}\\{sentence}"


@pytest.mark.parametrize(
    "written",
    [
        tagged,
        lambda said: f"{NOON_S} {said}",
        lambda said: f"2024-05-01T12:00:00Z;{said}",
        lambda said: f"{said},{NOON_S}",
    ],
    ids=["tag", "seconds before", "iso before", "seconds after"],
)
def test_ships_of_ais_are_hosts_by_mmsi(written: object, tmp_path: Path) -> None:
    assert callable(written)
    (tmp_path / "bay.nmea").write_text("".join(written(each) + "\n" for each in sentences()) + "!AIVDM,broken*00\n")
    _, moves = imported(tmp_path / "bay.nmea", tmp_path / "journal", rules=TOLD)
    assert [(host, at_us, round(x, 4), round(y, 4)) for host, at_us, x, y in places(moves)] == [
        ("211234560", NOON_US, 24.9, 60.1)
    ]
    assert moves[0].velocity is not None
    assert round(moves[0].velocity.east, 2) == 5.14


def test_ais_messages_without_a_position_are_passed_over(tmp_path: Path) -> None:
    about = encode_dict({"type": 5, "mmsi": 211234560, "shipname": "ANN", "destination": "TURKU"}, talker_id="AI")
    assert len(about) == 2
    (tmp_path / "bay.nmea").write_text("\n".join(map(tagged, (*about, *sentences()))))
    assert imported(tmp_path / "bay.nmea", tmp_path / "journal")[0].fixes == 1


def test_ais_without_times_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "bay.nmea").write_text("\n".join(sentences()))
    with pytest.raises(BadImport, match="none of its 1 AIS sentences says when it was received; log them with tag"):
        imported(tmp_path / "bay.nmea", tmp_path / "journal")


def test_a_ship_that_does_not_know_where_it_is_is_counted(tmp_path: Path) -> None:
    lines = [tagged(each) for each in (*sentences(lon=181, lat=91), *sentences(), *sentences(mmsi=8))]
    (tmp_path / "bay.nmea").write_text("\n".join(lines))
    assert imported(tmp_path / "bay.nmea", tmp_path / "journal")[0].dropped == {"out_of_range": 1}


def test_a_receivers_own_sentences_are_one_host(tmp_path: Path) -> None:
    (tmp_path / "boat.nmea").write_text(report(Fix(NOON_US, (-24.9, 60.1)), 5.0, 90.0))
    _, moves = imported(tmp_path / "boat.nmea", tmp_path / "journal", rules=TOLD)
    assert places(moves) == [("boat", NOON_US, -24.9, 60.1)]
    assert moves[0].velocity is not None
    assert round(moves[0].velocity.east, 2) == 5.0


def test_vehicles_of_gtfs_realtime_are_hosts(tmp_path: Path) -> None:
    feed = gtfs_realtime_pb2.FeedMessage()
    feed.header.gtfs_realtime_version = "2.0"
    feed.header.timestamp = NOON_S
    for number, (name, seconds) in enumerate((("tram-4", NOON_S - 5), ("", 0))):
        entity = feed.entity.add(id=f"e{number}")
        entity.vehicle.vehicle.id, entity.vehicle.timestamp = name, seconds
        entity.vehicle.position.longitude, entity.vehicle.position.latitude = 24.5, 60.25
        entity.vehicle.position.speed, entity.vehicle.position.bearing = 10, 180
    feed.entity.add(id="alert").alert.SetInParent()
    (tmp_path / "feed.pb").write_bytes(feed.SerializeToString())
    _, moves = imported(tmp_path / "feed.pb", tmp_path / "journal", rules=TOLD)
    assert places(moves) == [("tram-4", NOON_US - 5_000_000, 24.5, 60.25), ("e1", NOON_US, 24.5, 60.25)]
    assert moves[0].velocity is not None
    assert round(moves[0].velocity.north, 6) == -10


def test_a_file_that_is_no_feed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "feed.pb").write_bytes(b"<html>not found</html>")
    with pytest.raises(BadImport, match="not a GTFS-realtime feed message"):
        imported(tmp_path / "feed.pb", tmp_path / "journal")


def test_files_of_the_owntracks_recorder_are_hosts_by_user_and_device(tmp_path: Path) -> None:
    path = tmp_path / "rec" / "ann" / "phone" / "2024-05.rec"
    path.parent.mkdir(parents=True)
    said = f'{{"_type":"location","lat":60.1,"lon":24.9,"tst":{NOON_S},"acc":ACC,"vel":36,"cog":90}}'
    lines = [said.replace("ACC", "10"), said.replace("ACC", "900"), '{"_type":"lwt","tst":1}', "{"]
    path.write_text("".join(f"2024-05-01T12:00:01Z\t*                 \t{each}\n" for each in lines))
    found, moves = imported(tmp_path / "rec", tmp_path / "journal", rules=TOLD)
    assert places(moves) == [("ann/phone", NOON_US, 24.9, 60.1)]
    assert (found.dropped, moves[0].velocity and round(moves[0].velocity.east, 6)) == ({"vague": 1}, 10)


@pytest.mark.parametrize(
    ("module", "name", "content"),
    [
        ("pyais.queue", "bay.nmea", "\n".join(map(tagged, sentences()))),
        ("google.transit", "feed.pb", ""),
    ],
)
def test_a_package_that_is_missing_is_named(
    module: str, name: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / name).write_text(content)
    with pytest.raises(BadImport, match=r"needs the package .*: pip install 'roamcast\[import\]'"):
        imported(tmp_path / name, tmp_path / "journal")


CSV = "id,time,lon,lat\na,{time},24.9,60.1\n"


def test_appended_data_are_another_opening_of_the_same_journal(tmp_path: Path) -> None:
    for number, seconds in enumerate((NOON_S, NOON_S + 3_600)):
        (tmp_path / "given.csv").write_text(CSV.format(time=seconds))
        import_files([tmp_path / "given.csv"], tmp_path / "journal", append=number > 0)
    assert [each[1] for each in places(list(read_records(tmp_path / "journal", Move)))] == [
        NOON_US,
        NOON_US + 3_600 * 10**6,
    ]


def test_a_journal_is_not_added_to_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "given.csv").write_text(CSV.format(time=NOON_S))
    import_files([tmp_path / "given.csv"], tmp_path / "journal")
    with pytest.raises(BadJournal, match="holds a journal already; give an empty directory, or --append"):
        import_files([tmp_path / "given.csv"], tmp_path / "journal")


def test_metres_are_not_appended_to_degrees(tmp_path: Path) -> None:
    (tmp_path / "earth.csv").write_text(CSV.format(time=NOON_S))
    (tmp_path / "plane.csv").write_text("id,time,x,y\na,1,2,3\n")
    import_files([tmp_path / "earth.csv"], tmp_path / "journal")
    with pytest.raises(BadImport, match="the journal is in degrees with times since 1970, the data in metres"):
        import_files([tmp_path / "plane.csv"], tmp_path / "journal", append=True)
    with pytest.raises(BadImport, match="is in metres, files before it in degrees"):
        import_files([tmp_path / "earth.csv", tmp_path / "plane.csv"], tmp_path / "both")


def test_clocks_that_are_decades_off_are_not_believed(tmp_path: Path) -> None:
    rows = "".join(f"a,{seconds},24.9,60.1\n" for seconds in (5, NOON_S, NOON_S + 1, NOON_S + 2, 2**33))
    (tmp_path / "given.csv").write_text("id,time,lon,lat\n" + rows)
    found, moves = imported(tmp_path / "given.csv", tmp_path / "journal")
    assert (found.dropped, found.first_us) == ({"bad_clock": 2}, NOON_US)
    assert (len(places(moves)), read_run(tmp_path / "journal").at_us) == (3, NOON_US)


def test_a_killed_import_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "given.csv").write_text(CSV.format(time=NOON_S))
    (tmp_path / "journal" / ".importing").mkdir(parents=True)
    with pytest.raises(BadImport, match="if none runs, remove that directory"):
        import_files([tmp_path / "given.csv"], tmp_path / "journal")


def test_an_import_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "given.csv").write_text(CSV.format(time=NOON_S))

    def interrupt(what: str, done: int, total: int) -> None:
        if what == "writing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_files([tmp_path / "given.csv"], tmp_path / "journal", progress=interrupt)
    assert list((tmp_path / "journal").iterdir()) == []
