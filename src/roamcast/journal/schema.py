"""The tables of a journal: their columns, and how a record becomes a row and a row a record again.

`docs/JOURNAL.md` is the normative description for those who read a journal with other tools; a test keeps the two
together. Whatever changes a column here changes `SCHEMA_VERSION`.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias

import pyarrow as pa
from msgspec import Struct

from roamcast.journal import plain
from roamcast.journal.records import (
    Announced,
    ContextChange,
    Delivered,
    Move,
    Noted,
    Published,
    Record,
    Run,
    Subscribed,
    Transmitted,
    Unannounced,
    Unsubscribed,
)
from roamcast.model.event import Announcement, Delivery, Event, EventType
from roamcast.model.filter.tree import Filter
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point

SCHEMA_VERSION = 2
VERSION_DIRECTORY = f"v{SCHEMA_VERSION}"
VERSION_KEY = b"roamcast.journal.version"
TABLE_KEY = b"roamcast.journal.table"

TEXT = pa.string()
INTEGER = pa.int64()
DOUBLE = pa.float64()
FLAG = pa.bool_()

VALUE = pa.struct(
    [
        ("number", DOUBLE),
        ("integer", FLAG),
        ("text", TEXT),
        ("flag", FLAG),
        ("time_us", INTEGER),
        ("x", DOUBLE),
        ("y", DOUBLE),
    ]
)
ATTRIBUTES = pa.map_(TEXT, VALUE)
REGION = pa.struct(
    [
        ("shape", TEXT),
        ("x", DOUBLE),
        ("y", DOUBLE),
        ("radius_m", DOUBLE),
        ("corners", pa.list_(pa.struct([("x", DOUBLE), ("y", DOUBLE)]))),
        ("anchor", TEXT),
        ("reference_x", DOUBLE),
        ("reference_y", DOUBLE),
    ]
)
SCOPE = pa.struct([("region", REGION), ("filter", TEXT)])
MOTION = [
    ("x", DOUBLE),
    ("y", DOUBLE),
    ("velocity_east", DOUBLE),
    ("velocity_north", DOUBLE),
    ("destination_x", DOUBLE),
    ("destination_y", DOUBLE),
    ("pause_us", INTEGER),
    ("pause_left_us", INTEGER),
]
CONTEXT = pa.struct([("host", TEXT), ("at_us", INTEGER), *MOTION, ("attributes", ATTRIBUTES)])

Row: TypeAlias = tuple[Any, ...]


class Column(Struct, frozen=True):
    name: str
    type: Any
    nullable: bool = False
    value: Callable[[Any], Any] | None = None
    """From the plain value that Arrow gives to the model's; None where they are the same."""

    @property
    def field(self) -> Any:
        return pa.field(self.name, self.type, nullable=self.nullable)


HEADER = (
    Column("host", TEXT),
    Column("incarnation", INTEGER),
    Column("sequence", INTEGER),
    Column("at_us", INTEGER),
)


def no_filters(_: Record) -> tuple[Filter | None, ...]:
    return ()


class Table(Struct, frozen=True):
    """One kind of record. `row` gives the plain values of `columns`; `make` takes host, time and the model's."""

    name: str
    record: type[Record]
    columns: tuple[Column, ...]
    row: Callable[[Any], Row]
    make: Callable[..., Record]
    weighed: bool = False
    """Whether its records differ so much in size that the writer has to weigh each."""
    filters: Callable[[Any], tuple[Filter | None, ...]] = no_filters
    """Of a record: not every tree that can be built can be written, so the writer has to look before it accepts."""

    @property
    def schema(self) -> Any:
        metadata = {VERSION_KEY: str(SCHEMA_VERSION).encode(), TABLE_KEY: self.name.encode()}
        return pa.schema([column.field for column in (*HEADER, *self.columns)], metadata=metadata)

    @property
    def is_nested(self) -> bool:
        return any(pa.types.is_nested(column.type) for column in self.columns)

    @property
    def encoding(self) -> dict[str, Any]:
        """How Parquet writes it. The tables without nested columns are the long ones: there texts go to dictionaries
        and integers to differences, which is a quarter of the bytes at half the time; the others as Arrow does."""
        if self.is_nested:
            return {}
        columns = (*HEADER, *self.columns)
        return {
            "use_dictionary": [column.name for column in columns if column.type == TEXT],
            "column_encoding": {c.name: "DELTA_BINARY_PACKED" for c in columns if c.type == INTEGER},
        }


