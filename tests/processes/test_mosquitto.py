"""What is told apart in the words of `mosquitto_sub -d`: its library's copies, and a broker's mistake."""

import pytest

from tests.processes.mosquitto import Library

COMES = "Client r received PUBLISH (d0, q2, r0, m7, 't/p2', ... (5 bytes))"
CONNECTS = "Client r sending CONNECT"
RELEASED = ("Client r received PUBREL (Mid: 7)", "Client r sending PUBCOMP (m7)")
PRINTED = ">"


@pytest.mark.parametrize(
    ("said", "new", "doubled", "swallowed"),
    [
        pytest.param([COMES, *RELEASED, PRINTED], [True], 0, 0, id="once"),
        pytest.param(
            [COMES, CONNECTS, COMES, *RELEASED, PRINTED, CONNECTS, *RELEASED, PRINTED], [True, False], 1, 0, id="copy"
        ),
        pytest.param(
            [COMES, *RELEASED, PRINTED, COMES, *RELEASED, PRINTED], [True, True], 0, 0, id="sent after PUBREC"
        ),
        pytest.param([COMES, *RELEASED, CONNECTS], [], 0, 1, id="swallowed"),
        pytest.param(
            [COMES, CONNECTS, COMES, *RELEASED, CONNECTS, *RELEASED, PRINTED], [True], 0, 0, id="other copy"
        ),
    ],
)
def test_copies_of_libmosquitto_are_told_from_a_brokers_l3(
    said: list[str], new: list[bool], doubled: int, swallowed: int
) -> None:
    library, given = Library(), []
    for line in said:
        if line == PRINTED:
            given.append(library.gives())
        else:
            library.does(line)
    assert (given, library.doubled, library.swallowed) == (new, doubled, swallowed)
