"""Small worlds for tests: hosts at given places, with nodes that write down what they are given."""

from collections.abc import Callable, Sequence

from roamcast.model.places import MovementGraph
from roamcast.model.values import Point
from roamcast.movement.legs import Leg, Track, resting_forever
from roamcast.node.boundary import Does, Input, Message, Node, Received
from roamcast.node.codec import Codec
from roamcast.node.kit import Seat
from roamcast.node.observer import Observer
from roamcast.node.port import Application
from roamcast.sim.faults import FaultParams
from roamcast.sim.hosts import Resident
from roamcast.sim.links import LinkParams
from roamcast.sim.radio import RadioParams
from roamcast.sim.world import World


class Said(Message, frozen=True, tag="said"):
    text: str


CODEC = Codec((Said,))


class Diary:
    """A node that keeps what it is given with the time, and answers as it was told to."""

    def __init__(self, seat: Seat, answer: Callable[[int, Input], list[Does]] | None = None) -> None:
        self.host = seat.host
        self.seat = seat
        self.entries: list[tuple[int, Input]] = []
        self.answer = answer

    def handle(self, now_us: int, given: Input) -> list[Does]:
        self.entries.append((now_us, given))
        return [] if self.answer is None else self.answer(now_us, given)

    def heard(self) -> list[str]:
        return [
            given.message.text
            for _, given in self.entries
            if isinstance(given, Received) and isinstance(given.message, Said)
        ]

    def kinds(self) -> list[str]:
        return [type(given).__name__ for _, given in self.entries]


class Notes(Observer):
    """Keeps every note and transmission."""

    def __init__(self) -> None:
        self.notes: list[tuple[int, str, str]] = []
        self.sent: list[tuple[int, str]] = []

    def noted(self, now_us: int, host: str, what: str, detail: str) -> None:
        self.notes.append((now_us, host, what))

    def transmitted(
        self, now_us: int, host: str, message_type: str, size_bytes: int, to: str | None, event_id: str | None
    ) -> None:
        self.sent.append((now_us, host))


class SmallWorld:
    """A world of diaries: `names` at `places`, or along the given legs."""

    def __init__(
        self,
        hosts: dict[str, tuple[float, float] | list[Leg]],
        radio: RadioParams | None = None,
        links: Sequence[LinkParams] = (),
        faults: FaultParams | None = None,
        seed: int = 1,
        answers: dict[str, Callable[[int, Input], list[Does]]] | None = None,
        observers: tuple[Observer, ...] = (),
        applications: dict[str, Callable[[], Application]] | None = None,
        packet_bytes: int | None = None,
        graph: MovementGraph | None = None,
    ) -> None:
        self.diaries: dict[str, list[Diary]] = {}
        self.notes = Notes()

        def make_node(seat: Seat) -> Node:
            diary = Diary(seat, (answers or {}).get(seat.host))
            self.diaries.setdefault(seat.host, []).append(diary)
            return diary

        made = applications or {}
        residents = [
            Resident(name, track_of(where), make_node, make_application=made.get(name))
            for name, where in hosts.items()
        ]
        everybody = (self.notes, *observers)
        self.world = World(
            residents, CODEC, seed, radio, links, faults, everybody, packet_bytes, graph, round_trip=True
        )

    def __getitem__(self, host: str) -> Diary:
        """The latest diary of a host: it gets a new one when it restarts after a crash."""
        return self.diaries[host][-1]

    def at(self, seconds: float, action: Callable[..., None], *arguments: object) -> None:
        self.world.kernel.at(round(seconds * 1e6), action, *arguments)

    def run(self, seconds: float) -> None:
        for _ in self.world.run(round(seconds * 1e6)):
            pass

    def does(self, seconds: float, host: str, effect: Does) -> None:
        """Lets a host perform an effect at a time, as if its node had answered with it."""

        def perform() -> None:
            self.world.perform(self.world.by_name[host].host, effect)

        self.at(seconds, perform)


def track_of(where: tuple[float, float] | list[Leg]) -> Track:
    if isinstance(where, tuple):
        return Track([resting_forever(0, Point(*where))])
    return Track(where)
