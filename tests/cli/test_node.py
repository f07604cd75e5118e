"""L1, L6: `roamcast node` as people use it, in processes that know nothing but their names; and its errors."""

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roamcast.cli.main import app
from roamcast.journal.reader import read_entries, read_records
from roamcast.journal.records import Announced, Move, Run
from roamcast.model.values import Point
from tests.movement.test_gpsd import TPV, VERSION, line
from tests.multicast.terminals import Terminal
from tests.ports import free_port

pytestmark = pytest.mark.process
Opens = Callable[..., Terminal]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Opens]:
    port = str(free_port())
    opened: list[Terminal] = []

    def open_one(*arguments: str) -> Terminal:
        opened.append(Terminal(tmp_path / "state", (*arguments, "--interface", "lo", "--port", port)))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def test_l1_two_nodes_that_know_nothing_but_their_names_find_each_other(terminal: Opens) -> None:
    ann, bob = terminal("ann"), terminal("bob")
    ann.until("heard of bob")
    bob.until("heard of ann")
    ann.type("it's me")
    assert "say  from ann, 0 m away  text='it'" in bob.until("say  from")
    bob.type("welcome")
    ann.until("text=welcome")
    assert ann.stop() == bob.stop() == 0
    ann.until("delivered 1 events; dropped: nothing")


@pytest.mark.slow
def test_l1_p1_an_event_is_delivered_by_filter_and_place_and_both_journals_tell(
    terminal: Opens, tmp_path: Path
) -> None:
    journal = str(tmp_path / "journal")
    wanted = ("--subscribe", "ice", "--filter", "depth > 2", "--json", "--journal", journal)
    near, far = terminal("near", "--at", "150,0", *wanted), terminal("far", "--at", "900,0", *wanted)
    near.until("is ready")
    far.until("is ready")
    car = terminal("car", "--at", "0,0", "--announce", "ice(depth: integer)", "--journal", journal)
    near.until("heard of car")
    far.until("heard of car")
    car.type("ice depth=1")
    car.type("ice depth=deep")
    car.until("is no integer")
    car.type('{"subject": "ice", "attributes": {"depth": 3}}')
    told = json.loads(near.until('"subject"'))
    assert (told["publisher"], told["attributes"], told["distance_m"]) == ("car", {"depth": 3}, 150.0)
    assert car.stop() == near.stop() == far.stop() == 0
    far.until("delivered 0 events")
    entries = list(read_entries(Path(journal)))
    kinds = [type(entry.record).__name__ for entry in entries]
    assert (kinds.count("Published"), kinds.count("Delivered"), kinds.count("Subscribed")) == (2, 1, 2)
    assert kinds.count("Transmitted") > 4
    assert [type(each.record).__name__ for each in entries if not getattr(each.record, "up", True)] == ["Move"] * 3


@pytest.mark.slow
def test_l1_an_application_of_the_examples_runs_on_real_nodes_as_it_does_in_the_simulator(terminal: Opens) -> None:
    world = "simulated:examples/ambulance.toml"
    car = terminal("car-1", "--app", "examples/ambulance.py:Car", "--location", f"{world}#car-1?begin_s=2")
    car.until("is ready")
    ambulance = terminal(
        "ambulance", "--app", "examples/ambulance.py:Ambulance", "--location", f"{world}#ambulance?begin_s=2"
    )
    assert "an ambulance comes nearer at 25 m/s: I let it pass" in car.until("comes nearer")
    assert ambulance.stop() == car.stop() == 0
    assert "delivered" not in car.until("dropped: ")


