"""Filters written as JSON and text and read again (S4): nothing changes on the way."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.context import Context
from roamcast.model.filter.bad_filter import BadFilter
from roamcast.model.filter.bound import bind
from roamcast.model.filter.evaluate import compile_filter
from roamcast.model.filter.parse import parse_text
from roamcast.model.filter.read_json import parse_json
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import (
    DEPTH_MAX,
    FALSE,
    TRUE,
    UNKNOWN,
    And,
    Attribute,
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
from roamcast.model.filter.write import to_json, to_text
from roamcast.model.places import MovementGraph
from roamcast.model.region import Circle
from roamcast.model.space import Plane
from roamcast.model.values import Instant, Point, Value
from tests.effort import examples
from tests.filter.strategies import contexts, filters, graphs, scenes
from tests.filter.test_parse import CONSTRUCTS

X = Attribute("x")
names = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
literals: st.SearchStrategy[Value] = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**53), 2**53),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.booleans(),
    st.integers(-(2**53), 2**53).map(Instant),
    st.builds(Point, *[st.floats(allow_nan=False, allow_infinity=False)] * 2),
)


def through_json(filter_: Filter) -> Filter:
    return parse_json(json.dumps(to_json(filter_), allow_nan=False))


def through_text(filter_: Filter) -> Filter:
    return parse_text(to_text(filter_))


@pytest.mark.parametrize("text", [text for text, _ in CONSTRUCTS])
def test_s4_what_was_parsed_comes_back_equal(text: str) -> None:
    parsed = parse_text(text)
    assert through_json(parsed) == parsed
    assert through_text(parsed) == parsed


@examples(400)
@given(filters(), scenes(), graphs())
def test_s4_every_tree_comes_back_with_the_same_truth(filter_: Filter, scene: Scene, graph: MovementGraph) -> None:
    truth = compile_filter(filter_, Plane(), graph)(scene)
    assert compile_filter(through_json(filter_), Plane(), graph)(scene) is truth
    assert compile_filter(through_text(filter_), Plane(), graph)(scene) is truth


@examples(400)
@given(filters())
def test_s4_a_tree_comes_back_in_one_shape_whichever_way_it_went(filter_: Filter) -> None:
    shaped = through_json(filter_)
    assert through_text(filter_) == shaped
    assert through_json(shaped) == shaped
    assert through_text(shaped) == shaped


@examples(300)
@given(names, literals)
def test_s4_any_name_and_any_literal_come_back(name: str, value: Value) -> None:
    for term in (Attribute(f"a{name}"), Mine(name), Publishers(name), Neighbours("avg", name)):
        filter_ = Filter(Compare("=", term, Literal(value)))
        assert through_json(filter_) == filter_
        assert through_text(filter_) == filter_


@examples(200)
@given(filters(), contexts(), graphs())
def test_r7_a_filter_bound_to_its_reader_comes_back(filter_: Filter, me: Context, graph: MovementGraph) -> None:
    bound = bind(filter_, me, Plane(), graph, [])
    assert through_text(bound) == through_json(bound)
    assert through_json(through_json(bound)) == through_json(bound)


def test_s4_the_comparison_of_what_comes_back_can_fail() -> None:
    lost = Filter(And((Compare("=", X, Literal(1)), TRUE)))
    assert through_text(lost) != Filter(Compare("=", X, Literal(1)))


TEXTS: list[tuple[Predicate, str]] = [
    (UNKNOWN, "NULL = NULL"),
    (And(()), "TRUE"),
    (Or(()), "FALSE"),
    (And((Or((IsNull(X),)),)), "x IS NULL"),
    (Not(And((Or((IsNull(X), TRUE)), FALSE))), "NOT ((x IS NULL OR TRUE) AND FALSE)"),
    (Not(Not(IsNull(X))), "NOT x IS NOT NULL"),
    (Not(OneOf(X, (1, 2))), "x NOT IN (1, 2)"),
    (Compare("=", X, Literal(5.0)), "x = 5"),
    (Compare("=", X, Literal(0.1)), "x = 0.1"),
    (Compare("=", X, Literal("it's")), "x = 'it''s'"),
    (Compare("=", Attribute("and"), Attribute('a "b"')), '"and" = "a ""b"""'),
    (Compare("=", X, Literal(Instant(1_500_000))), "x = TIMESTAMP('1970-01-01T00:00:01.500000Z')"),
    (Compare("=", X, Literal(Point(1.0, -0.5))), "x = POINT(1 -0.5)"),
    (Near(Mine("position"), 200.0), "near(me.position, 200)"),
    (Inside(X, Circle(Point(1, 2), 3.5)), "near(x, 3.5, POINT(1 2))"),
    (Inside(X, Circle(Point(1, 2), 3.5), False), "nearer(x, 3.5, POINT(1 2))"),
]


@pytest.mark.parametrize(("root", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_s4_text_is_short_and_plain(root: Predicate, text: str) -> None:
    assert to_text(Filter(root)) == text


@pytest.mark.parametrize("us", [-(2**53), -1, 0, 2**53])
def test_s4_the_first_and_the_last_instant_come_back(us: int) -> None:
    filter_ = Filter(Compare("=", X, Literal(Instant(us))))
    assert through_text(filter_) == filter_


def test_s4_the_deepest_tree_comes_back() -> None:
    root: Predicate = Inside(X, Circle(Point(1, 2), 3.5))
    for level in range(DEPTH_MAX - 1):
        root = (Not(root), And((root, TRUE)), Or((root, TRUE)))[level % 3]
    filter_ = Filter(root)
    assert through_text(filter_) == filter_
    assert through_json(filter_) == filter_


def test_s4_the_widest_tree_comes_back_as_json() -> None:
    filter_ = Filter(OneOf(Attribute("x" * 128), tuple(range(999))))
    assert through_json(filter_) == filter_


UNWRITABLE: list[Predicate] = [
    IsNull(Attribute("me.x")),
    IsNull(Attribute("publisher.x")),
    IsNull(Attribute("neighbours.x")),
    IsNull(Mine("")),
    IsNull(Attribute("a\nb")),
    Compare("=", X, Neighbours("avg", "")),
    Like(X, "\ud800"),
]


@pytest.mark.parametrize("root", UNWRITABLE, ids=repr)
@pytest.mark.parametrize("write", [to_json, to_text])
def test_s4_what_the_language_cannot_say_is_refused(root: Predicate, write: type) -> None:
    with pytest.raises(BadFilter):
        write(Filter(root))


def test_s4_the_text_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "from roamcast.model.filter import parse_text, to_text, to_json;"
        "f = parse_text(\"x IN ('c', 'a', 1, 'b', POINT(2 1), POINT(1 2)) OR y IN (myloc(1), z, 3)\");"
        "print(to_text(f), to_json(f))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
