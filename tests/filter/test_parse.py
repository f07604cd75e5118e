"""Filter text: each construct and the tree it stands for (S4, C2, R7), and what is said about mistakes."""

import re
from pathlib import Path

import cql2
import pytest
from hypothesis import assume, given

from roamcast.model.filter.bad_filter import BadFilter
from roamcast.model.filter.parse import parse_text
from roamcast.model.filter.read_json import parse_json, read_filter
from roamcast.model.filter.tree import (
    FALSE,
    TRUE,
    UNKNOWN,
    And,
    AtMyLoc,
    Attribute,
    Closing,
    Compare,
    Filter,
    Inside,
    IsNull,
    Like,
    Literal,
    Mine,
    Near,
    Neighbours,
    Not,
    OneOf,
    Or,
    Predicate,
    Publishers,
)
from roamcast.model.filter.write import to_text
from roamcast.model.region import Box, Circle, Polygon
from roamcast.model.values import Instant, Point
from tests.effort import examples
from tests.filter.strategies import filters

X, Y, T, P = Attribute("x"), Attribute("y"), Attribute("t"), Attribute("position")
X_IS_1 = Compare("=", X, Literal(1))
Y_IS_2 = Compare("=", Y, Literal(2))
Z_IS_3 = Compare("=", Attribute("z"), Literal(3))
NEW_YEAR = Instant(1_767_225_600_000_000)
NEXT_DAY = Instant(1_767_312_000_000_000)
SQUARE = Polygon((Point(0, 0), Point(9, 0), Point(9, 9), Point(0, 9)))
HOLE = Polygon((Point(2, 2), Point(3, 2), Point(3, 3)))
TRIANGLE = Polygon((Point(20, 0), Point(21, 0), Point(21, 1)))
BOX = Box(Point(0, 0), Point(1, 2))

