"""CQL2-JSON: what is read, and that what is refused is told by its path (S4, C2)."""

import json
import math

import pytest

from roamcast.model.filter.bad_filter import BadFilter
from roamcast.model.filter.parse import parse_text
from roamcast.model.filter.read_json import parse_json
from roamcast.model.filter.tree import TRUE, UNKNOWN, And, AtMyLoc, Attribute, Compare, Filter, IsNull, Literal

X = {"property": "x"}
RING = [[0, 0], [9, 0], [9, 9], [0, 0]]


def op(name: str, *args: object) -> dict[str, object]:
    return {"op": name, "args": list(args)}


SAME = [
    (True, "TRUE"),
    (None, "NULL"),
    (X, "x"),
    (op("=", X, 1), "x = 1"),
    (op("<>", X, "a"), "x <> 'a'"),
    (op("and", op("=", X, 1), op("or", op("=", X, 2), X)), "x = 1 AND (x = 2 OR x)"),
    (op("not", X), "NOT x"),
    (op("between", X, 1, 2), "x BETWEEN 1 AND 2"),
    (op("in", X, [1, "a"]), "x IN (1, 'a')"),
    (op("in", X, [op("myloc", 2)]), "x IN myloc(2)"),
    (op("like", X, "a%"), "x LIKE 'a%'"),
    (op("isNull", X), "x IS NULL"),
    (op("t_after", X, {"timestamp": "2026-01-01T00:00:00Z"}), "x > TIMESTAMP('2026-01-01T00:00:00Z')"),
    (op("t_during", X, {"interval": ["2026-01-01", ".."]}), "x > DATE('2026-01-01')"),
    (op("t_before", X, {"date": "2026-01-01"}), "x < DATE('2026-01-01')"),
    (op("s_within", X, {"type": "Polygon", "coordinates": [RING]}), "S_WITHIN(x, POLYGON((0 0, 9 0, 9 9, 0 0)))"),
    (
        op("s_intersects", X, {"type": "MultiPolygon", "coordinates": [[RING]]}),
        "S_INTERSECTS(x, POLYGON((0 0, 9 0, 9 9, 0 0)))",
    ),
    (op("s_intersects", X, {"bbox": [0, 0, 1, 1]}), "S_INTERSECTS(x, BBOX(0, 0, 1, 1))"),
    (op("near", X, 5, {"type": "Point", "coordinates": [1, 2]}), "near(x, 5, POINT(1 2))"),
    (op(">", op("neighbours.avg", "speed"), op("neighbours.count")), "neighbours.avg('speed') > neighbours.count()"),
    (op("<", op("neighbours.count", op("=", X, 1)), 3), "neighbours.count(x = 1) < 3"),
    (op("<", op("neighbours.min", "y", op("=", X, 1)), 3), "neighbours.min('y', x = 1) < 3"),
    (op("neighbours.all", X), "neighbours.all(x)"),
]


@pytest.mark.parametrize(("data", "text"), SAME, ids=[text for _, text in SAME])
def test_s4_json_and_text_are_the_same_filter(data: object, text: str) -> None:
    assert parse_json(data) == parse_text(text)


@pytest.mark.parametrize("form", [str, str.encode])
def test_s4_json_is_taken_as_text_and_as_bytes(form: type) -> None:
    assert parse_json(form(json.dumps(op("=", X, 1)))) == parse_text("x = 1")


def test_s4_and_with_one_argument_is_that_argument() -> None:
    assert parse_json(op("and", op("isNull", X))) == Filter(IsNull(Attribute("x")))


def test_s4_nested_conjunctions_become_one() -> None:
    one, two, three = (Compare("=", Attribute("x"), Literal(n)) for n in (1, 2, 3))
    data = op("and", op("=", X, 1), op("and", op("=", X, 2), op("=", X, 3)))
    assert parse_json(data) == Filter(And((one, two, three)))


