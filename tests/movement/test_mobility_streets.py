"""Streets: hosts stay on edges, take shortest paths, keep to limits; maps from files."""

import json
import math
import os
import random
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.values import Point
from roamcast.movement import streets as streets_module
from roamcast.movement.legs import Leg
from roamcast.movement.streets import BadStreets, Street, StreetGraph, Streets, load_streets, manhattan
from tests.effort import examples
from tests.movement.mobility_checks import check_legs, check_trips, first, legs_of

DIAMOND = {
    "nodes": {"a": [0, 0], "b": [100, 0], "c": [100, 100], "d": [0, 100], "sink": [500, 500]},
    "edges": [
        {"from": "a", "to": "b", "speed_mps": 5},
        {"from": "b", "to": "c"},
        {"from": "c", "to": "d", "one_way": True},
        {"from": "d", "to": "a"},
        {"from": "a", "to": "sink", "one_way": True},
    ],
}
DIAMOND_ROWS = """node,a,0,0
node,b,100,0
node,c,100,100
node,d,0,100
node,sink,500,500

edge,a,b,5
edge, b , c
edge,c,d,13.9,one-way
edge,d,a
edge,a,sink,10,one-way
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def on_an_edge(graph: StreetGraph, leg: Leg) -> bool:
    """Whether the leg runs from one node straight to another along a street that may be driven that way."""
    start, end = leg.start, leg.position_at(leg.end_us)
    return any(
        graph.points[a] == start and math.hypot(graph.points[b].x - end.x, graph.points[b].y - end.y) <= 1e-6
        for a, b in graph.speed_limits_mps
    )


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(2, 5))
@examples(40)
def test_hosts_stay_on_the_streets(seed: int, columns: int, rows: int) -> None:
    model = Streets(5, 20, columns=columns, rows=rows, block_m=80, pause_s=(0, 1))
    legs = first(legs_of(model, seed), 60)
    check_legs(legs)
    check_trips(legs)
    assert all(leg.resting or on_an_edge(model.graph(), leg) for leg in legs)


def test_the_check_of_edges_can_fail() -> None:
    graph = manhattan(3, 3, 100)
    model = Streets(5, 5, columns=2, rows=2, block_m=90)
    assert not on_an_edge(graph, next(legs_of(model)))


def test_a_trip_takes_the_shortest_path() -> None:
    model = Streets(10, 10, columns=6, rows=5, block_m=100, pause_s=1)
    legs = [leg for leg in first(legs_of(model), 300) if not leg.resting]
    trips = [list(trip) for _, trip in groupby(legs, key=lambda leg: leg.destination)]
    assert len(trips) > 20
    for trip in trips[:-1]:
        start, to = trip[0].start, trip[0].destination
        assert len(trip) * 100 == pytest.approx(abs(to.x - start.x) + abs(to.y - start.y))


@given(st.integers(0, 2**32))
@examples(30)
def test_paths_are_as_short_as_an_exhaustive_search_finds(seed: int) -> None:
    rng = random.Random(seed)
    size = 7
    nodes = {str(n): (rng.uniform(0, 100), rng.uniform(0, 100)) for n in range(size)}
    ring = [Street(str(n), str((n + 1) % size), one_way=True) for n in range(size)]
    chords = [Street(str(n), str((n + 3) % size), one_way=True) for n in range(size) if rng.random() < 0.5]
    graph = StreetGraph(nodes, ring + chords)
    shortest = {(a, b): math.inf for a in range(size) for b in range(size)}
    for a, b in graph.speed_limits_mps:
        shortest[a, b] = math.dist(nodes[str(a)], nodes[str(b)])
    for via in range(size):
        for a in range(size):
            for b in range(size):
                shortest[a, b] = min(shortest[a, b], shortest[a, via] + shortest[via, b])
    for a in range(size):
        for b in range(size):
            if a != b:
                path = graph.path(a, b)
                length = sum(math.dist(nodes[str(p)], nodes[str(q)]) for p, q in pairwise(path))
                assert length == pytest.approx(shortest[a, b])


def test_no_street_is_driven_faster_than_its_limit_nor_faster_than_the_host(tmp_path: Path) -> None:
    path = write(tmp_path / "map.json", json.dumps(DIAMOND))
    for leg in first(legs_of(Streets(8, 12, map=str(path))), 200):
        on_slow = {leg.start, leg.position_at(leg.end_us)} == {Point(0, 0), Point(100, 0)}
        assert leg.velocity.speed == pytest.approx(5) if on_slow else 8 - 1e-6 <= leg.velocity.speed <= 12 + 1e-6


def test_one_way_streets_are_kept_and_dead_ends_trap_nobody(tmp_path: Path) -> None:
    path = write(tmp_path / "map.json", json.dumps(DIAMOND))
    model = Streets(10, 10, map=str(path))
    legs = first(legs_of(model), 300)
    check_legs(legs)
    drives = {(leg.start, Point(round(end.x), round(end.y))) for leg in legs for end in [leg.position_at(leg.end_us)]}
    assert (Point(100, 100), Point(0, 100)) in drives
    assert (Point(0, 100), Point(100, 100)) not in drives
    assert all(leg.destination != Point(500, 500) for leg in legs)


def test_a_csv_map_is_the_same_as_its_json(tmp_path: Path) -> None:
    from_json = load_streets(write(tmp_path / "map.json", json.dumps(DIAMOND)))
    from_csv = load_streets(write(tmp_path / "map.csv", DIAMOND_ROWS))
    assert (from_csv.names, from_csv.points) == (from_json.names, from_json.points)
    assert list(from_csv.speed_limits_mps) == list(from_json.speed_limits_mps)
    assert from_csv.reachable == from_json.reachable == (0, 1, 2, 3)


def test_a_graph_keeps_a_bounded_number_of_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {str(n): (float(n), 0.0) for n in range(10)}
    edges = [Street(str(n), str(n + 1)) for n in range(9)]
    monkeypatch.setattr(streets_module, "PREDECESSORS_KEPT_MAX", 30)
    graph = StreetGraph(nodes, edges)
    for source in range(10):
        assert graph.path(source, 9 - source)[-1] == 9 - source
    assert len(graph._predecessors) == 3


def test_a_changed_map_file_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "map.csv", "node,a,0,0\nnode,b,1,0\nedge,a,b\n")
    model = Streets(1, 1, map=str(path))
    before = model.graph()
    assert model.graph() is before
    write(path, "node,a,0,0\nnode,b,2,0\nedge,a,b\n")
    os.utime(path, ns=(1, 1))
    assert model.graph().points[1] == Point(2, 0)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("m.json", "{", "m.json"),
        ("m.json", '{"nodes": {"a": [0]}, "edges": []}', "m.json.*nodes"),
        ("m.json", '{"nodes": {"a": [0, 0]}, "edges": []}', "at least one edge"),
        ("m.json", '{"nodes": {"a": [0, 0]}, "edges": [{"from": "a", "to": "b"}]}', "no node is called 'b'"),
        ("m.csv", "node,a,0,x\n", "line 1, field 'y': 'x' is not a number"),
        ("m.csv", "node,a,0,nan\nnode,b,1,1\nedge,a,b\n", "node 'a'"),
        ("m.csv", "node,a,0,0\nnode,a,1,0\n", "line 2: node 'a' is given twice"),
        ("m.csv", "way,a,b\n", "line 1: neither"),
        ("m.csv", "node,a,0,0\nnode,b,0,0\nedge,a,b\n", "has no length"),
        ("m.csv", "node,a,0,0\nnode,b,1,0\nedge,a,b\nedge,b,a\n", "'b' to 'a' is given twice"),
        ("m.csv", "node,a,0,0\nnode,b,1,0\nedge,a,b,0\n", "speed_mps"),
        ("m.csv", "node,a,0,0\nnode,b,1,0\nedge,a,b,5,one-way\n", "no two nodes"),
        ("m.csv", "", "at least one edge"),
        ("m.osm", "", "a .json or a .csv file"),
    ],
)
def test_a_bad_map_is_refused_with_file_and_place(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(BadStreets, match=said):
        load_streets(write(tmp_path / name, text))


def test_a_missing_map_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadStreets, match=r"nowhere\.json"):
        legs_of(Streets(1, 2, map=str(tmp_path / "nowhere.json")))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "either a map file or columns"),
        ({"map": "m.json", "columns": 2}, "either a map file or columns"),
        ({"columns": 3}, "rows is 0"),
        ({"columns": 1, "rows": 1}, "1 crossings"),
        ({"columns": 2, "rows": 2, "block_m": 0}, "block_m"),
        ({"columns": 2, "rows": 2, "speed_min_mps": 0}, "speed_min_mps"),
        ({"columns": 2, "rows": 2, "pause_s": -5}, "pause_s"),
    ],
)
def test_bad_parameters_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Streets(**({"speed_min_mps": 5, "speed_max_mps": 10} | changed))
