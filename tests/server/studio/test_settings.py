"""L5: who is shown the studio, and what its settings may be."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from roamcast.cli._broker import settings_of
from roamcast.server.settings import BadSettings, load_map, load_settings, settings_from
from roamcast.server.studio.settings import ICONS

LEAST = {"name": "north", "data": "data"}
BOX = {"kind": "box", "low": [0.0, 0.0], "high": [1.0, 99.0]}
ADDRESS = "is no server; give such as http://192.0.2.7:8081, without a path"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, False),
        ({"http": {"port": 1}}, True),
        ({"http": {"port": 1, "host": "::1"}}, True),
        ({"http": {"port": 1, "host": "0.0.0.0"}}, False),
        ({"http": {"port": 1}, "studio": {"enabled": False}}, False),
        ({"http": {"port": 1, "host": "0.0.0.0"}, "studio": {"enabled": True}}, True),
    ],
)
def test_l5_the_studio_is_shown_to_this_machine_alone_unless_somebody_says_so(
    given: dict[str, Any], shown: bool
) -> None:
    assert settings_from({**LEAST, **given}).shows_studio is shown


@pytest.mark.parametrize(
    ("studio", "said"),
    [
        ({"enabled": True}, "studio.enabled needs a port; set http.port"),
        ({"enable": True}, "unknown key 'studio.enable'; did you mean 'enabled'?"),
        ({"others": ["192.0.2.7:8081"]}, f"studio.others: '192.0.2.7:8081' {ADDRESS}"),
        ({"others": ["http://a.example/studio/"]}, f"studio.others: 'http://a.example/studio/' {ADDRESS}"),
        ({"others": ["http://a.example:x"]}, f"studio.others: 'http://a.example:x' {ADDRESS}"),
        ({"others": ["http://me:pw@a.example"]}, f"studio.others: 'http://me:pw@a.example' {ADDRESS}"),
        ({"place": [200.0, 0.0]}, "studio.place: (200.0, 0.0) is not a position on Earth"),
        ({"place": [1.0]}, "studio.place"),
        ({"place": [float("nan"), 0.0]}, "studio.place: [nan, 0.0] is nowhere; give two finite numbers"),
        ({"attribution": "©"}, "studio.attribution: there is no map that it could be about"),
        (
            {"types": {"crane": {"icon": "kran"}}},
            "studio.types.crane.icon: 'kran' is none; give one of ambulance, ",
        ),
        ({"types": {"crane": {"colour": "red"}}}, "studio.types.crane.colour: 'red' is none; give such as #1f77b4"),
        (
            {"tiles": "https://tiles.example/{z}/{x}.png"},
            "studio.tiles: 'https://tiles.example/{z}/{x}.png' is no ",
        ),
        ({"zones": [{"name": " ", "area": BOX}]}, "studio.zones[1].name: a zone has one"),
        (
            {"zones": [{"name": "A", "area": {**BOX, "low": [0.0, 95.0]}}]},
            "studio.zones: 'A': (0.0, 95.0) is not a position on Earth",
        ),
    ],
)
def test_l5_a_mistake_is_named_with_its_key(studio: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(said)):
        settings_from({**LEAST, "studio": studio})


def test_l5_tiles_show_the_earth_alone() -> None:
    tiles = {"tiles": "https://tiles.example/{z}/{x}/{y}.png", "attribution": "© somebody"}
    assert settings_from({**LEAST, "studio": tiles}).studio.tiles
    with pytest.raises(BadSettings, match=r"studio\.tiles: they show the Earth"):
        settings_from({**LEAST, "space": "plane", "studio": tiles})


def test_l5_icons_that_settings_may_name_are_those_that_the_page_can_draw() -> None:
    signs = (Path(__file__).parents[3] / "studio" / "src" / "signs.ts").read_text()
    assert tuple(sorted(re.findall(r"^  (\w+):", signs, re.MULTILINE))) == ICONS


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "streets.json cannot be read"),
        ("{", "is not a GeoJSON FeatureCollection of points, lines and polygons"),
        ('{"type": "Feature"}', "is not a GeoJSON FeatureCollection of points, lines and polygons"),
        (
            '{"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": {"type": "MultiPoint"}}]}',
            "is not a GeoJSON FeatureCollection of points, lines and polygons",
        ),
    ],
)
def test_l5_a_map_that_cannot_be_used_is_named(tmp_path: Path, content: str | None, said: str) -> None:
    (tmp_path / "broker.toml").write_text(
        'name = "n"\ndata = "d"\n[http]\nport = 1\n[studio]\nmap = "streets.json"\n'
    )
    if content is not None:
        (tmp_path / "streets.json").write_text(content)
    with pytest.raises(BadSettings, match=re.escape("studio.map: ")) as raised:
        load_map(load_settings(tmp_path / "broker.toml"))
    assert said in str(raised.value)
    assert str(tmp_path / "streets.json") in str(raised.value)


def test_l5_a_map_without_streets_has_no_middle(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text(json.dumps({"type": "FeatureCollection", "features": []}))
    given = {"http": {"port": 1}, "studio": {"map": str(tmp_path / "empty.json")}}
    streets = load_map(settings_from({**LEAST, **given}))
    assert streets is not None
    assert streets.centre is None
    assert load_map(settings_from({**LEAST, "studio": given["studio"]})) is None


def test_l5_the_option_studio_brings_what_the_page_needs(tmp_path: Path) -> None:
    plain = settings_of(None, None, str(tmp_path), None, None, None, None)
    assert not plain.shows_studio
    settings = settings_of(None, None, str(tmp_path), None, None, None, None, studio=True)
    assert settings.shows_studio
    assert settings.http is not None
    assert settings.http.port == 8080
    assert [each.kind for each in settings.listeners] == ["tcp", "ws"]
    (tmp_path / "own.toml").write_text(
        'name = "n"\ndata = "d"\nhttp.port = 9\nstudio.place = [1, 2]\nlisteners = [{ kind = "ws", port = 7 }]\n'
    )
    own = settings_of(tmp_path / "own.toml", None, None, None, None, None, None, studio=True)
    assert own.http is not None
    assert (own.http.port, [each.port for each in own.listeners], own.studio.place) == (9, [7], (1.0, 2.0))