BROKEN = """
class Broken:
    def start(self, port):
        port.after(0.01, lambda: 1 // 0)

class BrokenAtOnce:
    def start(self, port):
        1 // 0
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Broken", "BrokenAtOnce"])
@pytest.mark.parametrize("where", [(), ("--location", "fixed:0,0")], ids=["here", "by-a-source"])
def test_l6_an_application_that_fails_ends_the_node_and_says_why(
    name: str, where: tuple[str, ...], terminal: Opens, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    node = terminal("node", "--app", f"{tmp_path}/broken.py:{name}", *where)
    assert "ZeroDivisionError" in node.until("the application")
    assert node.process.wait(20) == 2


@pytest.mark.slow
def test_l6_a_node_says_while_it_runs_why_it_does_not_hear_nodes_that_were_started_otherwise(
    terminal: Opens, tmp_path: Path
) -> None:
    invoke("key", str(tmp_path / "group.key"))
    ann = terminal("ann")
    ann.until("is ready")
    bob = terminal("bob", "--key-file", str(tmp_path / "group.key"))
    assert "give it the --key-file of the others" in ann.until("nodes of a group with a key")
    car = terminal("car", "--at", "0,0")
    assert "give all of them --at, or all of them --position" in ann.until("nodes on a plane")
    assert "give all of them the same --key-file" in bob.until("nodes of a group with another key")
    assert ann.stop() == bob.stop() == car.stop() == 0
    ann.until("dropped: wrong_key")
    assert sum("not heard" in line for line in ann.said) == 2


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--at", "0,0", "--position", "1,2"], "a node has one position"),
        (["--at", "here"], "is not a position"),
        (["--position", "200,0"], "200"),
        (["--protocol", "carrier-pigeon"], "give proximity or context"),
        (["--preset", "aircraft"], "there is no 'aircraft'"),
        (["--port", "0"], "give a port from 1 to 65535"),
        (["--interface", "wlan77"], "'wlan77' is not there"),
        (["--key-file", "missing.key"], "missing.key: cannot be read"),
        (["--subscribe", "ice", "--filter", "depth >"], "depth >"),
        (["--announce", "ice(depth)"], "'depth' needs a type"),
        (["--announce", "ice", "--raise", "snow"], "'snow' is not announced"),
        (["--attribute", "red"], "NAME=VALUE"),
        (["--announce", "ice", "--within", "-5"], "-5"),
        (["--every", "0"], "--every 0: give 0.001 or more"),
        (["--lifetime", "-1"], "--lifetime -1: give 0 or more"),
        (["--seconds", "nan"], "--seconds nan: give 0 or more"),
        (["--range", "0"], "--range 0: give 1 or more"),
        (["--journal", "/dev/null/journal"], "/dev/null/journal"),
        (["--identity", "/dev/null/ann.key"], "/dev/null/ann.key"),
        (["--known-keys", "missing.keys"], "missing.keys"),
        (["--location", "fixed:500,300"], "metres on a plane need --space plane"),
        (["--space", "sphere"], "--space sphere: give earth or plane"),
        (["--space", "earth", "--at", "5,5"], "--at is a place on a plane; --space says otherwise"),
        (["--gateway", "http://x"], "'http://x' is not a broker's address: give mqtt://host:port"),
        (["--gateway", "mqtt://127.0.0.1:1", "--carry", "a/#/b"], "# must be the last level"),
        (["--carry", "ice"], "--carry means nothing without --gateway"),
        (["--user", "ann"], "--user means nothing without --gateway"),
        (["--every", "1"], "--every means nothing without --raise"),
        (["--interest-within", "5"], "--interest-within means nothing without --protocol context"),
        (["--relevant-within", "5"], "--relevant-within means nothing without --protocol context"),
        (["--location", "psychic:yes"], "location 'psychic:yes' is not known"),
    ],
)
def test_l6_an_option_that_cannot_be_meant_is_named(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    own = [] if "--interface" in arguments else ["--interface", "lo"]
    port = [] if "--port" in arguments else ["--port", str(free_port())]
    # Where nothing is refused the node ends all the same.
    code, output = invoke("node", "ann", "--seconds", "0.5", *own, *port, *arguments)
    assert code == 2, output
    assert said in output


def test_l4_a_node_follows_a_source_of_locations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ride = tmp_path / "ride.csv"
    ride.write_text("time,host,x,y\n0,car,0,0\n1,car,30,0\n60,car,1800,0\n")
    journal = tmp_path / "journal"
    where = ("--location", f"trace:{ride}", "--interface", "lo", "--port", str(free_port()))
    code, output = invoke("node", "car", *where, "--journal", str(journal), "--seconds", "1.5")
    assert code == 0, output
    moves = [each for each in read_records(journal, Move) if each.position is not None]
    assert len(moves) >= 2
    assert moves[-1].velocity is not None
    assert 20 < moves[-1].velocity.east < 40
    assert [type(each.space).__name__ for each in read_records(journal, Run)] == ["Plane"]
    assert len(list(read_records(journal, Announced))) == 1


@pytest.mark.slow
def test_l4_a_node_without_a_position_says_why_and_is_ready_when_there_is_one(terminal: Opens) -> None:
    port = free_port()
    tells = ("--announce", "count(number: integer)", "--subscribe", "count")
    node = terminal("car", "--location", f"gpsd:127.0.0.1:{port}", *tells)
    said = node.until("waiting for a position before anything is announced")
    assert f"gpsd at 127.0.0.1:{port} cannot be reached; start it there" in said
    assert not any("is ready" in each for each in node.said)

    class Daemon(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(line(VERSION, TPV))
            self.rfile.readline()

    for number in range(1_100):
        node.type(f"count number={number}")
    node.until("1,000 lines wait")

    with socketserver.TCPServer(("127.0.0.1", port), Daemon) as daemon:
        threading.Thread(target=daemon.handle_request, daemon=True).start()
        node.until("the position is known now")
        node.until("car is ready")
        node.until("number=1099")
        assert sum("count  from car" in each for each in node.said) == 1_100
        assert node.stop() == 0


@pytest.mark.slow
def test_l4_who_raises_without_a_position_is_told_once_that_nobody_hears_it(terminal: Opens, tmp_path: Path) -> None:
    (tmp_path / "ride.csv").write_text("host,time,lon,lat\nbus,0,24.94,60.17\nbus,1,24.94,60.17\n")
    bus = terminal("bus", "--location", f"trace:{tmp_path}/ride.csv", "--announce", "ice")
    assert "its events reach nobody" in bus.until("the source of locations has ended")
    bus.type("ice")
    bus.until("'ice' reaches nobody, nor does what follows: this node has no position now")
    bus.type("ice")
    bus.type("mud")
    bus.until("'mud' is not announced")
    assert bus.stop() == 0
    bus.until("dropped: nothing")
    assert sum("'ice' reaches nobody" in each for each in bus.said) == 1


@pytest.mark.slow
def test_l6_lines_that_still_waited_when_the_node_ended_are_told(terminal: Opens) -> None:
    waits = terminal("waits", "--location", f"gpsd:127.0.0.1:{free_port()}", "--announce", "ice", "--raise", "ice")
    waits.type("ice")
    waits.type("ice")
    waits.until("waiting for a position")
    assert waits.stop() == 0
    waits.until("not raised: 3 events, for the node ended before it had announced")


@pytest.mark.slow
def test_l6_an_empty_line_that_still_waited_is_no_event(terminal: Opens) -> None:
    waits = terminal("waits", "--location", f"gpsd:127.0.0.1:{free_port()}", "--announce", "ice")
    waits.type("")
    waits.type("ice")
    waits.until("waiting for a position")
    assert waits.stop() == 0
    waits.until("not raised: 1 event, for")


def test_l4_a_fixed_place_is_on_the_plane_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    journal = tmp_path / "journal"
    where = ("--location", "fixed:500,300", "--space", "plane", "--interface", "lo", "--port", str(free_port()))
    code, output = invoke("node", "lamp", *where, "--journal", str(journal), "--seconds", "1")
    assert code == 0, output
    assert [type(each.space).__name__ for each in read_records(journal, Run)] == ["Plane"]
    assert [each.position for each in read_records(journal, Move) if each.position is not None][:1] == [
        Point(500, 300)
    ]


def test_l6_an_event_of_a_type_that_is_not_announced_is_said_and_the_user_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    where = ("--interface", "lo", "--port", str(free_port()), "--seconds", "0.1")
    code, output = invoke("node", "car", "--raise", "ice depth=3", *where)
    assert code == 0, output
    assert "'ice' is not announced, so the line is said as it is" in output


def test_l7_a_key_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "group.key"
    assert invoke("key", str(file))[0] == 0
    assert file.stat().st_mode & 0o077 == 0
    assert len(file.read_text()) == 65
    code, output = invoke("key", str(file))
    assert code == 2
    assert "is there already" in output


def test_l6_a_key_in_a_directory_that_is_not_there_is_refused_and_makes_none(tmp_path: Path) -> None:
    code, output = invoke("key", str(tmp_path / "kyes" / "deep" / "group.key"))
    assert code == 2
    assert f"there is no directory {tmp_path}/kyes/deep; make it first" in output.replace("\n", "")
    assert list(tmp_path.iterdir()) == []


def test_l6_a_nodes_own_key_is_not_made_in_a_directory_that_was_mistyped(tmp_path: Path) -> None:
    """Others know a node by its key, and would take it for an impostor."""
    code, output = invoke("node", "ann", "--identity", str(tmp_path / "kyes" / "ann.key"), "--seconds", "0")
    assert code == 2
    assert f"there is no directory {tmp_path}/kyes; make it first" in output.replace("\n", "")
    assert list(tmp_path.iterdir()) == []


def test_l6_the_help_of_node_tells_the_whole_life_of_an_event() -> None:
    code, output = invoke("node", "--help")
    assert code == 0
    for stage in ("announced", "subscribed", "raised", "delivered", "missed", "judged"):
        assert f"{stage}." in output