def row_of_run(run: Run) -> Row:
    graph = plain.plain_graph(run.movement_graph)
    return (SCHEMA_VERSION, plain.plain_space(run.space), run.seed, run.scenario, run.neighbour_range_m, graph)


def run_of(host: str, at_us: int, _version: int, *described: Any) -> Run:
    return Run(host, at_us, *described)


def row_of_move(move: Move) -> Row:
    return (
        *plain.plain_point(move.position),
        *plain.plain_velocity(move.velocity),
        *plain.plain_point(move.destination),
        move.pause_us,
        move.pause_left_us,
        move.up,
    )


def move_of(
    host: str,
    at_us: int,
    x: float | None,
    y: float | None,
    east: float | None,
    north: float | None,
    destination_x: float | None,
    destination_y: float | None,
    pause_us: int,
    pause_left_us: int,
    up: bool,
) -> Move:
    destination = plain.point_of(destination_x, destination_y)
    velocity = plain.velocity_of(east, north)
    return Move(host, at_us, plain.point_of(x, y), velocity, destination, pause_us, pause_left_us, up)


def row_of_subscription(record: Subscribed) -> Row:
    wanted = record.subscription
    return (
        wanted.id,
        wanted.subscriber,
        wanted.subject,
        wanted.issued_us,
        wanted.expires_us,
        plain.plain_filter(wanted.filter),
        plain.plain_scope(wanted.interest),
        plain.plain_scope(wanted.publishers),
        wanted.modulator,
    )


def filters_of_subscription(record: Subscribed) -> tuple[Filter | None, ...]:
    wanted = record.subscription
    return (wanted.filter, wanted.interest.filter, wanted.publishers.filter)


def row_of_publication(record: Published) -> Row:
    event = record.event
    return (
        event.id,
        event.subject,
        plain.plain_context(event.publisher),
        event.published_us,
        event.expires_us,
        plain.plain_attributes(event.attributes),
        plain.plain_scope(event.relevance),
        plain.plain_scope(event.audience),
    )


def filters_of_publication(record: Published) -> tuple[Filter | None, ...]:
    return (record.event.relevance.filter, record.event.audience.filter)


def row_of_announcement(record: Announced) -> Row:
    promised = record.announcement
    wish = promised.event_type.delivery
    return (
        promised.id,
        promised.producer,
        promised.event_type.subject,
        plain.plain_content(promised.event_type.content),
        wish.validity_us,
        wish.priority,
        wish.deadline_us,
        wish.order,
        plain.plain_region(promised.proximity),
        promised.initial_naval.x,
        promised.initial_naval.y,
    )


def announced_of(host: str, at_us: int, id_: str, producer: str, subject: str, content: Any, *rest: Any) -> Announced:
    *delivery, proximity, x, y = rest
    event_type = EventType(subject, content, Delivery(*delivery))
    return Announced(host, at_us, Announcement(id_, event_type, producer, proximity, Point(x, y)))


