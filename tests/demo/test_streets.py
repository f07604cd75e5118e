"""L5, L6: the demo's town is real streets that hang together; who goes along them keeps to their speed."""

from itertools import pairwise
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import bellman_ford, connected_components

from roamcast.demo.people import LINKS, People
from roamcast.demo.streets import Journey, Network, load_town, metres_between, paths, roads
from roamcast.model.space import Earth
from roamcast.model.values import Point
from tests.effort import examples

SEEDS = st.integers(0, 10_000)


def matrix_of(network: Network) -> csr_matrix:
    """Seconds from corner to corner."""
    seconds = [max(0.01, each.length_m / each.speed_mps) for each in network.stretches.values()]
    ends = np.array(list(network.stretches))
    return csr_matrix((seconds, (ends[:, 0], ends[:, 1])), shape=(len(network.corners),) * 2)


def off_the_line_m(place: Point, one: Point, other: Point) -> float:
    """How much longer it is over the place than straight on."""
    return metres_between(one, place) + metres_between(place, other) - metres_between(one, other)


def test_l6_the_town_says_whose_data_it_is() -> None:
    town = load_town()
    assert town.attribution == "© OpenStreetMap contributors"
    assert "ODbL" in town.licence
    assert "© OpenStreetMap contributors".encode() in town.map_json()


@pytest.mark.parametrize("network", [roads(), paths()], ids=["roads", "paths"])
def test_l6_one_gets_from_everywhere_to_everywhere(network: Network) -> None:
    parts, _ = connected_components(matrix_of(network), directed=True, connection="strong")
    assert len(network.corners) > 1_000
    assert parts == 1


def test_l5_the_map_has_lines_alone_of_the_kinds_that_the_page_draws() -> None:
    drawn = msgspec.json.decode(load_town().map_json())
    kinds = {each["properties"]["kind"] for each in drawn["features"]}
    assert kinds == {"road", "path", "building"}
    assert {each["geometry"]["type"] for each in drawn["features"]} == {"LineString"}


def test_l6_streets_have_names_and_lights_stand_at_their_corners() -> None:
    names = {each.street for each in roads().stretches.values()}
    assert {"Mannerheimintie", "Unioninkatu"} <= names
    assert set(load_town().points("light")) <= set(roads().corners)


@given(seed=SEEDS)
@examples(25)
def test_l6_a_route_follows_streets_in_their_direction_and_is_the_quickest(seed: int) -> None:
    network, generator = roads(), Random(seed)
    start, end = generator.sample(range(len(network.corners)), 2)
    way = network.route(start, end)
    assert (way[0], way[-1]) == (start, end)
    matrix = matrix_of(network)
    taken_s = sum(matrix[pair] for pair in pairwise(way))
    assert taken_s == pytest.approx(float(bellman_ford(matrix, indices=start)[end]))


@given(seed=SEEDS, steps=st.lists(st.floats(0.01, 5.0), min_size=1, max_size=20))
@examples(25)
def test_l6_who_drives_is_on_a_street_and_no_faster_than_it_allows(seed: int, steps: list[float]) -> None:
    journey = Journey(roads(), Random(seed))
    fastest_mps = max(each.speed_mps for each in roads().stretches.values())
    for seconds in steps:
        before = journey.position
        journey.go(seconds)
        assert metres_between(before, journey.position) <= seconds * fastest_mps + 0.1
        one, other = (journey.network.corners[each] for each in pair_at(journey))
        assert off_the_line_m(journey.position, one, other) < 0.01


def pair_at(journey: Journey) -> tuple[int, int]:
    """The ends of the stretch that it is on."""
    ahead = journey.ahead
    return journey.way[len(journey.way) - len(ahead) - 1], ahead[0]


def test_l6_a_journey_in_small_steps_is_the_one_in_large_steps() -> None:
    small, large = (Journey(roads(), Random(3)) for _ in range(2))
    for _ in range(1_000):
        small.go(0.1)
    large.go(100.0)
    assert metres_between(small.position, large.position) < 0.1


def test_l6_distances_are_those_of_the_model() -> None:
    one, other = roads().corners[0], roads().corners[500]
    assert metres_between(one, other) == pytest.approx(Earth().distance_m(one, other), rel=0.005)


def test_l6_the_same_seed_gives_the_same_town_and_another_one_another() -> None:
    def told(seed: int) -> list[object]:
        people = People(20, seed)
        moving = [*people.cars.values(), *people.buses.values(), *people.walkers.values(), people.ambulance]
        for each in moving:
            each.go(30.0)
        return [[each.position for each in moving], people.lights, people.parkings, people.market]

    assert told(1) == told(1)
    assert told(1) != told(2)


@given(clients=st.integers(3, 60))
@examples(10)
def test_l6_there_are_as_many_that_move_as_were_asked_for(clients: int) -> None:
    people = People(clients, 1)
    assert len(people.cars) + len(people.buses) + len(people.walkers) == clients


def test_l6_every_broker_has_a_quarter_and_they_are_linked_in_a_tree() -> None:
    people = People(3, 1)
    names = [each.name for each in people.quarters]
    ends = np.array([[names.index(each) for each in pair] for pair in LINKS])
    links = csr_matrix((np.ones(len(LINKS)), (ends[:, 0], ends[:, 1])), shape=(len(names), len(names)))
    assert connected_components(links, directed=False)[0] == 1
    assert len(LINKS) == len(names) - 1
    assert {people.quarter_of(corner).name for corner in roads().corners} == set(names)
