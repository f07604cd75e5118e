"""Ports for what a test starts: none is given twice, and no two workers draw from the same.

A port that was found free is free no more once somebody else was told the same, and between asking and listening lies
the start of a process. So each worker has a part of the ports to itself and goes round in it. All lie below those
that the system gives to who calls: while a broker is down, whoever tries to reach it could get its port.
"""

import errno
import os
import random
import re
import socket
from collections.abc import Iterator

FIRST = 10_000
WORKERS = 8
EACH = 1_200
PLACES = (("127.0.0.1", socket.SOCK_STREAM), ("", socket.SOCK_DGRAM))


def rounds(worker: str, start: int) -> Iterator[int]:
    """The ports of a worker of pytest-xdist (`gw0`, `gw1`, ...; "" for a run without), over and over from a start."""
    number = re.search(r"\d+$", worker)
    part = int(number[0]) % WORKERS if number else WORKERS - 1
    while True:
        yield FIRST + part * EACH + start % EACH
        start += 1


_mine = rounds(os.environ.get("PYTEST_XDIST_WORKER", ""), random.SystemRandom().randrange(EACH))


def free_ports(count: int) -> list[int]:
    """Free for TCP and for UDP."""
    found: list[int] = []
    for _ in range(EACH):
        if len(found) == count:
            return found
        port = next(_mine)
        if is_free(port):
            found.append(port)
    raise AssertionError(f"{len(found)} of {count} ports are free of the {EACH} of this worker")


def free_port() -> int:
    return free_ports(1)[0]


def is_free(port: int) -> bool:
    for host, kind in PLACES:
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind((host, port))
            except OSError as problem:
                # In a namespace that has no loopback, nobody else is there either.
                if problem.errno != errno.EADDRNOTAVAIL:
                    return False
    return True
