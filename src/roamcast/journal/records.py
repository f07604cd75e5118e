"""What a journal holds: one typed record for each thing that happened, in the words of the model.

Every record begins with `host`, who wrote it, and `at_us`, when; a record belongs to the table that `schema` gives
its type. The incarnation and the sequence number that make a record unique are not fields here: the writer counts,
so that whoever records cannot count wrong, and the reader gives them back beside the record (`reader.Entry`).
"""

from typing import TypeAlias

from msgspec import Struct

from roamcast.model.context import Context
from roamcast.model.event import Announcement, Event
from roamcast.model.places import MovementGraph
from roamcast.model.space import Earth, Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import BadValue, Point, Value, Velocity


class BadJournal(Exception):
    """A journal that cannot be written or read as it is; the message names the file and the field."""


class UnwritableRecord(BadJournal):
    """A record that the tables cannot hold; the journal goes on without it."""


class Base(Struct, frozen=True):
    """Base of all records."""

    host: str
    """Who wrote the record."""
    at_us: int
    """When: microseconds since 1970 UTC, or since the start of a simulation."""


class Run(Base, frozen=True):
    """One opening of a journal, its first record: what everything else in it is to be read with.

    `host` names the writer: the host itself in a live system, the run in a simulation, where one writer serves all.
    """

    space: Plane | Earth
    seed: int | None = None
    """None for a live system; then `at_us` counts from 1970."""
    scenario: str = ""
    neighbour_range_m: float = 0.0
    movement_graph: dict[str, tuple[str, ...]] | None = None
    """`MovementGraph.neighbours`, which `myloc` walks on."""

    def graph(self) -> MovementGraph | None:
        return None if self.movement_graph is None else MovementGraph(self.movement_graph)


class Move(Base, frozen=True):
    """From `at_us` on the host is at `position` and moves on with `velocity`, until its next move (M2).

    A host that is not `up` is gone: it left or crashed, and is nowhere. One that is up without a position is there,
    and nobody knows where.
    """

    position: Point | None
    velocity: Velocity | None = None
    destination: Point | None = None
    pause_us: int = 0
    pause_left_us: int = 0
    up: bool = True

    def __post_init__(self) -> None:
        if not self.up and any(each is not None for each in (self.position, self.velocity, self.destination)):
            raise BadValue(f"host '{self.host}' is down, and so has no position, velocity or destination")

    @classmethod
    def gone(cls, host: str, at_us: int) -> "Move":
        return cls(host, at_us, None, up=False)

    @classmethod
    def of(cls, context: Context) -> "Move":
        return cls(
            context.host,
            context.at_us,
            context.position,
            context.velocity,
            context.destination,
            context.pause_us,
            context.pause_left_us,
        )

    def context(self, attributes: dict[str, Value]) -> Context:
        """The context at this move of a host that is up, with the attributes of its last `ContextChange`."""
        return Context(
            self.host,
            self.position,
            self.at_us,
            self.velocity,
            self.destination,
            self.pause_us,
            self.pause_left_us,
            attributes,
        )


class ContextChange(Base, frozen=True):
    """From `at_us` on the host has these attributes and no others."""

    attributes: dict[str, Value]


class Subscribed(Base, frozen=True):
    subscription: Subscription


class Unsubscribed(Base, frozen=True):
    """The subscription ended before it expired."""

    subscription_id: str


class Published(Base, frozen=True):
    event: Event


class Delivered(Base, frozen=True):
    """An event reached the application that made the subscription."""

    event_id: str
    subscription_id: str
    subscriber: str
    hops: int | None = None
    """How many transmissions it took; None where nobody counted."""


class Transmitted(Base, frozen=True, gc=False):
    """One message left the host, over the air or over a link."""

    message: str
    """The message's type, by its tag."""
    size_bytes: int
    receiver: str | None = None
    """None for a broadcast."""
    event_id: str | None = None


class Announced(Base, frozen=True):
    announcement: Announcement


class Unannounced(Base, frozen=True):
    announcement_id: str


class Noted(Base, frozen=True):
    """Something worth counting: a drop, a bound reached, a decision taken."""

    what: str
    detail: str = ""


RUN_ENDED = "run_ended"
EVENT_WITHDRAWN = "event_withdrawn"
"""The note of a publisher that ends an event before its time; its detail is the event."""
"""What the last note of a writer says, if its run came to an end: without it, the run was cut."""

FENCE_PUT = "fence_put"
"""The note of a broker that has fences from now on; its detail is their name, a line end, and their GeoJSON."""
FENCE_REMOVED = "fence_removed"
"""Its detail is their name."""
ANCHOR_AT = "anchor_at"
"""The note of a broker that has learned where a client is that fences move with; its detail is the client, a line
end, and `x,y`, or nothing if it has no place."""
PLACE_KEPT = "place_kept"
"""The note of a client behind a move that is no report of a place: it has connected, or told of something else."""

Record: TypeAlias = (
    Run
    | Move
    | ContextChange
    | Subscribed
    | Unsubscribed
    | Published
    | Delivered
    | Transmitted
    | Announced
    | Unannounced
    | Noted
)
