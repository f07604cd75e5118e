"""A client at its border broker: its session, and what of it goes to the next broker (R3).

A session is attached or away. In either state it may *await* what the client's old broker kept: until that has come
nothing new is numbered, and nothing the client publishes goes out, so that old comes before new for everybody. A
session that a later broker claims meanwhile is *claimed*: it takes in nothing more, and passes on what it awaits.
"""

from collections import deque
from collections.abc import Iterator

import msgspec

from roamcast.broker.counterpart import Counterpart
from roamcast.broker.logical.template import NOWHERE, State
from roamcast.broker.mesh.prediction import Trip
from roamcast.broker.messages import Numbered, Pub, Relocate, Replay
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription

PIECE_BYTES_MAX = 256 * 1024
"""Of one message with several events: a quarter of what a message may have."""


class Session:
    def __init__(self, client: str, epoch: int, counterpart: Counterpart) -> None:
        self.client = client
        self.epoch = epoch
        self.counterpart = counterpart
        self.subscriptions: dict[str, Subscription] = {}
        self.wishes: dict[str, str] = {}
        """By subscription, the id of the wish that stands for it."""
        self.announced: dict[str, None] = {}
        """The subjects that are advertised for the client."""
        self.early_epoch: int | None = None
        """The attachment in which the client gets events before the replay is complete (R7)."""
        self.client_state: State = NOWHERE
        """What its subscriptions depend on, as the client said last."""
        self.luggage: bytes | None = None
        """What the last border kept for the client beside its events, as the replay brought it."""
        self.attached = True
        self.published = 0
        """The serial of the client's last publication that was accepted."""
        self.awaits: int | None = None
        """The epoch of the claim whose replay is awaited."""
        self.held: deque[tuple[Event, int, tuple[str, ...]]] = deque()
        """What came here while the replay was awaited, with its serial and the subscriptions it is for."""
        self.publications: list[Pub] = []
        """What the client published meanwhile."""
        self.refused = False
        """Whether a publication found no room: the client must send it, and all behind it, again."""
        self.missing = False
        """Whether what an earlier broker kept never came, and the client was not told yet."""
        self.claim: Relocate | None = None
        """The claim of a later broker, answered when the replay is complete."""
        self.trip: Trip | None = None
        """Where the client said it goes (M5)."""
        self.quiet = False
        """Whether new events wait here until the client asks for them, or is somewhere else (M8)."""
        self.apart: dict[int, Numbered] = {}
        """What has come of a replay whose events travel apart, by number."""
        self.sent_ahead: dict[int, Numbered] = {}
        """What was sent here before its client came, by number; how much of it counts is for the replay to say."""
        self.replay: Replay | None = None
        """The last message of that replay, if it came before all of its events."""

    def hold(self, event: Event, serial: int, subscriptions: tuple[str, ...]) -> None:
        """Bounded as the counterpart is: the oldest goes, and is counted."""
        self.held.append((event, serial, subscriptions))
        if len(self.held) > self.counterpart.events_max:
            self.held.popleft()
            self.counterpart.lost += 1

    def replayed(self, replay: Replay) -> None:
        """Takes over what the old broker had."""
        for numbered in replay.events:
            # A piece may come twice, if a broker on its way crashed after it had passed it on.
            if not self.counterpart.kept or numbered.number > self.counterpart.kept[-1].number:
                self.counterpart.keep(numbered)
        for publisher, serial in replay.marks:
            self.counterpart.mark(publisher, serial)
        self.counterpart.lost += replay.lost
        self.missing = self.missing or replay.missing
        self.counterpart.next_number = max(self.counterpart.next_number, replay.next_number)
        self.published = max(self.published, replay.published)
        self.luggage = replay.luggage or self.luggage

    def release(self) -> list[tuple[Event, int, tuple[str, ...]]]:
        """The replay is complete: what was held is to be numbered behind it, without what the old broker had."""
        self.awaits = None
        new = [each for each in self.held if self.counterpart.is_new(each[0].publisher.host, each[1])]
        self.held.clear()
        return new


def replays(session: Session, claim: Relocate, events_max: int, luggage: bytes | None = None) -> Iterator[Replay]:
    """The answer to a claim, in pieces of at most `events_max` events and so many bytes."""
    counterpart = session.counterpart
    pieces = list(in_pieces(counterpart.after(claim.after), events_max))
    for number, piece in enumerate(pieces, start=1):
        last = number == len(pieces)
        yield Replay(
            client=session.client,
            epoch=claim.epoch,
            path=claim.path,
            events=piece,
            last=last,
            next_number=counterpart.next_number,
            published=session.published,
            lost=counterpart.lost if last else 0,
            marks=tuple(counterpart.marks.items()) if last else (),
            luggage=luggage if number == 1 else None,
            missing=session.missing and last,
        )


def in_pieces(events: list[Numbered], events_max: int) -> Iterator[tuple[Numbered, ...]]:
    """At least one, if only an empty one."""
    piece: list[Numbered] = []
    size = 0
    for event in events:
        event_bytes = len(msgspec.msgpack.encode(event))
        if piece and (len(piece) >= events_max or size + event_bytes > PIECE_BYTES_MAX):
            yield tuple(piece)
            piece, size = [], 0
        piece.append(event)
        size += event_bytes
    yield tuple(piece)
