"""What happened in a random trial, as far as its checks ask: deliveries, notes, events under way, and which version
of a subscription was in force when."""

from msgspec import Struct

from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.node.observer import Observer

UNDER_WAY = ("pub", "notified")
"""Messages with which an event goes from its publisher into the network, and from broker to broker."""
FORBIDDEN = (
    "replay_missing",
    "counterpart_lost",
    "events_lost",
    "neighbour_gone",
    "publication_refused",
    "unsendable",
    "stream_gap",
    "stream_overflow",
    "wish_refused",
    "bad_claim",
    "event_looped",
)
"""Notes that would mean a loss: none is allowed while nothing crashes and no bound is reached."""
BY_CRASHES = ("replay_missing", "events_lost", "neighbour_gone", "bad_claim")
"""Those that a crash brings about, until everybody has recovered: a broker may get a claim of its own life before."""


class Ledger(Observer):
    """What each subscription got, in order, and what the nodes noted."""

    def __init__(self) -> None:
        self.got: dict[str, list[str]] = {}
        self.at_us: dict[tuple[str, str], int] = {}
        """When each event arrived at each subscription, the last time."""
        self.notes: dict[str, int] = {}
        self.noted_us: dict[tuple[str, str], int] = {}
        """By host and note, when it was noted last."""
        self.under_way_us: dict[str, tuple[int, int]] = {}
        """By event, when somebody first and last sent it on its way through the brokers."""

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        self.got.setdefault(subscription_id, []).append(event.id)
        self.at_us[subscription_id, event.id] = now_us

    def noted(self, now_us: int, host: str, what: str, detail: str) -> None:
        self.notes[what] = self.notes.get(what, 0) + 1
        self.noted_us[host, what] = now_us

    def transmitted(
        self, now_us: int, host: str, message_type: str, size_bytes: int, to: str | None, event_id: str | None
    ) -> None:
        if event_id is not None and message_type in UNDER_WAY:
            self.under_way_us[event_id] = (self.under_way_us.get(event_id, (now_us, now_us))[0], now_us)


class Version(Struct, frozen=True):
    """A subscription as it is from a moment on; None: it is over."""

    from_us: int
    subscription: Subscription | None


class Versions:
    """What each subscription was, and when."""

    def __init__(self) -> None:
        self.of: dict[str, list[Version]] = {}

    def now(self, now_us: int, name: str, subscription: Subscription | None) -> None:
        self.of.setdefault(name, []).append(Version(now_us, subscription))

    def at(self, name: str, now_us: int) -> Subscription | None:
        """What was in force at a moment; before the first version there is none."""
        before = [version for version in self.of[name] if version.from_us <= now_us]
        return before[-1].subscription if before else None

    def between(self, name: str, from_us: int, until_us: int) -> list[Subscription | None]:
        """Whatever was in force at any moment of an interval."""
        later = [version.subscription for version in self.of[name] if from_us < version.from_us <= until_us]
        return [self.at(name, from_us), *later]

    def ended(self, name: str) -> bool:
        return self.of[name][-1].subscription is None
