"""Every record that a journal can hold, generated; and the one comparison that tells 1, 1.0 and True apart."""

import string

import msgspec
from hypothesis import strategies as st

from roamcast.journal import (
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
from roamcast.model.context import RESERVED_NAMES, Context
from roamcast.model.event import Announcement, ContentType, Delivery, Event, EventType
from roamcast.model.filter.read_json import parse_json
from roamcast.model.filter.write import to_json
from roamcast.model.region import Anchored, Box, Circle, Polygon, signed_area
from roamcast.model.scope import Scope
from roamcast.model.space import Earth, Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import INTEGER_LIMIT, Instant, Point, Velocity
from tests.filter.strategies import filters as any_filters

ENCODER = msgspec.msgpack.Encoder(order="sorted")


def exact(record: object) -> bytes:
    """Bytes that are equal only for records of the same values and the same types of values."""
    return type(record).__name__.encode() + ENCODER.encode(record)


floats = st.floats(allow_nan=False, allow_infinity=False)
metres = st.floats(-1e6, 1e6)
times = st.integers(0, 2**62)
integers = st.integers(-INTEGER_LIMIT, INTEGER_LIMIT)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text(st.sampled_from(string.ascii_letters + "äß漢-/ 09_."), min_size=1, max_size=8)
hosts = st.sampled_from(["a", "b", "car/7", "brøker"])
points = st.builds(Point, metres, metres)
velocities = st.builds(Velocity, metres, metres)
values = st.one_of(st.booleans(), integers, floats, texts, st.builds(Instant, integers), points)
attributes = st.dictionaries(names.filter(lambda name: name not in RESERVED_NAMES), values, max_size=5)

circles = st.builds(Circle, points, st.floats(0.1, 1e5))
upright_boxes = st.builds(
    lambda low, width, height: Box(low, Point(low.x + width, low.y + height)),
    points,
    st.floats(1, 1e3),
    st.floats(1, 1e3),
)
date_line_boxes = st.builds(Box, st.just(Point(170.0, -10.0)), st.just(Point(-170.0, 10.0)))
boxes = upright_boxes | date_line_boxes
polygons = (
    st.lists(points, min_size=3, max_size=6)
    .filter(lambda corners: signed_area(tuple(corners)) != 0)
    .map(tuple)
    .map(Polygon)
)
shapes = circles | boxes | polygons
regions = shapes | st.builds(Anchored, circles | polygons | upright_boxes, hosts, points)

# Trees come back in the parser's normal shape, so that is where they start.
filters = any_filters(max_leaves=4).map(lambda filter_: parse_json(to_json(filter_)))
scopes = st.builds(Scope, st.none() | regions, st.none() | filters)

contexts = st.builds(
    Context, hosts, st.none() | points, times, st.none() | velocities, st.none() | points, times, times, attributes
)
subjects = st.sampled_from(["traffic/light", "sale", "parking/free", "größe"])


@st.composite
def events(draw: st.DrawFn) -> Event:
    published_us = draw(times)
    return Event(
        draw(names),
        draw(subjects),
        draw(contexts),
        published_us,
        published_us + draw(st.integers(0, 2**60)),
        draw(attributes),
        draw(scopes),
        draw(scopes),
    )


@st.composite
def subscriptions(draw: st.DrawFn) -> Subscription:
    issued_us = draw(times)
    return Subscription(
        draw(names),
        draw(hosts),
        draw(subjects | st.sampled_from(["#", "traffic/+"])),
        issued_us,
        issued_us + draw(st.integers(0, 2**60)),
        draw(filters),
        draw(scopes),
        draw(scopes),
        draw(texts),
    )


event_types = st.builds(
    EventType,
    subjects,
    st.dictionaries(names, st.sampled_from(ContentType), max_size=4),
    st.builds(Delivery, st.none() | times, integers, st.none() | times, st.sampled_from(["none", "sender"])),
)
announcements = st.builds(Announcement, names, event_types, hosts, st.none() | regions, points)
graphs = st.dictionaries(names, st.lists(names, max_size=3).map(tuple), max_size=3)
runs = st.builds(
    Run, hosts, times, st.sampled_from([Plane(), Earth()]), st.none() | integers, texts, metres, st.none() | graphs
)

records: st.SearchStrategy[Record] = st.one_of(
    st.builds(Move, hosts, times, st.none() | points, st.none() | velocities, st.none() | points, times, times),
    st.builds(Move.gone, hosts, times),
    st.builds(ContextChange, hosts, times, attributes),
    st.builds(Subscribed, hosts, times, subscriptions()),
    st.builds(Unsubscribed, hosts, times, names),
    st.builds(Published, hosts, times, events()),
    st.builds(Delivered, hosts, times, names, names, hosts, st.none() | st.integers(0, 99)),
    st.builds(Transmitted, hosts, times, names, st.integers(0, 2**20), st.none() | hosts, st.none() | names),
    st.builds(Announced, hosts, times, announcements),
    st.builds(Unannounced, hosts, times, names),
    st.builds(Noted, hosts, times, names, texts),
)
