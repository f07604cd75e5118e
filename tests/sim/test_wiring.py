"""Links in shapes: who is linked to whom (R1, M1)."""

from random import Random
from typing import Any

import pytest

from roamcast.sim.wiring import Wiring


def pairs(wiring: Wiring, count: int, seed: int = 1) -> set[tuple[str, str]]:
    hosts = [str(index) for index in range(count)]
    return {(link.a, link.b) for link in wiring.links(hosts, Random(seed))}


def test_a_line_links_each_host_to_the_next() -> None:
    assert pairs(Wiring("b", "line"), 4) == {("0", "1"), ("1", "2"), ("2", "3")}


def test_a_star_links_the_first_host_to_all_others() -> None:
    assert pairs(Wiring("b", "star"), 4) == {("0", "1"), ("0", "2"), ("0", "3")}


def test_a_tree_links_each_host_to_its_children() -> None:
    assert pairs(Wiring("b", "tree", branching=2), 5) == {("0", "1"), ("0", "2"), ("1", "3"), ("1", "4")}


def test_a_random_tree_has_no_cycle_and_follows_the_seed() -> None:
    found = pairs(Wiring("b", "random-tree"), 30)
    assert len(found) == 29
    assert all(int(one) < int(other) for one, other in found)
    assert found == pairs(Wiring("b", "random-tree"), 30) != pairs(Wiring("b", "random-tree"), 30, seed=2)


def test_m1_a_grid_with_corners_gives_an_inner_broker_eight_neighbours() -> None:
    found = pairs(Wiring("b", "grid", columns=5, corners=True), 25)
    assert sum("12" in pair for pair in found) == 8
    assert sum("0" in pair for pair in found) == 3
    assert len(pairs(Wiring("b", "grid", columns=5), 25)) == 40


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"shape": "grid"}, "columns"),
        ({"shape": "tree", "branching": 0}, "branching"),
        ({"shape": "line", "delay_ms": -1}, "delay_ms"),
    ],
)
def test_a_wiring_that_cannot_be_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Wiring("b", **given)