def test_r4_myloc_may_stand_without_a_list() -> None:
    assert parse_json(op("in", X, op("myloc", 1))) == Filter(AtMyLoc(Attribute("x"), 1))


def test_s4_a_comparison_with_null_is_unknown_and_null_is_null() -> None:
    assert parse_json(op("=", X, None)) == Filter(UNKNOWN)
    assert parse_json(op("isNull", None)) == Filter(TRUE)


REFUSED = [
    (5, "", "expected a condition, found the number 5"),
    ([], "", "expected a condition, found a list"),
    ({}, "", "an object without op"),
    ({"op": "=", "args": [X, 1], "extra": 1}, "", "'op' (text) and 'args' (a list) alone"),
    ({"op": "=", "args": {"a": 1}}, "", "'op' (text) and 'args' (a list) alone"),
    ({"op": 5, "args": []}, "", "'op' (text) and 'args' (a list) alone"),
    (op("and"), "", "at least one argument"),
    (op("not", X, X), "", "one argument, found 2"),
    (op("=", X), "", "takes two values, found 1"),
    (op("=", X, [1]), "args[1]", "expected a value, found a list"),
    (op("=", X, op("+", X, 1)), "args[1]", "arithmetic is not part"),
    (op("=", X, op("=", X, 1)), "args[1]", "a condition cannot stand"),
    (op("and", X, op("not", op("=", X, op("foo")))), "args[1].args[0].args[1]", "unknown function 'foo'"),
    (op("and", X, op("foo", X)), "args[1]", "unknown function 'foo'"),
    (op("!=", X, 1), "", "use <>"),
    (op("casei", X), "", "CASEI is not part"),
    (op("between", X, 1), "", "two bounds"),
    (op("in", X), "", "a value and a list"),
    (op("in", X, 5), "args[1]", "expected a list after IN"),
    (op("in", X, []), "args[1]", "the list after IN is empty"),
    (op("in", X, [1, [2]]), "args[1][1]", "expected a value, found a list"),
    (op("in", X, [op("myloc", "a")]), "args[1][0].args[0]", "expected a number"),
    (op("like", X), "", "a value and a pattern"),
    (op("isNull", X, X), "", "takes one value"),
    (op("=", {"property": 5}, 1), "args[0]", "must be text"),
    (op("=", {"property": ""}, 1), "args[0]", "0 characters"),
    (op("=", {"property": "n" * 129}, 1), "args[0]", "129 characters; give 1 to 128"),
    (op("=", {"property": "a\nb"}, 1), "args[0]", "control character"),
    (op("=", {"property": "x", "extra": 1}, 1), "args[0]", "expected a value"),
    (op("=", X, {"timestamp": 5}), "args[1]", "a time in single quotes"),
    (op("=", X, {"timestamp": "2026-01-01T00:00:00"}), "args[1].timestamp", "is not a timestamp"),
    (op("=", X, {"timestamp": "2026-01-01T00:00:00+25:00"}), "args[1].timestamp", "offset from UTC"),
    (op("=", X, {"timestamp": "2026-01-01T00:00:00.1234567Z"}), "args[1].timestamp", "six digits"),
    (op("=", X, {"date": "2026-02-30"}), "args[1].date", "day is out of range"),
    (op("=", X, {"type": "Point", "coordinates": [1]}), "args[1].coordinates", "two coordinates"),
    (op("=", X, {"type": "Point", "coordinates": [1, "2"]}), "args[1].coordinates[1]", "expected a coordinate"),
    (op("=", X, {"type": "Point", "coordinates": [1, True]}), "args[1].coordinates[1]", "expected a coordinate"),
    (op("=", X, math.nan), "args[1]", "finite"),
    (op("=", X, math.inf), "args[1]", "finite"),
    (op("=", X, 2**53 + 1), "args[1]", "2^53"),
    (op("=", X, 10**5000), "args[1]", "2^53"),
    (op("=", X, "\ud800"), "args[1]", "surrogate"),
    (op("=", X, "n" * 65_537), "args[1]", "65536"),
    (op("=", X, b"bytes"), "args[1]", "a bytes"),
    (op("near", X, math.inf), "args[1]", "finite"),
    (op("s_within", X), "", "write S_WITHIN"),
    (op("s_within", X, {"bbox": [0, 0, 1, math.nan]}), "args[1].bbox[3]", "finite"),
    (op("s_within", X, {"type": "Polygon", "coordinates": []}), "args[1].coordinates", "a list of rings"),
    (op("s_within", X, {"type": "Polygon", "coordinates": [5]}), "args[1].coordinates[0]", "a list of positions"),
    (op("s_within", X, {"type": "Polygon", "coordinates": [[[0, 0]] * 1_002]}), "args[1].coordinates[0]", "1002"),
    (op("s_within", X, {"type": "MultiPolygon", "coordinates": []}), "args[1]", "must not be empty"),
    (op("s_within", X, {"type": "MultiPolygon", "coordinates": [[RING], [RING]]}), "args[1]", "not well formed"),
    (op("s_within", X, {"type": "MultiPolygon", "coordinates": [[RING]] * 2_501}), "args[1]", "10000 corners"),
    (op("s_within", X, {"type": "Sphere", "coordinates": []}), "args[1]", "a Sphere is not a geometry"),
    (op("t_during", X, {"interval": ["2026-01-01"]}), "args[1].interval", "a start and an end"),
    (op("t_during", X, {"interval": [5, ".."]}), "args[1].interval[0]", "expected a time"),
    (op("t_during", X, {"interval": [None, ".."]}), "args[1].interval[0]", "NULL cannot end an INTERVAL"),
    (op("t_equals", X, {"interval": ["2026-01-01", ".."]}), "", "T_EQUALS compares two times"),
    (op("t_after", X), "", "write T_AFTER"),
    (
        op("t_intersects", {"interval": ["2026-01-01", ".."]}, {"interval": ["2026-01-01", ".."]}),
        "",
        "not two of them",
    ),
]


