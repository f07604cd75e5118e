"""The networks that other tests stand on: that they are apart, that the radio knows distance, loss and delay."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from roamcast.model.values import Point
from tests.networks.namespaces import FOLDER, Machines, inside, remove_leftovers, why_not
from tests.networks.radio import TapRadio

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")
GROUP, PORT = "239.1.2.3", 27_300
PLACES = {"left": Point(0.0, 0.0), "middle": Point(90.0, 0.0), "right": Point(180.0, 0.0)}


def listening() -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.bind(("", PORT))
    found.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(GROUP) + bytes(4))
    found.settimeout(5.0)
    return found


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with Machines(list(PLACES)) as made:
        yield made
    assert not list(FOLDER.glob(f"rcast-{os.getpid()}-*"))


@pytest.fixture
def ears(machines: Machines) -> Iterator[dict[str, socket.socket]]:
    """A listening socket on each machine; it also sends."""
    found = {name: inside(namespace, listening) for name, namespace in machines.namespaces.items()}
    yield found
    for each in found.values():
        each.close()


def hears(ear: socket.socket, wanted: bytes) -> bool:
    try:
        while True:
            if ear.recv(100) == wanted:
                return True
    except TimeoutError:
        return False


def test_a_frame_reaches_those_in_range_and_nobody_else(machines: Machines, ears: dict[str, socket.socket]) -> None:
    with TapRadio(machines.cards, lambda name, _: PLACES[name], 100.0) as radio:
        ears["middle"].sendto(b"to both", (GROUP, PORT))
        assert hears(ears["left"], b"to both")
        assert hears(ears["right"], b"to both")
        ears["left"].sendto(b"to one", (GROUP, PORT))
        assert hears(ears["middle"], b"to one")
        ears["right"].settimeout(0.3)
        assert not hears(ears["right"], b"to one")
        assert radio.out_of_range >= 1


def test_a_machine_that_comes_nearer_is_heard(machines: Machines, ears: dict[str, socket.socket]) -> None:
    places = dict(PLACES)
    with TapRadio(machines.cards, lambda name, _: places[name], 100.0):
        places["left"] = Point(150.0, 0.0)
        ears["left"].sendto(b"here I am", (GROUP, PORT))
        assert hears(ears["right"], b"here I am")


def test_what_is_lost_is_counted(machines: Machines, ears: dict[str, socket.socket]) -> None:
    with TapRadio(machines.cards, lambda name, _: PLACES[name], 100.0, loss=1.0) as radio:
        ears["left"].sendto(b"lost", (GROUP, PORT))
        ears["middle"].settimeout(0.3)
        assert not hears(ears["middle"], b"lost")
        assert radio.lost >= 1
        assert radio.carried == 0


def test_a_frame_takes_its_time(machines: Machines, ears: dict[str, socket.socket]) -> None:
    with TapRadio(machines.cards, lambda name, _: PLACES[name], 100.0, delay_us=200_000):
        started = time.monotonic()
        ears["left"].sendto(b"slowly", (GROUP, PORT))
        assert hears(ears["middle"], b"slowly")
        assert time.monotonic() - started >= 0.2


def test_what_a_killed_process_left_behind_is_removed() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    subprocess.run(["ip", "netns", "add", f"rcast-{gone.pid}-left"], check=True)
    remove_leftovers()
    assert not (FOLDER / f"rcast-{gone.pid}-left").exists()


def test_on_a_slow_channel_frames_follow_each_other(machines: Machines, ears: dict[str, socket.socket]) -> None:
    said = [bytes([number]) * 1_000 for number in range(5)]
    with TapRadio(machines.cards, lambda name, _: PLACES[name], 100.0, bits_per_s=100_000.0):
        started = time.monotonic()
        for each in said:
            ears["left"].sendto(each, (GROUP, PORT))
        assert hears(ears["middle"], said[-1][:100])
        assert time.monotonic() - started >= 0.4


def test_whoever_listens_on_the_air_is_told_of_frames_that_arrive(
    machines: Machines, ears: dict[str, socket.socket]
) -> None:
    told: list[tuple[str, str]] = []

    def tap(sender: str, receiver: str, frame: bytes) -> None:
        if b"overheard" in frame:
            told.append((sender, receiver))

    with TapRadio(machines.cards, lambda name, _: PLACES[name], 100.0, tap=tap):
        ears["left"].sendto(b"overheard", (GROUP, PORT))
        assert hears(ears["middle"], b"overheard")
    assert told == [("left", "middle")]
