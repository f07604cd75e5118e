"""A client at a broker: what its session is, and where that is on its way from broker to broker (R3).

What a session *is* travels with its client: epoch, subscriptions, the window of deliveries that are not finished,
what the client has published. Where it is does not, and is its `Attachment`:

    attached     the client has a link to this broker;
    away         it has none: deliveries wait in the window until it returns, or another broker claims them;
    awaiting     (attached or away) what the client's last broker kept has not come yet. Until it has, nothing new is
                 numbered, and nothing that the client publishes goes out: old comes before new for everybody;
    claimed      (awaiting, and away) a later broker has claimed it meanwhile. It takes in nothing more, and passes on
                 what it awaits. A client can have several of these at one broker, and a session beside them.
"""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from roamcast.broker.logical.template import NOWHERE, State
from roamcast.broker.mesh.prediction import Trip
from roamcast.broker.messages import Numbered, Pub, Relocate, Replay
from roamcast.broker.window import Delivery, Window
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription

PIECE_BYTES_MAX = 256 * 1024
"""Of one message with several events: a quarter of what a message may have."""


class Attachment:
    def __init__(self) -> None:
        self.attached = True
        self.awaits: int | None = None
        """The epoch of the claim whose replay is awaited."""
        self.held: deque[tuple[Event, int, tuple[str, ...]]] = deque()
        """What came here while the replay was awaited, with its serial and the subscriptions it is for."""
        self.claim: Relocate | None = None
        """The claim of a later broker, answered when the replay is complete."""
        self.early_epoch: int | None = None
        """The attachment in which the client gets events before the replay is complete (R7)."""
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


class Session:
    def __init__(self, client: str, epoch: int, window: Window) -> None:
        self.client = client
        self.epoch = epoch
        self.window = window
        self.attachment = Attachment()
        self.subscriptions: dict[str, Subscription] = {}
        self.wishes: dict[str, str] = {}
        """By subscription, the id of the wish that stands for it."""
        self.announced: dict[str, None] = {}
        """The subjects that are advertised for the client."""
        self.client_state: State = NOWHERE
        """What its subscriptions depend on, as the client said last."""
        self.luggage: bytes | None = None
        """What the last border kept for the client beside its events, as the replay brought it."""
        self.published = 0
        """The serial of the client's last publication that was accepted."""
        self.publications: list[Pub] = []
        """What it has published and could not go out yet."""
        self.refused = False
        """Whether a publication found no room: the client must send it, and all behind it, again."""
        self.missing = False
        """Whether what an earlier broker kept never came, and the client was not told yet."""

    def hold(self, event: Event, serial: int, subscriptions: tuple[str, ...]) -> None:
        """Bounded as the window is: the oldest goes, and is counted."""
        held = self.attachment.held
        held.append((event, serial, subscriptions))
        if len(held) > self.window.bounds.entries_max:
            held.popleft()
            self.window.lost += 1

    def replayed(self, replay: Replay) -> None:
        """Takes over what the old broker had."""
        for each in replay.events:
            self.window.keep(each.number, each.delivery)
        if replay.window is not None:
            self.window.take_over(replay.window)
        self.missing = self.missing or replay.missing
        self.published = max(self.published, replay.published)
        self.luggage = replay.luggage or self.luggage

    def release(self) -> list[tuple[Event, int, tuple[str, ...]]]:
        """The replay is complete: what was held is to be numbered behind it, without what the old broker had."""
        attachment = self.attachment
        attachment.awaits = None
        new = [each for each in attachment.held if self.window.is_new(each[0].publisher.host, each[1])]
        attachment.held.clear()
        return new

    def lacking(self, after: int) -> list[Numbered]:
        """What the client, or its next broker, has not got that has everything up to a number."""
        return numbered(self.window.after(after))


def numbered(deliveries: Iterable[tuple[int, Delivery]], epoch: int = 0) -> list[Numbered]:
    return [Numbered(number, delivery, epoch) for number, delivery in deliveries]


def replays(session: Session, claim: Relocate, events_max: int, luggage: bytes | None = None) -> Iterator[Replay]:
    """The answer to a claim, in pieces of at most `events_max` events and so many bytes."""
    pieces = list(in_pieces(session.lacking(claim.after), events_max))
    for number, piece in enumerate(pieces, start=1):
        last = number == len(pieces)
        yield Replay(
            client=session.client,
            epoch=claim.epoch,
            path=claim.path,
            events=piece,
            last=last,
            window=session.window.state() if last else None,
            published=session.published,
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