CONSTRUCTS: list[tuple[str, Predicate]] = [
    # Comparisons and literals.
    ("x = 1", X_IS_1),
    ("x <> 1", Compare("<>", X, Literal(1))),
    ("x != 1", Compare("<>", X, Literal(1))),
    ("x < 1", Compare("<", X, Literal(1))),
    ("x <= 1", Compare("<=", X, Literal(1))),
    ("x > 1", Compare(">", X, Literal(1))),
    ("x >= 1", Compare(">=", X, Literal(1))),
    ("1 < x", Compare("<", Literal(1), X)),
    ("x = y", Compare("=", X, Y)),
    ("x = -5", Compare("=", X, Literal(-5))),
    ("x = +5", Compare("=", X, Literal(5))),
    ("x = - 2.5", Compare("=", X, Literal(-2.5))),
    ("x = 1.5e3", Compare("=", X, Literal(1500))),
    ("x = 1e-3", Compare("=", X, Literal(0.001))),
    ("x = 9007199254740992", Compare("=", X, Literal(2**53))),
    ("x = 'red'", Compare("=", X, Literal("red"))),
    ("x = 'it''s'", Compare("=", X, Literal("it's"))),
    ("x = ''", Compare("=", X, Literal(""))),
    ("x = TRUE", Compare("=", X, Literal(True))),
    ("x = false", Compare("=", X, Literal(False))),
    ("x = POINT(1 -2.5)", Compare("=", X, Literal(Point(1, -2.5)))),
    ("x = (1)", X_IS_1),
    ("x\n=\t1 ", X_IS_1),
    # Names.
    ('"x" = 1', X_IS_1),
    ('"two words" = 1', Compare("=", Attribute("two words"), Literal(1))),
    ('"a""b" = 1', Compare("=", Attribute('a"b'), Literal(1))),
    ('x = "two words"', Compare("=", X, Attribute("two words"))),
    ("a.b:c_1 = 1", Compare("=", Attribute("a.b:c_1"), Literal(1))),
    ("été = 1", Compare("=", Attribute("été"), Literal(1))),
    ("_x = 1", Compare("=", Attribute("_x"), Literal(1))),
    ("notes = 1", Compare("=", Attribute("notes"), Literal(1))),
    ("price <= me.budget", Compare("<=", Attribute("price"), Mine("budget"))),
    ("publisher.speed > 3", Compare(">", Publishers("speed"), Literal(3))),
    ("neighbours.count() > 3", Compare(">", Neighbours("count"), Literal(3))),
    ("speed > neighbours.avg('speed')", Compare(">", Attribute("speed"), Neighbours("avg", "speed"))),
    ("x = neighbours.min('y')", Compare("=", X, Neighbours("min", "y"))),
    ("x = NEIGHBOURS.MAX('y')", Compare("=", X, Neighbours("max", "y"))),
    ("neighbours.count(x = 1) > 3", Compare(">", Neighbours("count", where=X_IS_1), Literal(3))),
    ("neighbours.count(TRUE) > 3", Compare(">", Neighbours("count"), Literal(3))),
    ("x = neighbours.avg('y', x = 1)", Compare("=", X, Neighbours("avg", "y", X_IS_1))),
    ("neighbours.any(x = 1)", Compare(">", Neighbours("count", where=X_IS_1), Literal(0))),
    ("neighbours.all(x = 1)", Compare("=", Neighbours("count", where=X_IS_1), Neighbours("count"))),
    # Logic.
    ("TRUE", TRUE),
    ("false", FALSE),
    ("NULL", UNKNOWN),
    ("x", Compare("=", X, Literal(True))),
    ("NOT me.busy", Not(Compare("=", Mine("busy"), Literal(True)))),
    ("x = 1 AND y = 2 AND z = 3", And((X_IS_1, Y_IS_2, Z_IS_3))),
    ("(x = 1 AND y = 2) and z = 3", And((X_IS_1, Y_IS_2, Z_IS_3))),
    ("x = 1 OR (y = 2 OR z = 3)", Or((X_IS_1, Y_IS_2, Z_IS_3))),
    ("x = 1 OR y = 2 AND z = 3", Or((X_IS_1, And((Y_IS_2, Z_IS_3))))),
    ("(x = 1 OR y = 2) AND z = 3", And((Or((X_IS_1, Y_IS_2)), Z_IS_3))),
    ("NOT x = 1 AND y = 2", And((Not(X_IS_1), Y_IS_2))),
    ("NOT (x = 1 AND y = 2)", Not(And((X_IS_1, Y_IS_2)))),
    ("NOT NOT x = 1", Not(Not(X_IS_1))),
    # NULL.
    ("x IS NULL", IsNull(X)),
    ("x IS NOT NULL", Not(IsNull(X))),
    ("NULL IS NULL", TRUE),
    ("x = NULL", UNKNOWN),
    ("x LIKE NULL", UNKNOWN),
    ("NULL IN (1)", UNKNOWN),
    ("near(NULL, 5)", UNKNOWN),
    ("approaching(NULL)", UNKNOWN),
    ("S_WITHIN(NULL, BBOX(0, 0, 1, 2))", UNKNOWN),
    ("T_AFTER(NULL, t)", UNKNOWN),
    # Ranges, lists, patterns.
    ("x BETWEEN 1 AND 2", And((Compare(">=", X, Literal(1)), Compare("<=", X, Literal(2))))),
    (
        "x BETWEEN 1 AND 2 AND y = 2",
        And((Compare(">=", X, Literal(1)), Compare("<=", X, Literal(2)), Y_IS_2)),
    ),
    ("x NOT BETWEEN 1 AND y", Not(And((Compare(">=", X, Literal(1)), Compare("<=", X, Y))))),
    ("x IN (3, 1, 2.0, 1)", OneOf(X, (1, 2, 3))),
    ("x NOT IN ('b', 'a')", Not(OneOf(X, ("a", "b")))),
    ("x IN (1, 'a', 2)", Or((OneOf(X, (1, 2)), OneOf(X, ("a",))))),
    ("x IN (TRUE, 1)", Or((OneOf(X, (1,)), OneOf(X, (True,))))),
    ("x IN (y, 1, NULL)", Or((OneOf(X, (1,)), Compare("=", X, Y), UNKNOWN))),
    ("x IN (POINT(3 1), POINT(1 2))", OneOf(X, (Point(1, 2), Point(3, 1)))),
    ("x IN (DATE('2026-01-02'), DATE('2026-01-01'))", OneOf(X, (NEW_YEAR, NEXT_DAY))),
    (r"x LIKE 'a\%b_c%'", Like(X, r"a\%b_c%")),
    ("me.name NOT LIKE 'a%'", Not(Like(Mine("name"), "a%"))),
    # Time.
    ("t > TIMESTAMP('2026-01-01T00:00:00Z')", Compare(">", T, Literal(NEW_YEAR))),
    ("t > timestamp('2026-01-01T02:00:00+02:00')", Compare(">", T, Literal(NEW_YEAR))),
    ("t = TIMESTAMP('2026-01-01T00:00:00.000250Z')", Compare("=", T, Literal(Instant(NEW_YEAR.us + 250)))),
    ("t = TIMESTAMP('1969-12-31T23:59:59.5Z')", Compare("=", T, Literal(Instant(-500_000)))),
    ("t = DATE('2026-01-01')", Compare("=", T, Literal(NEW_YEAR))),
    ("T_AFTER(t, DATE('2026-01-01'))", Compare(">", T, Literal(NEW_YEAR))),
    ("T_BEFORE(t, publisher.since)", Compare("<", T, Publishers("since"))),
    ("T_EQUALS(DATE('2026-01-01'), t)", Compare("=", Literal(NEW_YEAR), T)),
    (
        "T_DURING(t, INTERVAL('2026-01-01', '2026-01-02T00:00:00Z'))",
        And((Compare(">", T, Literal(NEW_YEAR)), Compare("<", T, Literal(NEXT_DAY)))),
    ),
    ("T_DURING(t, INTERVAL('..', '2026-01-02'))", Compare("<", T, Literal(NEXT_DAY))),
    ("T_DURING(t, INTERVAL(x, '..'))", Compare(">", T, X)),
    (
        "T_INTERSECTS(t, INTERVAL('2026-01-01', '2026-01-02'))",
        And((Compare(">=", T, Literal(NEW_YEAR)), Compare("<=", T, Literal(NEXT_DAY)))),
    ),
    ("T_INTERSECTS(INTERVAL('2026-01-01', '..'), t)", Compare(">=", T, Literal(NEW_YEAR))),
    ("T_DISJOINT(t, INTERVAL('2026-01-01', '..'))", Not(Compare(">=", T, Literal(NEW_YEAR)))),
    ("T_AFTER(t, INTERVAL('..', '2026-01-02'))", Compare(">", T, Literal(NEXT_DAY))),
    ("T_BEFORE(t, INTERVAL('2026-01-01', '..'))", Compare("<", T, Literal(NEW_YEAR))),
    ("T_AFTER(INTERVAL('2026-01-01', '..'), t)", Compare(">", Literal(NEW_YEAR), T)),
    # Place.
    ("S_INTERSECTS(position, POINT(1 2))", Compare("=", P, Literal(Point(1, 2)))),
    ("S_DISJOINT(POINT(1 2), position)", Compare("<>", P, Literal(Point(1, 2)))),
    ("S_INTERSECTS(position, POLYGON((0 0, 9 0, 9 9, 0 9, 0 0)))", Inside(P, SQUARE)),
    ("S_WITHIN(position, POLYGON((0 0, 9 0, 9 9, 0 9, 0 0)))", Inside(P, SQUARE, False)),
    ("S_CONTAINS(POLYGON((0 0, 9 0, 9 9, 0 9, 0 0)), position)", Inside(P, SQUARE, False)),
    ("S_DISJOINT(position, BBOX(0, 0, 1, 2))", Not(Inside(P, BOX))),
    ("S_INTERSECTS(BBOX(0, 0, 1, 2), me.position)", Inside(Mine("position"), BOX)),
    (
        "S_INTERSECTS(position, POLYGON((0 0, 9 0, 9 9, 0 9, 0 0), (2 2, 3 2, 3 3, 2 2)))",
        And((Inside(P, SQUARE), Not(Inside(P, HOLE, False)))),
    ),
    (
        "S_WITHIN(position, POLYGON((0 0, 9 0, 9 9, 0 9, 0 0), (2 2, 3 2, 3 3, 2 2)))",
        And((Inside(P, SQUARE, False), Not(Inside(P, HOLE)))),
    ),
    (
        "S_INTERSECTS(position, MULTIPOLYGON(((0 0, 9 0, 9 9, 0 9, 0 0)), ((20 0, 21 0, 21 1, 20 0))))",
        Or((Inside(P, SQUARE), Inside(P, TRIANGLE))),
    ),
    ("S_INTERSECTS(position, BBOX(170, -10, -170, 10))", Inside(P, Box(Point(170, -10), Point(-170, 10)))),
    ("S_WITHIN(POINT(1 1), BBOX(0, 0, 1, 2))", Inside(Literal(Point(1, 1)), BOX, False)),
    ("S_INTERSECTS(BBOX(0, 0, 1, 2), BBOX(1, 1, 5, 5))", TRUE),
    ("S_WITHIN(BBOX(0, 0, 1, 2), BBOX(1, 1, 5, 5))", FALSE),
    ("S_CONTAINS(BBOX(0, 0, 5, 5), BBOX(1, 1, 2, 2))", TRUE),
    ("near(position, 200)", Near(P, 200.0)),
    ("NEAR(publisher.position, 0.5)", Near(Publishers("position"), 0.5)),
    ("near(position, 200, POINT(1 2))", Inside(P, Circle(Point(1, 2), 200.0))),
    ("nearer(position, 200, POINT(1 2))", Inside(P, Circle(Point(1, 2), 200.0), False)),
    ("approaching(position)", Closing(P, "approaching")),
    ("receding(publisher.position)", Closing(Publishers("position"), "receding")),
    ("place IN myloc(1)", AtMyLoc(Attribute("place"), 1)),
    ("place NOT IN myloc(0)", Not(AtMyLoc(Attribute("place"), 0))),
    ("place IN (myloc(2), 'hall')", Or((OneOf(Attribute("place"), ("hall",)), AtMyLoc(Attribute("place"), 2)))),
]


