"""L3: the checker of the fault tests finds what it is there to find."""

import pytest

from tests.processes.checking import complaints

SAID = {"p": [0, 1, 2, 3], "q": [0, 1]}
RIGHT = ["p 0", "q 0", "p 1", "p 2", "q 1", "p 3"]


def test_l3_everything_in_its_publishers_order_is_right() -> None:
    assert complaints("r", SAID, RIGHT, ["p", "q"]) == []


def test_l3_a_copy_is_right_where_copies_may_be() -> None:
    assert complaints("r", SAID, [*RIGHT, "p 1", "p 2"], ["q"]) == []


@pytest.mark.parametrize(
    ("got", "told"),
    [
        (RIGHT[:-1], "1 are missing, [3] first"),
        ([*RIGHT, "p 1"], "1 came twice, [1] first"),
        (["p 0", "p 2", "p 1", "p 3", "q 0", "q 1"], "out of order, 1 after 2"),
        ([*RIGHT, "p 9"], "[9] were never said"),
        ([*RIGHT, "x 1"], "nobody said 'x 1'"),
    ],
)
def test_l3_the_checker_can_fail(got: list[str], told: str) -> None:
    found = complaints("r", SAID, got, ["p", "q"])
    assert len(found) == 1
    assert told in found[0]


def test_l3_what_a_library_swallows_is_counted_and_no_more_is_forgiven() -> None:
    assert complaints("r", SAID, RIGHT[:-1], ["p", "q"], swallowed=1) == []
    assert complaints("r", SAID, RIGHT[:-1], ["q"], swallowed=1) == ["r of p: 1 are missing, [3] first"]
    assert complaints("r", SAID, ["q 0", "q 1", "p 0", "p 1"], ["p"], swallowed=1) != []
