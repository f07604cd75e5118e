"""Normal forms keep what a filter says (R2)."""

import pytest
from hypothesis import given

from roamcast.model.filter.evaluate import compile_predicate
from roamcast.model.filter.normal import CASES_MAX, cases, folded, negation_normal
from roamcast.model.filter.tree import (
    FALSE,
    TRUE,
    UNKNOWN,
    And,
    Attribute,
    Compare,
    Like,
    Literal,
    Mine,
    Not,
    OneOf,
    Or,
    Predicate,
    children,
)
from roamcast.model.values import Point
from tests.effort import examples
from tests.filter.conjunctions import PLANE, SCENES, scalar_atoms, trees

X, Y = Attribute("x"), Attribute("y")


def truths(part: Predicate) -> list[bool | None]:
    truth = compile_predicate(part, PLANE, None)
    return [truth(scene) for scene in SCENES]


@examples(150)
@given(trees(scalar_atoms()))
def test_folding_keeps_all_three_truths_r2(part: Predicate) -> None:
    assert truths(folded(part)) == truths(part)


@examples(150)
@given(trees(scalar_atoms()))
def test_negation_normal_form_keeps_all_three_truths_r2(part: Predicate) -> None:
    assert truths(negation_normal(part)) == truths(part)


@examples(150)
@given(trees(scalar_atoms()))
def test_negation_normal_form_has_not_before_atoms_only_r2(part: Predicate) -> None:
    waiting = [negation_normal(part)]
    while waiting:
        here = waiting.pop()
        assert not (isinstance(here, Not) and isinstance(here.part, And | Or | Not | Compare)), here
        waiting.extend(children(here))


@examples(150)
@given(trees(scalar_atoms()))
def test_a_filter_accepts_where_one_of_its_cases_holds_r2(part: Predicate) -> None:
    found = cases(part)
    if found is None:
        return
    by_cases = truths(Or(tuple(And(case) for case in found)))
    assert [truth is True for truth in by_cases] == [truth is True for truth in truths(part)]


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        (Compare("<", Literal(3), X), Compare(">", X, Literal(3))),
        (Compare("<", Mine("x"), X), Compare(">", X, Mine("x"))),
        (Compare("=", Literal(1), Literal(1.0)), TRUE),
        (Compare("=", Literal(1), Literal(True)), UNKNOWN),
        (Compare("<", X, Literal(True)), UNKNOWN),
        (Compare("<", X, Literal(Point(0, 0))), UNKNOWN),
        (OneOf(Literal(2), (1, 2)), TRUE),
        (Like(X, "a\\%"), Compare("=", X, Literal("a%"))),
        (Not(Compare("<", X, Literal(1))), Compare(">=", X, Literal(1))),
        (And((TRUE, And((OneOf(X, (1,)), TRUE)))), OneOf(X, (1,))),
    ],
)
def test_atoms_come_out_in_one_shape_r2(given_: Predicate, wanted: Predicate) -> None:
    assert negation_normal(given_) == wanted


def test_unknown_is_not_false_under_a_negation_r2() -> None:
    assert negation_normal(Not(UNKNOWN)) == UNKNOWN
    assert negation_normal(Not(And((UNKNOWN, OneOf(X, (1,)))))) == Or((UNKNOWN, Not(OneOf(X, (1,)))))


def test_cases_with_unknown_or_false_are_left_out_r2() -> None:
    one = Compare("=", X, Literal(1))
    assert cases(Or((And((one, UNKNOWN)), And((one, FALSE)), one))) == ((one,),)


def test_a_truth_and_a_number_are_not_one_atom_r2() -> None:
    both = And((Compare("=", X, Literal(1)), Compare("=", X, Literal(True))))
    assert folded(both) == both


def test_more_cases_than_the_bound_are_none_r2() -> None:
    def choice(index: int) -> Predicate:
        return Or((Compare("=", X, Literal(index)), Compare("=", Y, Literal(index))))

    within = And(tuple(choice(index) for index in range(6)))
    assert len(cases(within) or ()) == CASES_MAX
    assert cases(And((*within.parts, choice(7)))) is None
    assert cases(And((*within.parts, choice(7), FALSE))) == ()
