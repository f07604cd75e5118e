"""Hostile filters (S4): whatever is given, a `Filter` or `BadFilter` comes out, on any thread, and soon."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.filter.bad_filter import BadFilter
from roamcast.model.filter.parse import parse_text
from roamcast.model.filter.read_json import OPERATIONS, parse_json
from roamcast.model.filter.tree import Filter
from roamcast.model.filter.write import to_json, to_text
from tests.effort import examples
from tests.filter.strategies import filters
from tests.filter.test_parse import CONSTRUCTS

VALID = [text for text, _ in CONSTRUCTS]
WORDS = (
    "x y me.budget publisher.speed neighbours.avg neighbours.count me. neighbours. position AND OR NOT IN IS NULL "
    "LIKE BETWEEN TRUE FALSE = <> < <= > >= != == ( ) (( )) , + - * / 1 -1 0.5 1e9 1e999 9007199254740993 'a' '' ''' "
    '" "b" "b ' + "near nearer approaching receding myloc POINT POLYGON MULTIPOLYGON LINESTRING BBOX TIMESTAMP DATE "
    "INTERVAL '2026-01-01' '2026-01-01T00:00:00Z' '..' S_INTERSECTS S_WITHIN S_CONTAINS S_DISJOINT T_AFTER T_DURING "
    "T_DISJOINT CASEI div ; $ \\ é \ud800 \0 \x1f \u2028"
).split(" ")

pieces = st.sampled_from(WORDS) | st.text(max_size=4)
random_text = st.lists(pieces, max_size=24).map(" ".join) | st.lists(pieces, max_size=24).map("".join)

OPS = (*OPERATIONS, "and", "or", "not", "in", "isNull", "myloc", "neighbours.avg", "neighbours.count", "+", "nope")
KEYS = ("op", "args", "property", "timestamp", "date", "interval", "type", "coordinates", "bbox")
TYPES = ("Point", "Polygon", "MultiPolygon", "LineString", "2026-01-01", "2026-01-01T00:00:00Z", "..", "me.x", "")
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(TYPES),
    st.sampled_from(OPS),
    st.text(max_size=4),
    st.just({"property": "x"}),
    st.builds(lambda x, y: {"type": "Point", "coordinates": [x, y]}, st.floats(), st.integers()),
    st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)).map(list), max_size=6).map(
        lambda ring: {"type": "Polygon", "coordinates": [[*ring, *ring[:1]]]}
    ),
    st.lists(st.floats() | st.integers(-9, 9), min_size=3, max_size=5).map(lambda box: {"bbox": box}),
)
random_json = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.builds(lambda op, args: {"op": op, "args": args}, st.sampled_from(OPS), st.lists(inner, max_size=3)),
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    ),
    max_leaves=12,
)


def comes_out_well(read: Callable[[object], Filter], data: object) -> None:
    """Reads; fails unless a filter that can be written, or a `BadFilter` that can be printed, comes out."""
    try:
        found = read(data)
    except BadFilter as problem:
        str(problem).encode()
        return
    assert isinstance(found, Filter)
    assert parse_json(to_json(found)) == found


def read_text(data: object) -> Filter:
    assert isinstance(data, str)
    return parse_text(data)


@examples(500)
@given(random_text)
def test_s4_random_text_gives_a_filter_or_bad_filter(text: str) -> None:
    comes_out_well(read_text, text)


@examples(500)
@given(random_json)
def test_s4_random_json_gives_a_filter_or_bad_filter(data: object) -> None:
    if not isinstance(data, str):
        comes_out_well(parse_json, data)


@examples(300)
@given(st.text(max_size=40) | st.binary(max_size=40) | random_json.map(json.dumps))
def test_s4_random_bytes_as_json_give_a_filter_or_bad_filter(data: str | bytes) -> None:
    comes_out_well(parse_json, data)


@examples(500)
@given(st.data(), st.sampled_from(VALID) | filters(max_leaves=3).map(to_text))
def test_s4_a_valid_text_with_a_piece_changed_gives_a_filter_or_bad_filter(data: st.DataObject, text: str) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 5)))
    comes_out_well(read_text, text[:start] + data.draw(pieces) + text[end:])


def test_s4_the_fuzz_check_can_fail() -> None:
    def crashes(_: object) -> Filter:
        raise KeyError("args")

    def answers_nonsense(_: object) -> Filter:
        return None  # type: ignore[return-value]

    with pytest.raises(KeyError):
        comes_out_well(crashes, "x = 1")
    with pytest.raises(AssertionError):
        comes_out_well(answers_nonsense, "x = 1")


HOSTILE = {
    "100,000 brackets": "'(' * 100_000",
    "4,097 characters": "'x = 1 OR ' * 455 + 'xx'",
    "brackets that never close": "'(' * 4_000",
    "brackets around a mistake": "'(' * 24 + '$' + ')' * 24",
    "brackets around a mistaken area": "'(' * 23 + 'S_WITHIN(p, POLYGON((a b)))' + ')' * 23",
    "too many brackets": "'(' * 25 + 'x' + ')' * 25",
    "deep NOT": "'NOT ' * 1_000 + 'x'",
    "deep NOT with brackets": "'NOT (' * 500 + 'x' + ')' * 500",
    "deep calls": "'near(' * 800",
    "deep lists": "'x IN (' * 600",
    "deep unclosed polygon": "'S_WITHIN(p, POLYGON' + '(' * 4_000",
    "many minus signs": "'x = ' + '-' * 4_000 + '5'",
    "a chain of comparisons": "'x' + ' > 1' * 1_000",
    "a chain of equalities": "'x' + '=x' * 2_000",
    "a chain of sums": "'x = ' + '1+' * 2_000 + '1'",
    "a chain of LIKE": "'x' + ' LIKE \\'a\\'' * 400",
    "a number of 4,000 digits": "'x = ' + '9' * 4_000",
    "a coordinate of 4,000 digits": "'p = POINT(1 ' + '9' * 4_000 + ')'",
    "a huge exponent": "'x = 1e' + '9' * 4_000",
    "quotes alone": "chr(39) * 4_095",
    "double quotes alone": "chr(34) * 4_095",
    "a long name": "'x' * 4_000 + ' = 1'",
    "half a surrogate pair": "'x = ' + chr(39) + chr(0xD800) + chr(39)",
    "half a surrogate pair bare": "'x = ' + chr(0xD800)",
    "NUL": "chr(0)",
    "an unknown function": "'system(' + chr(39) + 'ls' + chr(39) + ')'",
}

PROGRAM = """
import threading
from roamcast.model.filter import BadFilter, parse_text
answers = []
def read():
    try:
        parse_text({text})
    except BadFilter:
        answers.append("refused")