@pytest.mark.parametrize(
    ("data", "path", "said"), REFUSED, ids=[f"{i}-{said}" for i, (_, _, said) in enumerate(REFUSED)]
)
def test_s4_what_is_refused_is_told_by_its_path(data: object, path: str, said: str) -> None:
    with pytest.raises(BadFilter) as caught:
        parse_json(data)
    assert caught.value.path == path
    assert said in caught.value.reason
    assert str(caught.value).startswith(f"at {path}: " if path else caught.value.reason)


@pytest.mark.parametrize(
    "text", ["", "{", "x = 1", "NaN", '{"op":"=","args":[1,1e999]}', "[" * 30_000, "\ud800", "1 2"]
)
def test_s4_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(BadFilter, match="not JSON"):
        parse_json(text)


def test_s4_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(BadFilter, match="not JSON"):
        parse_json(b'{"property": "\xff"}')


def test_s4_json_has_a_longest_length() -> None:
    with pytest.raises(BadFilter, match="at most 65536"):
        parse_json(" " * 65_537)


def test_s4_json_has_a_greatest_depth() -> None:
    data: object = X
    for _ in range(23):
        data = op("not", data)
    parse_json(data)
    with pytest.raises(BadFilter, match="deeper than 24"):
        parse_json(op("not", data))


def test_s4_json_has_a_greatest_number_of_parts() -> None:
    parse_json(op("in", X, list(range(999))))
    with pytest.raises(BadFilter, match="1000"):
        parse_json(op("in", X, list(range(1_000))))
    with pytest.raises(BadFilter, match="1000"):
        parse_json(op("and", *[X] * 1_000))


def test_s4_an_object_that_holds_itself_is_refused() -> None:
    endless: dict[str, object] = {"op": "not", "args": []}
    endless["args"] = [endless]
    with pytest.raises(BadFilter, match="deeper than 24"):
        parse_json(endless)