TABLES = (
    Table(
        "moves",
        Move,
        (*(Column(name, type_, nullable=type_ is DOUBLE) for name, type_ in MOTION), Column("up", FLAG)),
        row_of_move,
        move_of,
    ),
    Table(
        "contexts",
        ContextChange,
        (Column("attributes", ATTRIBUTES, value=plain.attributes_of),),
        lambda record: (plain.plain_attributes(record.attributes),),
        ContextChange,
        weighed=True,
    ),
    Table(
        "subscriptions",
        Subscribed,
        (
            Column("subscription_id", TEXT),
            Column("subscriber", TEXT),
            Column("subject", TEXT),
            Column("issued_us", INTEGER),
            Column("expires_us", INTEGER),
            Column("filter", TEXT, value=plain.filter_of),
            Column("interest", SCOPE, value=plain.scope_of),
            Column("publishers", SCOPE, value=plain.scope_of),
            Column("modulator", TEXT),
        ),
        row_of_subscription,
        lambda host, at_us, *fields: Subscribed(host, at_us, Subscription(*fields)),
        weighed=True,
        filters=filters_of_subscription,
    ),
    Table(
        "unsubscriptions",
        Unsubscribed,
        (Column("subscription_id", TEXT),),
        lambda record: (record.subscription_id,),
        Unsubscribed,
    ),
    Table(
        "publications",
        Published,
        (
            Column("event_id", TEXT),
            Column("subject", TEXT),
            Column("publisher", CONTEXT, value=plain.context_of),
            Column("published_us", INTEGER),
            Column("expires_us", INTEGER),
            Column("attributes", ATTRIBUTES, value=plain.attributes_of),
            Column("relevance", SCOPE, value=plain.scope_of),
            Column("audience", SCOPE, value=plain.scope_of),
        ),
        row_of_publication,
        lambda host, at_us, *fields: Published(host, at_us, Event(*fields)),
        weighed=True,
        filters=filters_of_publication,
    ),
    Table(
        "deliveries",
        Delivered,
        (
            Column("event_id", TEXT),
            Column("subscription_id", TEXT),
            Column("subscriber", TEXT),
            Column("hops", INTEGER, nullable=True),
        ),
        attrgetter("event_id", "subscription_id", "subscriber", "hops"),
        Delivered,
    ),
    Table(
        "transmissions",
        Transmitted,
        (
            Column("message", TEXT),
            Column("size_bytes", INTEGER),
            Column("receiver", TEXT, nullable=True),
            Column("event_id", TEXT, nullable=True),
        ),
        attrgetter("message", "size_bytes", "receiver", "event_id"),
        Transmitted,
    ),
    Table(
        "announcements",
        Announced,
        (
            Column("announcement_id", TEXT),
            Column("producer", TEXT),
            Column("subject", TEXT),
            Column("content", pa.map_(TEXT, TEXT), value=plain.content_of),
            Column("validity_us", INTEGER, nullable=True),
            Column("priority", INTEGER),
            Column("deadline_us", INTEGER, nullable=True),
            Column("order", TEXT),
            Column("proximity", REGION, nullable=True, value=plain.region_of),
            Column("initial_naval_x", DOUBLE),
            Column("initial_naval_y", DOUBLE),
        ),
        row_of_announcement,
        announced_of,
        weighed=True,
    ),
    Table(
        "unannouncements",
        Unannounced,
        (Column("announcement_id", TEXT),),
        lambda record: (record.announcement_id,),
        Unannounced,
    ),
    Table(
        "notes",
        Noted,
        (Column("what", TEXT), Column("detail", TEXT)),
        attrgetter("what", "detail"),
        Noted,
        weighed=True,
    ),
    # Last, because a segment's files appear in this order: whoever sees a run sees all tables of its opening.
    Table(
        "runs",
        Run,
        (
            Column("schema_version", INTEGER),
            Column("space", TEXT, value=plain.space_of),
            Column("seed", INTEGER, nullable=True),
            Column("scenario", TEXT),
            Column("neighbour_range_m", DOUBLE),
            Column("movement_graph", pa.map_(TEXT, pa.list_(TEXT)), nullable=True, value=plain.graph_of),
        ),
        row_of_run,
        run_of,
        weighed=True,
    ),
)
"""In the order in which the files of one segment become visible."""
