"""Group ids: 24 bits, the same for all who know the announcement, far apart for different ones (S7)."""

from hypothesis import given
from hypothesis import strategies as st

from roamcast.adhoc.proximity.groups import DISCOVERY_GROUP, description_of, group_id, group_of
from roamcast.model.region import Anchored, Box, Circle, Polygon
from roamcast.model.values import Point
from tests.effort import examples

NAVAL = Point(310.0, 20.5)
CIRCLE = Circle(Point(0.0, 0.0), 40.0)


def test_the_description_names_subject_shape_reference_and_initial_naval() -> None:
    """S7, figure 5."""
    mobile = description_of("traffic light", Anchored(CIRCLE, "a"), NAVAL)
    assert mobile == "traffic light; mobile; circle 40.0 at 0.0,0.0; reference 0.0,0.0; naval 310.0,20.5"
    box = Box(Point(0, 0), Point(10, 20))
    assert description_of("x", box, NAVAL) == "x; stationary; rectangle 0.0,0.0 to 10.0,20.0; naval 310.0,20.5"


@given(st.text(max_size=200))
@examples(200)
def test_ids_have_24_bits_and_are_never_that_of_discovery(text: str) -> None:
    """S7."""
    assert DISCOVERY_GROUP < group_id(text) < 2**24


def test_everything_in_the_description_changes_the_id() -> None:
    """S7."""
    polygon = Polygon((Point(0, 0), Point(5, 0), Point(0, 5)))
    ids = [
        group_of("a", CIRCLE, NAVAL),
        group_of("b", CIRCLE, NAVAL),
        group_of("a", Circle(Point(0.0, 0.0), 41.0), NAVAL),
        group_of("a", CIRCLE, Point(310.0, 20.6)),
        group_of("a", Anchored(CIRCLE, "h"), NAVAL),
        group_of("a", Anchored(CIRCLE, "h", Point(1, 1)), NAVAL),
        group_of("a", Box(Point(0, 0), Point(10, 10)), NAVAL),
        group_of("a", polygon, NAVAL),
    ]
    assert len(set(ids)) == len(ids)


def test_an_integer_and_a_float_describe_the_same_place() -> None:
    """S7: producers and consumers may write numbers differently."""
    whole = Circle(Point(0, 0), 40)
    assert group_of("a", whole, Point(1, 2)) == group_of("a", CIRCLE, Point(1.0, 2.0))


def test_forty_announcements_of_14_to_18_characters_do_not_collide() -> None:
    """S7 and 5.3: different types, all with the same stationary circle of 200 m, for many choices of names."""
    circle = Circle(NAVAL, 200.0)
    words = ["traffic", "weather", "parking", "accident", "roadwork"]
    for trial in range(50):
        names = [f"{words[n % 5]} {trial:02} kind{n:02}" for n in range(40)]
        assert all(14 <= len(name) <= 18 for name in names)
        assert len({group_of(name, circle, NAVAL) for name in names}) == 40


def test_ids_spread_like_chance() -> None:
    """S7: among 4,096 similar descriptions about 0.5 pairs collide by chance; far more would be a bad hash."""
    ids = {group_of(f"subject {n}", CIRCLE, NAVAL) for n in range(4_096)}
    assert len(ids) >= 4_096 - 8
