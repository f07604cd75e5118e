"""The closure and the numpy evaluator of a filter give one answer (S4, C2, R4, R7, P2)."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from roamcast.model.context import Context
from roamcast.model.filter.evaluate import aggregate_of, compile_filter
from roamcast.model.filter.mask import Column, Columns, mask, truths, velocities_of
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import Attribute, Compare, Filter, Literal, Not, over_neighbours
from roamcast.model.places import MovementGraph, movement_graph
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.values import Value, Velocity
from tests.effort import examples
from tests.filter.strategies import CONTEXT_NAMES, NAMES, filters, graphs, scene_with, scenes

Answers: TypeAlias = list[bool | None]
Drawn = TypeVar("Drawn")

HOST_NAMES = (*CONTEXT_NAMES, "position", "host")
GRAPH = movement_graph({"p": ["q"], "q": ["r"], "r": ["s"]})
SPACES = (Plane(), Earth())


def by_closure(filter_: Filter, seen: Sequence[Scene], space: Space, graph: MovementGraph | None) -> Answers:
    truth = compile_filter(filter_, space, graph)
    return [truth(scene) for scene in seen]


def by_numpy(filter_: Filter, seen: Sequence[Scene], space: Space, graph: MovementGraph | None) -> Answers:
    found = truths(filter_, columns_of(filter_, seen, space, graph), space, graph)
    pairs = zip(found.true.tolist(), found.known.tolist(), strict=True)
    return [true if known else None for true, known in pairs]


def columns_of(filter_: Filter, seen: Sequence[Scene], space: Space, graph: MovementGraph | None) -> Columns:
    def read(ask: Callable[[Scene], Value | None]) -> Column:
        return Column.of([ask(scene) for scene in seen])

    def hosts(ask: Callable[[Scene], Context | None]) -> dict[str, Column]:
        contexts = [ask(scene) for scene in seen]
        return {name: Column.of([None if c is None else c.value(name) for c in contexts]) for name in HOST_NAMES}

    return Columns(
        rows=len(seen),
        attributes={name: Column.of([scene.attribute(name) for scene in seen]) for name in NAMES},
        me=hosts(lambda scene: scene.me),
        publisher=hosts(lambda scene: scene.publisher),
        me_velocity=velocities_of([velocity_of(scene.me) for scene in seen]),
        publisher_velocity=velocities_of([velocity_of(scene.publisher) for scene in seen]),
        neighbours={each.asked: read(aggregate_of(each, space, graph)) for each in over_neighbours(filter_)},
    )


def velocity_of(context: Context | None) -> Velocity | None:
    return None if context is None else context.velocity


def disagreement(
    filter_: Filter, seen: Sequence[Scene], expected: Sequence[bool | None], found: Sequence[bool | None]
) -> str:
    """Says on which scenes two evaluators differ; empty where they agree."""
    return "\n".join(
        f"{filter_.root}: {right} by closure, {other} otherwise, for "
        f"{ {name: scene.attribute(name) for name in NAMES} }, me={scene.me}, publisher={scene.publisher}"
        for scene, right, other in zip(seen, expected, found, strict=True)
        if right is not other
    )


@pytest.mark.parametrize("space", SPACES, ids=["plane", "earth"])
@examples(250, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_numpy_is_true_false_and_unknown_where_the_closure_is_s4_c2_r7(space: Space, data: st.DataObject) -> None:
    filter_ = data.draw(filters(space))
    seen = data.draw(st.lists(scenes(space), max_size=6))
    graph = data.draw(st.none() | graphs())
    expected = by_closure(filter_, seen, space, graph)
    assert disagreement(filter_, seen, expected, by_numpy(filter_, seen, space, graph)) == ""


def test_mask_holds_the_rows_that_are_definitely_true_s4() -> None:
    seen = [scene_with(a=1), scene_with(a=2), scene_with(a=True), scene_with(a="1"), scene_with()]
    filter_ = Filter(Compare("<", Attribute("a"), Literal(2)))
    found = mask(filter_, columns_of(filter_, seen, Plane(), None), Plane())
    assert found.tolist() == [True, False, False, False, False]


def drawn(strategy: st.SearchStrategy[Drawn], count: int) -> list[Drawn]:
    """Always the same examples: one Spark job over all of them instead of one job for each."""
    found: list[Drawn] = []

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: Drawn) -> None:
        found.append(example)

    collect()
    return found


def two_valued(filter_: Filter, seen: Sequence[Scene]) -> Answers:
    """Wrong on purpose: unknown counts as false inside NOT, as in a language without a third value."""
    match filter_.root:
        case Not(inner):
            return [not found for found in by_closure(Filter(inner), seen, Plane(), None)]
        case _:
            return by_closure(filter_, seen, Plane(), None)


def test_the_comparison_catches_an_evaluator_without_unknown_s4() -> None:
    seen = [scene_with(), scene_with(a=1)]
    wanted = Filter(Not(Compare("=", Attribute("a"), Literal(1))))
    expected = by_closure(wanted, seen, Plane(), None)
    assert expected == [None, False]
    assert "None by closure, True otherwise" in disagreement(wanted, seen, expected, two_valued(wanted, seen))


def test_random_filters_catch_an_evaluator_without_unknown_s4() -> None:
    seen = drawn(scenes(), 20)
    asked = [Filter(Not(each.root)) for each in drawn(filters(max_leaves=3), 60)]
    assert any(
        disagreement(each, seen, by_closure(each, seen, Plane(), None), two_valued(each, seen)) for each in asked
    )


def test_random_filters_reach_all_three_values_s4() -> None:
    """Agreement on filters that are always unknown would prove nothing."""
    seen = drawn(scenes(), 40)
    answers = [tuple(by_closure(each, seen, Plane(), GRAPH)) for each in drawn(filters(max_leaves=4), 120)]
    mixed = [each for each in answers if len(set(each)) > 1]
    assert {True, False, None} == {value for each in answers for value in each}
    assert len(mixed) > len(answers) / 4
