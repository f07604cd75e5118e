"""P2: which patterns match which subjects, by a trie, as the model defines it; and fast enough for very many."""

import time

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.subject import subject_matches
from roamcast.spark.oracle.subjects import Subjects
from tests.effort import examples

LEVEL = st.sampled_from(["a", "b", "", "$x"])
SUBJECTS = st.lists(st.lists(LEVEL, min_size=1, max_size=4).map("/".join).filter(bool), min_size=1, max_size=12)
PATTERN = st.tuples(
    st.lists(st.sampled_from(["a", "b", "", "+", "$x"]), min_size=1, max_size=4), st.sampled_from(["", "/#"])
).map(lambda parts: "/".join(parts[0]) + parts[1])
PATTERNS = st.lists(PATTERN.filter(bool) | st.just("#"), min_size=1, max_size=12)


@examples(300)
@given(SUBJECTS, PATTERNS)
def test_p2_patterns_match_subjects_as_in_the_model(subjects: list[str], patterns: list[str]) -> None:
    found = Subjects.of(pa.array(subjects), pa.array(patterns))
    for row, pattern in zip(found.wanted, patterns, strict=True):
        for number, subject in zip(found.given, subjects, strict=True):
            assert found.fit(row, number) == subject_matches(pattern, subject), (pattern, subject)


def test_p2_twenty_thousand_patterns_and_subjects_take_seconds() -> None:
    patterns = [f"{'+' if n % 3 else n % 50}/{n % 200}/{'#' if n % 7 == 0 else n}" for n in range(20_000)]
    subjects = pa.array([f"{n % 50}/{n % 200}/{n}" for n in range(20_000)])
    began = time.process_time()
    found = Subjects.of(subjects, pa.array(patterns))
    assert time.process_time() - began < 10
    assert found.bits.any()