threading.stack_size(256 * 1024)
thread = threading.Thread(target=read)
thread.start()
thread.join()
print(*answers)
"""


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_s4_hostile_text_is_refused_at_once(text: str) -> None:
    with pytest.raises(BadFilter):
        parse_text(eval(text))


def run_on_a_small_stack(text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM.format(text=text)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_s4_hostile_text_is_refused_on_a_thread_with_a_small_stack() -> None:
    """All of them in one process, which stays alive to the end."""
    answered = PROGRAM.replace("parse_text({text})", "parse_text(each)").replace(
        "def read():\n    try:", "def read():\n  for each in [{texts}]:\n    try:"
    )
    command = [sys.executable, "-c", answered.format(texts=", ".join(HOSTILE.values()))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["refused"] * len(HOSTILE)


def test_s4_the_largest_text_is_read_on_a_thread_with_a_small_stack() -> None:
    widest = run_on_a_small_stack("' AND '.join(['x=1'] * 510)")
    deepest = run_on_a_small_stack("'NOT (' * 11 + 'near(x, 5, POINT(1 2))' + ')' * 11")
    for done in (widest, deepest):
        assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_s4_the_check_for_crashes_can_fail() -> None:
    """The same program with the `cql2` package's parser in the place of ours does not survive."""
    program = PROGRAM.replace("parse_text({text})", "cql2.parse_text({text})").replace(
        "import th", "import cql2, th", 1
    )
    command = [sys.executable, "-c", program.format(text="'(' * 1_000 + 'x' + ')' * 1_000")]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode != 0


def test_s4_deep_json_is_refused_on_a_thread_with_a_small_stack() -> None:
    program = PROGRAM.replace("import BadFilter, parse_text", "import BadFilter, parse_json as parse_text")
    deep = "'[' * 30_000 + ']' * 30_000", "'{{\"a\":' * 12_000", '\'{{"op":"not","args":[\' * 2_000'
    for text in deep:
        command = [sys.executable, "-c", program.replace("{text}", text).replace("{{", "{")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout.strip()) == (0, "refused"), done.stderr
