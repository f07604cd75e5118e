"""The network under an overlay: unicast over the shortest path of radio hops (O1)."""

import pytest

from roamcast.model.values import Point
from roamcast.movement.legs import Track, moving, resting_forever
from roamcast.node.boundary import Does, Input, LinkDown, Message, Received, Send, Start
from roamcast.node.codec import Codec
from roamcast.node.kit import Seat
from roamcast.sim.hosts import Resident
from roamcast.sim.observers import Tally
from roamcast.sim.radio import UnitDiskParams
from roamcast.sim.underlay import UnderlayParams
from roamcast.sim.world import World


class Word(Message, frozen=True, tag="word"):
    number: int


class Ear:
    """Remembers what it is given."""

    def __init__(self) -> None:
        self.given: list[tuple[int, Input]] = []

    def handle(self, now_us: int, given: Input) -> list[Does]:
        if not isinstance(given, Start):
            self.given.append((now_us, given))
        return []


class Row:
    """Hosts h0, h1, … at these places on a line, with a radio of 100 m; the last one may walk away."""

    def __init__(self, *places: float, walks: bool = False) -> None:
        self.ears: dict[str, Ear] = {}
        self.tally = Tally()
        tracks = [Track([resting_forever(0, Point(place, 0))]) for place in places]
        if walks:
            leg = moving(0, Point(places[-1], 0), Point(places[-1] + 1000, 0), 100)
            tracks[-1] = Track([leg, resting_forever(leg.end_us, leg.destination)])
        self.world = World(
            [Resident(f"h{index}", track, self._ear) for index, track in enumerate(tracks)],
            Codec((Word,)),
            1,
            UnitDiskParams(100),
            observers=(self.tally,),
            underlay=UnderlayParams(hop_ms=2, step_ms=10),
        )
        self.until(0.001)

    def _ear(self, seat: Seat) -> Ear:
        self.ears[seat.host] = Ear()
        return self.ears[seat.host]

    def until(self, seconds: float) -> None:
        for _ in self.world.run(round(seconds * 1e6)):
            pass

    def send(self, sender: str, to: str, number: int = 1) -> None:
        self.world.perform(self.world.by_name[sender].host, Send(to, Word(number)))


def test_o1_a_message_takes_its_hops_times_the_delay_and_counts_as_so_many_transmissions() -> None:
    row = Row(0, 90, 180, 270)
    row.send("h0", "h3")
    row.until(1)
    assert row.ears["h3"].given == [(1_000 + 3 * 2_000, Received(Word(1), "h0", hops=3))]
    assert row.tally.messages["word"] == 3
    assert row.ears["h1"].given == row.ears["h2"].given == []


def test_o7_without_a_path_the_message_is_lost_and_the_sender_is_told() -> None:
    row = Row(0, 90, 300)
    row.send("h0", "h2")
    row.until(1)
    assert row.ears["h0"].given == [(1_000, LinkDown("h2"))]
    assert row.ears["h2"].given == []
    assert row.tally.notes["no_path"] == 1
    assert row.tally.messages.total() == 0


def test_o7_a_name_that_nobody_has_cannot_be_reached() -> None:
    row = Row(0, 90)
    row.send("h0", "nobody")
    row.until(1)
    assert row.ears["h0"].given == [(1_000, LinkDown("nobody"))]


def test_o1_paths_follow_the_hosts_as_they_move() -> None:
    row = Row(0, 90, 150, walks=True)
    row.send("h0", "h2")
    row.until(1)
    row.send("h0", "h2")
    row.until(2)
    assert [type(given) for _, given in row.ears["h2"].given if not hasattr(given, "context")] == [Received]
    assert [given for _, given in row.ears["h0"].given] == [LinkDown("h2")]


def test_o1_a_host_that_is_down_relays_nothing_and_relays_again_when_it_is_up() -> None:
    row = Row(0, 90, 180)
    row.world.crash("h1", keeps_disk=True)
    row.send("h0", "h2")
    row.world.restart("h1")
    row.send("h0", "h2", 2)
    row.until(1)
    assert [given for _, given in row.ears["h2"].given] == [Received(Word(2), "h0", hops=2)]


def test_o1_messages_between_two_hosts_stay_in_order_when_the_path_becomes_shorter() -> None:
    row = Row(0, 90, 180)
    underlay = row.world.underlay
    assert underlay is not None
    late = underlay.arrival_us(0, 2, hops=5)
    assert underlay.arrival_us(0, 2, hops=1) == late
    assert underlay.arrival_us(0, 1, hops=1) < late


@pytest.mark.parametrize("given", [{"hop_ms": 0}, {"step_ms": -1}, {"hop_ms": float("nan")}])
def test_delays_that_are_none_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="give milliseconds above 0"):
        UnderlayParams(**given)
