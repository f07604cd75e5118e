"""L9: what crosses a gateway is on the other side, and back again, what it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from roamcast.client.content import payload_of
from roamcast.gateway.parcel import (
    Parcel,
    event_for_area,
    parcel_from_area,
    parcel_from_broker,
    publication_of,
)
from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.match import includes
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.space import Plane
from roamcast.model.values import BadValue, Point
from tests.effort import examples
from tests.journal import strategies as some

PLANE = Plane()
WIDE = Circle(Point(0.0, 0.0), 1e8)


@st.composite
def parcels(draw: st.DrawFn) -> Parcel:
    event: Event = draw(some.events())
    payload = payload_of(event.attributes)
    if not event.attributes and draw(st.booleans()):
        payload = draw(st.binary().filter(lambda data: not data.lstrip().startswith(b"{")))
    properties = draw(st.lists(st.tuples(st.just("trace"), some.texts), max_size=2).map(tuple))
    return Parcel(event, payload, draw(st.none() | some.event_types), properties)


def placeable(parcel: Parcel) -> Parcel:
    """With scopes that have a place: around the publisher, who knows where it is."""
    event = parcel.event
    publisher = replace(event.publisher, position=event.publisher.position or Point(3.0, 4.0), velocity=None)

    def around(scope: Scope) -> Scope:
        region = scope.region
        return replace(scope, region=replace(region, host=publisher.host)) if isinstance(region, Anchored) else scope

    changed = replace(event, publisher=publisher, relevance=around(event.relevance), audience=around(event.audience))
    return replace(parcel, event=changed)


@examples(60)
@given(parcels())
def test_l9_to_a_broker_and_back_is_the_identity(parcel: Parcel) -> None:
    said = publication_of(parcel, parcel.event.published_us)
    back = parcel_from_broker(said.subject, said.payload, (("id", said.id), *said.properties))
    assert some.exact(back) == some.exact(parcel)


@examples(60)
@given(parcels().map(placeable), st.sampled_from([None, WIDE]))
def test_l9_into_an_area_and_out_of_it_is_the_identity(parcel: Parcel, proximity: Circle | None) -> None:
    event = event_for_area(parcel, "gateway", PLANE, proximity)
    assert (event.id, event.publisher) == (parcel.event.id, parcel.event.publisher)
    assert some.exact(parcel_from_area(event, None)) == some.exact(parcel)


@examples(60)
@given(parcels().map(placeable), some.points)
def test_l9_in_an_area_the_audience_is_who_it_was(parcel: Parcel, place: Point) -> None:
    """A proximity around the publisher, inside of the gateway's own wide one."""
    publisher = parcel.event.publisher
    region = Anchored(Circle(Point(0.0, 0.0), 1e5), publisher.host)
    parcel = replace(parcel, event=replace(parcel.event, audience=Scope(region)))
    event = event_for_area(parcel, "gateway", PLANE, WIDE)
    known = Configuration(PLANE, [publisher, Context("reader", place)])
    assert includes(event.audience, "reader", known) == includes(parcel.event.audience, "reader", known)


def test_l9_an_audience_around_somebody_who_does_not_know_where_it_is_has_no_place() -> None:
    event = Event(
        "car:1", "ice", Context("car"), 0, 0, {}, audience=Scope(Anchored(Circle(Point(0.0, 0.0), 9), "car"))
    )
    with pytest.raises(BadValue, match="does not say where"):
        event_for_area(Parcel(event, b"{}"), "gateway", PLANE, None)


def test_l9_a_message_without_an_origin_is_refused() -> None:
    with pytest.raises(BadValue, match="does not tell origins"):
        parcel_from_broker("ice", b"{}", ())


def test_l9_an_event_that_lasts_expires_at_brokers_when_it_did_in_its_area() -> None:
    event = Event("car:1", "ice", Context("car"), 1_000_000, 61_000_000)
    assert publication_of(Parcel(event, b"{}"), 1_000_000).expiry_s == 60
    assert publication_of(Parcel(replace(event, expires_us=1_000_000), b"{}"), 1_000_000).expiry_s is None