@pytest.mark.parametrize(("text", "expected"), CONSTRUCTS, ids=[text for text, _ in CONSTRUCTS])
def test_s4_each_construct_is_read_as_its_tree(text: str, expected: Predicate) -> None:
    assert parse_text(text) == Filter(expected)


def test_s4_a_number_without_a_fraction_is_an_integer() -> None:
    root = parse_text("x = 5.0").root
    assert isinstance(root, Compare)
    assert isinstance(root.right, Literal)
    assert type(root.right.value) is int


MISTAKES = [
    ("x == 1", 2, "use = for 'equal'"),
    ('x = "red"', 4, "use single quotes for text"),
    ('x LIKE "red"', 7, "use single quotes for text"),
    ('x IN (1, "red")', 9, "use single quotes for text"),
    ("x = ‘red’", 4, "straight single quotes"),
    ("x = 'red", 4, "never ends"),
    ('"red = 1', 0, "never ends"),
    ("nearby(position, 200)", 0, "did you mean near(position, metres)"),
    ("x = 1 AND aproaching(position)", 10, "did you mean approaching(position)?"),
    ("S_INTERSECT(position, POINT(1 2))", 0, "did you mean S_INTERSECTS"),
    ("x = neighbors.avg('speed')", 4, "did you mean neighbours.avg('attribute')"),
    ("quux(x)", 0, "unknown function 'quux'; known are"),
    ("S_INTERSECTS(position, ENVELOPE(0, 0, 1, 1))", 23, "unknown function 'ENVELOPE'"),
    ("x + 1 > 2", 2, "arithmetic is not part"),
    ("x > y * 2", 6, "arithmetic is not part"),
    ("x > -y", 4, "a minus sign stands only before a number"),
    ("x div 2 = 1", 2, "arithmetic is not part"),
    ("1 < x < 3", 6, "comparisons do not chain"),
    ("x = ", 4, "expected a value"),
    ("x = 1 AND", 9, "expected a value"),
    ("x = 1 y = 2", 6, "expected AND, OR or the end"),
    ("(x = 1", 6, "expected AND, OR or ')'"),
    ("x = 1)", 5, "expected AND, OR or the end"),
    ("", 0, "the filter is empty"),
    ("  \n", 0, "the filter is empty"),
    ("x IS 5", 5, "NULL or NOT NULL"),
    ("x NOT 5", 6, "BETWEEN, IN or LIKE after NOT"),
    ("x IN 5", 5, "a list in brackets"),
    ("x IN ()", 6, "expected a value"),
    ("x BETWEEN 1 OR 2", 12, "AND and the upper bound"),
    ("x LIKE me.name", 7, "pattern after LIKE must be text"),
    ("CASEI(x) = 'a'", 0, "CASEI is not part"),
    ("x && y", 2, "use AND"),
    ("x || y", 2, "use OR"),
    ("!x", 0, "use NOT"),
    ("x = .5", 4, "write 0.5"),
    ("x = 5m", 5, "runs into 'm'"),
    ("x = 1; y = 2", 5, "join several with AND or OR"),
    ("x = [1]", 4, "round brackets"),
    ("x = 1e400", 4, "must be finite"),
    ("x = 9007199254740993", 4, "2^53"),
    ("(x = 1) = TRUE", 1, "a condition cannot stand where a value"),
    ("5", 0, "expected a condition, found the number 5"),
    ("'abc'", 0, "expected a condition, found the text 'abc'"),
    ("x = 1 OR neighbours.count()", 9, "is a number; compare it"),
    ("neighbours.speed > 1", 0, "neighbours are asked with neighbours.count()"),
    ("x = neighbours.avg(speed)", 4, "neighbours.avg('attribute')"),
    ("neighbours.count(x = 1, y = 2) > 1", 0, "write neighbours.count() or neighbours.count(condition)"),
    ("neighbours.count(5) > 1", 17, "expected a condition, found the number 5"),
    ("neighbours.any() AND x = 1", 0, "write neighbours.any(condition)"),
    ("x = neighbours.any(y = 1)", 4, "a condition cannot stand where a value is expected"),
    ("neighbours.any(neighbours.count() > 1)", 0, "reads their attributes and the reader's (me.) alone"),
    ("neighbours.any(x > publisher.x)", 0, "reads their attributes and the reader's (me.) alone"),
    ("me. = 1", 0, "needs the name of an attribute"),
    ("place = myloc(1)", 8, "place IN myloc(steps)"),
    ("myloc(1)", 0, "place IN myloc(steps)"),
    ("place IN myloc(65)", 9, "0 to 64"),
    ("place IN myloc(1.5)", 9, "whole number of steps"),
    ("near(position)", 0, "write near(position, metres)"),
    ("near(position, -1)", 15, "encloses nothing"),
    ("near(position, me.range)", 15, "expected a number"),
    ("near('here', 5)", 5, "expected a position"),
    ("near(position, 5, me.position)", 18, "expected a centre such as POINT(x y)"),
    ("approaching(neighbours.count())", 12, "expected a position"),
    ("position = POLYGON((0 0, 1 0, 1 1, 0 0))", 11, "areas stand in S_INTERSECTS"),
    ("S_INTERSECTS(position, LINESTRING(0 0, 1 1))", 23, "use POINT, POLYGON, MULTIPOLYGON or BBOX"),
    ("S_INTERSECTS(position, POINT Z(0 0 1))", 23, "two dimensions"),
    ("position = POINT(0 0 1)", 21, "two coordinates"),
    ("S_INTERSECTS(position, POLYGON((0 0, 1 0, 1 1)))", 23, "repeats the first one at its end"),
    ("S_INTERSECTS(position, POLYGON((0 0, 1 0, 2 0, 0 0)))", 23, "encloses no area"),
    (
        "S_INTERSECTS(position, POLYGON((0 0, 9 0, 9 9, 0 0), (20 20, 21 20, 21 21, 20 20)))",
        23,
        "hole lies outside shell",
    ),
    ("S_INTERSECTS(position, BBOX(0, 0, 1))", 23, "four numbers"),
    ("S_INTERSECTS(position, BBOX(0, 1, 1, 0))", 23, "encloses no area"),
    ("S_CONTAINS(position, BBOX(0, 0, 1, 1))", 0, "a position cannot contain an area"),
    ("S_WITHIN(position, me.position)", 0, "two positions compare with ="),
    ("S_TOUCHES(position, BBOX(0, 0, 1, 1))", 0, "unknown function"),
    ("t > TIMESTAMP('2026-01-01')", 4, "write it as 2026-01-31T12:00:00Z"),
    ("t > TIMESTAMP('2026-13-01T00:00:00Z')", 4, "month must be in 1..12"),
    ("t > TIMESTAMP('3000-01-01T00:00:00Z')", 4, "out of range"),
    ("t > TIMESTAMP(x)", 14, "the timestamp in single quotes"),
    ("t > DATE('1 May')", 4, "not a date"),
    ("t > INTERVAL('..', '2026-01-01')", 4, "an INTERVAL stands in"),
    ("T_DURING(t, INTERVAL('..', '..'))", 12, "open on both sides"),
    ("T_DURING(t, INTERVAL('2026-01-02', '2026-01-01'))", 12, "ends before it starts"),
    ("T_DURING(t, DATE('2026-01-02'))", 0, "write T_DURING"),
    ("T_AFTER(t, INTERVAL('2026-01-02', '..'))", 0, "nothing is after the open end"),
    ("T_AFTER(t, 5)", 11, "expected a time"),
]


