"""True, false and unknown: what a single filter says of a single scene (S4, C2, R4, R7)."""

import math
import re
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.context import Context
from roamcast.model.filter import parse_text
from roamcast.model.filter.evaluate import accepts, compile_filter, like_regex
from roamcast.model.filter.mask import Columns, truths
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import (
    FALSE,
    TRUE,
    UNKNOWN,
    And,
    AtMyLoc,
    Attribute,
    Closing,
    Compare,
    Constant,
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
from roamcast.model.places import MovementGraph, movement_graph
from roamcast.model.region import Circle
from roamcast.model.space import Earth, Plane
from roamcast.model.values import Instant, Point, Velocity
from tests.effort import examples
from tests.filter.strategies import OPERATORS, scene_with

EMPTY = scene_with()
A, POSITION = Attribute("a"), Attribute("position")
STATES = (True, False, None)


def truth(root: Predicate, scene: Scene = EMPTY, graph: MovementGraph | None = None) -> bool | None:
    return compile_filter(Filter(root), Plane(), graph)(scene)


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_comparison_with_a_missing_attribute_is_unknown_s4(operator: str) -> None:
    assert truth(Compare(operator, A, Literal(1))) is None  # type: ignore[arg-type]


def test_unknown_does_not_match_s4() -> None:
    assert not accepts(Filter(Compare("<>", A, Literal(1))), EMPTY, Plane())


def test_not_unknown_is_unknown_s4() -> None:
    assert truth(Not(Compare("=", A, Literal(1)))) is None


@pytest.mark.parametrize("left", STATES)
@pytest.mark.parametrize("right", STATES)
def test_and_or_are_kleenes_minimum_and_maximum_s4(left: bool | None, right: bool | None) -> None:
    order = {False: 0, None: 1, True: 2}
    pair = (Constant(left), Constant(right))
    assert truth(And(pair)) is min(left, right, key=order.__getitem__)
    assert truth(Or(pair)) is max(left, right, key=order.__getitem__)


def test_false_decides_an_and_and_true_decides_an_or_whatever_is_unknown_s4() -> None:
    assert truth(And((UNKNOWN, FALSE))) is False
    assert truth(Or((UNKNOWN, TRUE))) is True


@pytest.mark.parametrize("value", ["1", True, Instant(1), Point(1.0, 1.0)])
def test_kinds_that_differ_compare_as_unknown_s4(value: str | bool | Instant | Point) -> None:
    assert truth(Compare("=", A, Literal(1)), scene_with(a=value)) is None
    assert truth(OneOf(A, (1,)), scene_with(a=value)) is None


def test_integers_and_doubles_are_one_kind_s1_s4() -> None:
    assert truth(Compare("=", A, Literal(1.0)), scene_with(a=1)) is True


def test_booleans_are_not_numbers_in_either_order_of_asking_s4() -> None:
    """Python holds True == 1, so two such filters must not share one compiled closure."""
    one, yes = Filter(Compare("=", A, Literal(1))), Filter(Compare("=", A, Literal(True)))
    for scene, number, boolean in ((scene_with(a=1), True, False), (scene_with(a=True), False, True)):
        assert accepts(yes, scene, Plane()) is boolean
        assert accepts(one, scene, Plane()) is number


def test_lists_of_booleans_and_of_numbers_are_different_filters_s4() -> None:
    ones, yeses = Filter(OneOf(A, (1,))), Filter(OneOf(A, (True,)))
    assert ones != yeses
    assert accepts(yeses, scene_with(a=True), Plane())
    assert accepts(ones, scene_with(a=1), Plane())


def test_booleans_and_positions_have_no_order_s4() -> None:
    assert truth(Compare("<", A, Literal(True)), scene_with(a=False)) is None
    assert truth(Compare("<", A, Literal(Point(1.0, 1.0))), scene_with(a=Point(0.0, 0.0))) is None


def test_is_null_is_never_unknown_s4() -> None:
    assert truth(IsNull(A)) is True
    assert truth(IsNull(A), scene_with(a=0)) is False


@pytest.mark.parametrize(
    "make",
    [
        lambda: Literal(math.nan),
        lambda: Literal(math.inf),
        lambda: Literal(2**53 + 1),
        lambda: Literal("\ud800"),
        lambda: Literal(Instant(10**20)),
        lambda: OneOf(A, ()),
        lambda: OneOf(A, (1, "one")),
        lambda: OneOf(A, (1, math.nan)),
        lambda: Near(POSITION, -1.0),
        lambda: Near(POSITION, math.nan),
        lambda: AtMyLoc(A, -1),
        lambda: AtMyLoc(A, 65),
    ],
)
def test_a_tree_that_no_evaluator_could_answer_for_cannot_be_made_s4(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        make()


def test_like_asks_only_texts_s4() -> None:
    assert truth(Like(A, "%"), scene_with(a=1)) is None
    assert truth(Like(A, "p_%"), scene_with(a="pq\n")) is True


def test_my_own_state_is_unknown_without_a_reader_r7() -> None:
    affordable = Compare("<=", Attribute("price"), Mine("budget"))
    assert truth(affordable, scene_with(price=5)) is None
    assert truth(affordable, scene_with(Context("me", attributes={"budget": 5}), price=5)) is True


def test_near_is_unknown_without_my_position_and_holds_on_the_circle_s4() -> None:
    near = Near(POSITION, 5.0)
    assert truth(near, scene_with(Context("me"), position=Point(3.0, 4.0))) is None
    assert truth(near, scene_with(Context("me", Point(0.0, 0.0)), position=Point(3.0, 4.0))) is True


def test_approaching_needs_every_velocity_it_is_about_s4() -> None:
    me = Context("me", Point(0.0, 0.0), velocity=Velocity(1.0, 0.0))
    still = Context("them", Point(9.0, 0.0))
    ahead = Closing(Publishers("position"), "approaching")
    assert truth(ahead, scene_with(me, still)) is None
    assert truth(Closing(POSITION, "approaching"), scene_with(me, still, position=Point(9.0, 0.0))) is True
    faster = Context("them", Point(9.0, 0.0), velocity=Velocity(2.0, 0.0))
    assert truth(ahead, scene_with(me, faster)) is False
    assert truth(Closing(Publishers("position"), "receding"), scene_with(me, faster)) is True


def test_keeping_the_distance_is_neither_approaching_nor_receding_s4() -> None:
    me = Context("me", Point(0.0, 0.0), velocity=Velocity(0.0, 1.0))
    abeam = scene_with(me, position=Point(9.0, 0.0))
    assert truth(Closing(POSITION, "approaching"), abeam) is False
    assert truth(Closing(POSITION, "receding"), abeam) is False


def test_inside_without_its_boundary_leaves_the_circle_out_s4() -> None:
    rim = scene_with(position=Point(5.0, 0.0))
    circle = Circle(Point(0.0, 0.0), 5.0)
    assert truth(Inside(POSITION, circle), rim) is True
    assert truth(Inside(POSITION, circle, boundary=False), rim) is False
    assert truth(Inside(POSITION, circle), scene_with(position="here")) is None


def test_myloc_needs_a_graph_and_my_place_r4() -> None:
    graph = movement_graph({"p": ["q"], "q": ["r"]})
    at = AtMyLoc(Attribute("place"), 1)
    here = Context("me", attributes={"place": "p"})
    assert truth(at, scene_with(here, place="q")) is None
    assert truth(at, scene_with(Context("me"), place="q"), graph) is None
    assert truth(at, scene_with(here, place="q"), graph) is True
    assert truth(at, scene_with(here, place="r"), graph) is False


def test_neighbours_are_counted_and_averaged_over_those_that_say_c2() -> None:
    around = [Context("p", attributes={"a": 1}), Context("q", attributes={"a": 4}), Context("r")]
    scene = Scene(lambda _: None, neighbours=lambda: around)
    assert truth(Compare("=", Neighbours("count"), Literal(3)), scene) is True
    assert truth(Compare("=", Neighbours("avg", "a"), Literal(2.5)), scene) is True
    assert truth(Compare("=", Neighbours("max", "b"), Literal(1)), scene) is None
    assert truth(Compare("=", Neighbours("count"), Literal(0))) is None


AROUND = (
    Context("p", Point(3, 0), attributes={"a": 1, "braking": True}),
    Context("q", Point(90, 0), attributes={"a": 4, "braking": False}),
    Context("r", attributes={"a": 6}),
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("neighbours.count(a > 3) = 2", True),
        ("neighbours.count(braking) = 1", True),
        ("neighbours.count(NOT braking) = 1", True),
        ("neighbours.count(braking IS NULL) = 1", True),
        ("neighbours.count(a > me.a) = 2", True),
        ("neighbours.count(near(position, 10)) = 1", True),
        ("neighbours.count(host = 'q' OR host = 'r') = 2", True),
        ("neighbours.avg('a', a > 3) = 5", True),
        ("neighbours.max('a', braking) = 1", True),
        ("neighbours.min('a', a > 9) = 0", None),
        ("neighbours.any(braking)", True),
        ("neighbours.any(a > 9)", False),
        ("neighbours.all(a > 0)", True),
        ("neighbours.all(braking)", False),
    ],
)
def test_neighbours_that_fulfil_a_condition_are_counted_and_averaged_c2(text: str, wanted: bool | None) -> None:
    """Unknown is not true: "r" does not say whether it brakes."""
    me = Context("me", Point(0, 0), attributes={"a": 2})
    scene = Scene(lambda _: None, me, neighbours=lambda: AROUND)
    assert truth(parse_text(text).root, scene) is wanted


def test_all_of_no_neighbours_fulfil_a_condition_and_of_unknown_ones_nothing_is_known_c2() -> None:
    nobody = Scene(lambda _: None, neighbours=lambda: ())
    assert truth(parse_text("neighbours.all(a > 0)").root, nobody) is True
    assert truth(parse_text("neighbours.any(a > 0)").root, nobody) is False
    assert truth(parse_text("neighbours.all(a > 0)").root) is None


def test_the_average_of_huge_numbers_is_a_number_c2() -> None:
    around = [Context("p", attributes={"a": 1.7e308}), Context("q", attributes={"a": 1.7e308})]
    scene = Scene(lambda _: None, neighbours=lambda: around)
    assert truth(Compare("=", Neighbours("avg", "a"), Literal(1.7e308)), scene) is True


def test_a_column_that_is_not_there_is_missing_on_every_row_s4() -> None:
    found = truths(Filter(Or((Compare("=", A, Literal(1)), IsNull(A)))), Columns(rows=3), Earth())
    assert found.true.tolist() == found.known.tolist() == [True] * 3


def like_by_definition(text: str, pattern: str) -> bool:
    """LIKE as its definition reads: try every length for `%`."""

    @cache
    def fits(at: int, then: int) -> bool:
        if then == len(pattern):
            return at == len(text)
        wanted = pattern[then]
        if wanted == "%":
            return any(fits(later, then + 1) for later in range(at, len(text) + 1))
        step = 2 if wanted == "\\" and then + 1 < len(pattern) else 1
        anything = wanted == "_"
        found = at < len(text) and (anything or text[at] == pattern[then + step - 1])
        return found and fits(at + 1, then + step)

    return fits(0, 0)


@examples(800)
@given(st.text("ab_%\\\n.é", max_size=8), st.text("ab_%\\\n.é", max_size=8))
def test_like_is_its_definition_s4(text: str, pattern: str) -> None:
    found = re.compile(like_regex(pattern), re.DOTALL).fullmatch(text) is not None
    assert found is like_by_definition(text, pattern)


def test_a_hostile_like_pattern_is_answered_s4() -> None:
    """With plain `.*` between the pieces this would try more combinations than there is time for."""
    assert truth(Like(A, "%a" * 40 + "%b"), scene_with(a="a" * 3000)) is False
