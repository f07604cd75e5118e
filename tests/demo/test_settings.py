"""L5, L6: what the demo tells its brokers is what brokers take, and what it says of itself helps."""

import socket
from pathlib import Path

import pytest

from roamcast.demo.fleet import HOST, PORT, DemoFailed, Fleet, map_port, toml
from roamcast.demo.people import LINKS, People
from roamcast.demo.running import folder_of, open_browser
from roamcast.demo.streets import load_town
from roamcast.demo.verdict import Line, Verdict
from roamcast.server.settings import load_settings


def fleet(folder: Path) -> Fleet:
    town = load_town()
    return Fleet(People(3, 1), folder, 0, town.map_json(), town.attribution)


def test_l6_every_broker_can_read_its_settings(tmp_path: Path) -> None:
    made = fleet(tmp_path)
    (tmp_path / "streets.json").write_bytes(load_town().map_json())
    for name, broker in made.brokers.items():
        config = tmp_path / f"{name}.toml"
        config.write_text(toml(made.settings_of(broker)), encoding="utf-8")
        settings = load_settings(config)
        assert settings.name == name
        assert {each.name for each in settings.links.peers} == {
            other for pair in LINKS for other in pair if name in pair and other != name
        }


def test_l6_all_ports_differ(tmp_path: Path) -> None:
    made = fleet(tmp_path)
    ports = [
        port
        for each in made.brokers.values()
        for port in (each.http_port, each.mqtt_port, each.websocket_port, each.link_port)
    ]
    assert len(set(ports)) == 16


def test_l6_the_usual_port_of_the_map_gives_way_and_one_that_was_asked_for_does_not() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DemoFailed, match=f"port {port} is in use"):
            map_port(port)
    assert map_port(None) >= PORT


def test_l6_without_a_display_the_person_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    said: list[str] = []
    open_browser("http://127.0.0.1:8700/studio/", said.append)
    assert said == ["no display here: open the address in a browser yourself"]


def test_l6_a_directory_is_made_and_a_file_in_its_place_is_a_problem(tmp_path: Path) -> None:
    assert folder_of(tmp_path / "new" / "one").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(DemoFailed, match="cannot be the demo's directory"):
        folder_of(tmp_path / "file")


@pytest.mark.parametrize(("missed", "duplicates", "clean"), [(0, 0, True), (1, 0, False), (0, 1, False)])
def test_p2_the_verdict_fails_by_what_was_missed_or_came_twice(missed: int, duplicates: int, clean: bool) -> None:
    line = Line("all", 10, 10 - missed + duplicates, missed, duplicates, 0, 9_000)
    assert Verdict(line).clean is clean