@pytest.mark.parametrize(("text", "position", "said"), MISTAKES, ids=[text for text, _, _ in MISTAKES])
def test_s4_a_mistake_is_told_with_its_place_and_what_to_write(text: str, position: int, said: str) -> None:
    with pytest.raises(BadFilter) as caught:
        parse_text(text)
    assert caught.value.position == position
    assert said in caught.value.reason


def test_s4_the_message_shows_the_text_with_a_caret_below_the_mistake() -> None:
    with pytest.raises(BadFilter) as caught:
        parse_text("speed == 3")
    assert str(caught.value).splitlines()[1:] == ["  speed == 3", "        ^"]


def test_s4_a_long_text_is_cut_around_the_mistake() -> None:
    with pytest.raises(BadFilter) as caught:
        parse_text("x = 1 AND " * 100 + "y == 2" + " AND z = 3" * 100)
    _, shown, caret = str(caught.value).splitlines()
    assert len(shown) < 80
    assert shown[caret.index("^") :].startswith("== 2")


def as_the_package_reads_it(text: str) -> Filter:
    return read_filter(cql2.parse_text(text).to_json())


@examples(300)
@given(filters(max_leaves=6))
def test_s4_text_is_read_as_the_cql2_package_reads_it(filter_: Filter) -> None:
    """On what both of them accept: its geometries know no exponents."""
    text = to_text(filter_)
    assume("e+" not in text)
    assert parse_text(text) == as_the_package_reads_it(text)


@pytest.mark.parametrize("text", [text for text, _ in CONSTRUCTS if not text.startswith("_")])
def test_s4_each_construct_is_read_as_the_cql2_package_reads_it(text: str) -> None:
    assert parse_text(text) == as_the_package_reads_it(text)


def test_s4_the_comparison_with_the_cql2_package_can_fail() -> None:
    assert parse_text("x <= 1 OR y = 2") != as_the_package_reads_it("x < 1 OR y = 2")


def test_s4_every_example_of_the_reference_is_a_filter() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "FILTERS.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```cql2\n(.*?)```", page, re.DOTALL)
    examples = [line for block in blocks for line in block.splitlines()]
    assert len(examples) > 25
    for example in examples:
        assert isinstance(parse_text(example), Filter)
    for given_json in re.findall(r"```json\n(.*?)```", page, re.DOTALL):
        assert parse_json(given_json) == parse_text(examples[0])


def test_s4_the_reference_shows_how_filters_are_written_again() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "FILTERS.md").read_text(encoding="utf-8")
    section = page.split("## How it is written again")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(.*?)` \| `(.*?)` \|$", section, re.MULTILINE)
    assert len(rows) == 7
    for before, after in rows:
        assert to_text(parse_text(before)) == after
