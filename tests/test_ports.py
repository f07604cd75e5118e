"""Two tests that were told the same port fail one another now and then: nothing but this would show why."""

import socket
from itertools import islice

from tests.ports import EACH, WORKERS, free_port, free_ports, is_free, rounds


def test_no_port_is_given_twice() -> None:
    given = [port for _ in range(100) for port in free_ports(3)]
    assert len(set(given)) == 300


def test_no_two_workers_draw_from_the_same_ports_and_none_from_those_the_system_gives_to_callers() -> None:
    parts = [
        set(islice(rounds(worker, 7), EACH)) for worker in ["", *(f"gw{number}" for number in range(WORKERS - 1))]
    ]
    assert len(set.union(*parts)) == WORKERS * EACH
    with socket.socket() as caller:
        caller.bind(("127.0.0.1", 0))
        assert max(set.union(*parts)) < 20_000 < caller.getsockname()[1]


def test_a_port_that_is_taken_is_not_free() -> None:
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        assert not is_free(port)
    assert is_free(port)
