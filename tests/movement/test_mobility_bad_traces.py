"""Bad and hostile traces: every one is refused as a BadTrace that names the file, the line and the field."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.movement import trace_formats
from roamcast.movement.legs import FOREVER_US
from roamcast.movement.trace_formats import BadTrace
from roamcast.movement.traces import TraceReplay, load_trace
from tests.effort import examples
from tests.movement.mobility_checks import check_legs

LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;&lol;">]>
<fcd-export><timestep time="0"><vehicle id="&lol2;" x="0" y="0"/></timestep></fcd-export>"""
EXTERNAL = '<!DOCTYPE gpx SYSTEM "file:///etc/passwd"><gpx/>'


def step(inside: str) -> str:
    return f'<fcd-export>\n<timestep time="1">\n{inside}\n</timestep></fcd-export>'


def track(point: str) -> str:
    return f"<gpx><trk><trkseg>\n{point}\n</trkseg></trk></gpx>"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.csv", "", "empty"),
        ("t.csv", "host,time,x,y\n", "holds no fix"),
        ("t.csv", "host,time,x\na,0,0\n", "line 1, field 'y': no column"),
        ("t.csv", "time,x,y\n0,0,0\n", "line 1, field 'host'"),
        ("t.csv", "host,x,y\na,0,0\n", "needs either time or time_us"),
        ("t.csv", "host,time,x,y,lon,lat\na,0,0,0,0,0\n", "either x and y or lon and lat"),
        ("t.csv", "host,time,lon\na,0,0\n", "field 'lat'"),
        ("t.csv", "host,id,time,x,y\na,a,0,0,0\n", "both 'host' and 'id'"),
        ("t.csv", "host,time,x,y\na,0,0\n", "line 2, field 'y': is missing"),
        ("t.csv", "host,time,x,y\na,0,0,0\na,1,nan,0\n", "line 3, field 'x': nan is not a finite"),
        ("t.csv", "host,time,x,y\na,0,0,-inf\n", "field 'y'"),
        ("t.csv", "host,time,x,y\na,nan,0,0\n", "field 'time'"),
        ("t.csv", "host,time,x,y\na,1e300,0,0\n", "out of range"),
        ("t.csv", "host,time,x,y\na,1e-9999999999999999999,0,0\n", "not a time"),
        ("t.csv", "host,time,x,y\na,2024-13-01T00:00:00,0,0\n", "ISO 8601"),
        ("t.csv", "host,time,x,y\na,9999-01-01T00:00:00,0,0\n", "out of range"),
        ("t.csv", "host,time,x,y\na,-4e9,0,0\nb,4e9,0,0\n", "line 3, time: more than"),
        ("t.csv", "host,time,x,y\na,,0,0\n", "field 'time': is missing"),
        ("t.csv", "host,time,x,y\na,0,east,0\n", "'east' is not a number"),
        ("t.csv", "host,time,x,y\na,0,1e9,0\n", "beyond"),
        ("t.csv", "host,time,x,y\n,0,0,0\n", "name of the host is empty"),
        ("t.csv", "host,time,x,y\na,0,0,0\na,0,0,1\n", "line 3, host 'a': is elsewhere at the same time in line 2"),
        ("t.csv", "host,time,lon,lat\na,0,0,91\n", "no place on Earth"),
        ("t.csv", "host,time,x,y\na,0,0," + "9" * 200_000 + "\n", "line 2, CSV: field larger"),
        ("t.xml", "", "line 1, XML: no element found"),
        ("t.xml", "<fcd-export>\n<timestep", "line 2, XML"),
        ("t.xml", "<html></html>", "should begin with <fcd-export>"),
        ("t.xml", "<fcd-export/>", "holds no fix"),
        ("t.xml", step('<vehicle id="a" x="0"/>'), "line 3, <vehicle> field 'y': is missing"),
        ("t.xml", step('<vehicle id="a" x="NaN" y="0"/>'), "line 3, <vehicle> field 'x'"),
        ("t.xml", step('<vehicle x="0" y="0"/>'), "line 3, <vehicle> field 'id'"),
        ("t.xml", step('<person id="a" x="0" y="z"/>'), "line 3, <person> field 'y'"),
        ("t.xml", "<fcd-export><timestep/></fcd-export>", "<timestep> field 'time': is missing"),
        ("t.xml", '<fcd-export><vehicle id="a" x="0" y="0"/></fcd-export>', "outside a <timestep>"),
        ("t.xml", "<fcd-export>" + "<a>" * 200, "nested more than"),
        ("t.xml", '<?xml version="1.0" encoding="klingon"?><fcd-export/>', "line 1, XML"),
        ("t.xml", LAUGHS, "line 2, XML: declares a document type"),
        ("t.xml", step('<vehicle id="&lol;" x="0" y="0"/>'), "line 3, XML: undefined entity"),
        ("t.gpx", EXTERNAL, "line 1, XML: declares a document type"),
        ("t.gpx", track('<trkpt lat="1" lon="2"/>'), "line 2, <trkpt> field 'time': is missing"),
        ("t.gpx", track('<trkpt lat="1"><time>2024-01-01T00:00:00Z</time></trkpt>'), "line 2, <trkpt> field 'lon'"),
        ("t.gpx", track('<trkpt lat="1" lon="2"><time>noon</time></trkpt>'), "'noon' is not an ISO 8601 time"),
        ("t.gpx", track('<trkpt lat="1" lon="200"><time>2024-01-01T00:00:00Z</time></trkpt>'), "no place on Earth"),
        ("t.gpx", '<gpx><trkpt lat="1" lon="2"/></gpx>', "outside a <trk>"),
        ("t.gpx", f"<gpx><trk><name>{'n' * 2000}</name></trk></gpx>", "<name>: holds more than"),
        ("t.gpx", "<gpx/>", "holds no fix"),
        ("t.movements", "\n# nothing\n", "holds no fix"),
        ("t.movements", "0 0 0\n0 0 0 5 1\n", "line 2, node 1: 5 numbers"),
        ("t.movements", "0 0 0 1 x 0\n", "line 1, node 0, triple 2, field 'x'"),
        ("t.movements", "0 0 0 0 1 1\n", "host '0': is elsewhere"),
        ("t.movements", "#3D\n0 0 0 0\n", "three-dimensional"),
    ],
)
def test_a_bad_trace_is_refused_with_file_line_and_field(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(BadTrace) as refused:
        load_trace(path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    for name in ("t.csv", "t.movements", "t.xml", "t.gpx"):
        path = tmp_path / name
        path.write_bytes(b"host,time,x,y\n\xff\xfe\x00\x01")
        with pytest.raises(BadTrace, match=name):
            load_trace(path)


def test_a_multi_byte_encoding_that_the_parser_cannot_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.xml"
    path.write_text('<?xml version="1.0" encoding="shift_jis"?><fcd-export/>')
    with pytest.raises(BadTrace, match="line 1"):
        load_trace(path)


def test_a_missing_file_a_folder_and_an_unknown_extension_are_named(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name in ("nowhere.csv", "folder.csv", "trace.txt"):
        with pytest.raises(BadTrace, match=name):
            load_trace(tmp_path / name)


def test_kept_times_before_zero_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("host,time,x,y\na,-1,0,0\n")
    with pytest.raises(BadTrace, match="line 2, time"):
        load_trace(path, from_earliest=False)


def test_more_fixes_than_the_bound_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_formats, "FIXES_MAX", 2)
    path = tmp_path / "t.csv"
    path.write_text("host,time,x,y\na,0,0,0\na,1,0,0\na,2,0,0\n")
    with pytest.raises(BadTrace, match="more than 2 fixes"):
        load_trace(path)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"path": ""}, "path is empty"),
        ({"path": "a.txt"}, "kind of trace"),
        ({"gap_limit_s": 0}, "gap_limit_s"),
        ({"origin": (0, 91)}, "not a position on Earth"),
    ],
)
def test_bad_parameters_of_a_replay_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TraceReplay(**({"path": "a.csv"} | changed))


TOKENS = {
    "csv": ["host", "time", "x", "y", "lon", "lat", ",", ";", "\n", '"', "a", "0", "1", "-2.5", "1e9", "nan", "\0"],
    "movements": ["0", "1", "2.5", " ", "\n", "-1", "nan", "#", "#3D", "x"],
    "xml": ["<fcd-export>", "</fcd-export>", '<timestep time="1">', "</timestep>", '<vehicle id="a" x="1" y="2"/>',
            "<!DOCTYPE a>", "&a;", "<![CDATA[", "]]>", "<?p?>", "\0", "é"],
    "gpx": ["<gpx>", "</gpx>", "<trk>", "</trk>", '<trkpt lat="1" lon="2">', "</trkpt>", "<name>", "</name>",
            "<time>", "</time>", "2024-01-01T00:00:00Z", "0", "&amp;"],
}  # fmt: skip
HEADS = {"csv": "host,time,x,y\n", "movements": "", "xml": "<fcd-export>", "gpx": "<gpx><trk>"}


@pytest.mark.parametrize("kind", sorted(TOKENS))
@given(data=st.data())
@examples(150)
def test_any_text_is_replayed_or_refused(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"fuzz.{kind}"
    head = data.draw(st.sampled_from(["", HEADS[kind]]))
    path.write_text(head + "".join(data.draw(st.lists(st.sampled_from(TOKENS[kind]), max_size=25))), encoding="utf-8")
    try:
        trace = load_trace(path)
    except BadTrace:
        return
    for recorded in trace.hosts.values():
        found = list(recorded.legs())
        check_legs(found)
        assert found[-1].end_us == FOREVER_US
