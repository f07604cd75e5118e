"""Patterns in a trie mean what the model says of them (R2)."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.subject import subject_covers, subject_matches
from roamcast.model.topics import REMEMBERED_MAX, TopicTrie
from tests.effort import examples

NAMES = st.sampled_from(["a", "b", "", "$s"])
LEVELS = st.lists(st.one_of(NAMES, st.just("+")), min_size=1, max_size=3)
PATTERNS = st.builds(lambda levels, rest: "/".join([*levels, *rest]), LEVELS, st.sampled_from([[], ["#"]])).filter(
    bool
)
EVERY = st.one_of(PATTERNS, st.just("#"))
SUBJECTS = st.lists(NAMES, min_size=1, max_size=4).map("/".join).filter(bool)


def planted(patterns: list[str]) -> TopicTrie[str]:
    return TopicTrie((pattern, pattern, pattern) for pattern in patterns)


@given(patterns=st.lists(EVERY, max_size=12), other=EVERY)
@examples(300)
def test_r2_finds_patterns_that_cover_and_that_are_covered(patterns: list[str], other: str) -> None:
    trie = planted(patterns)
    assert sorted(trie.covering(other)) == sorted({each for each in patterns if subject_covers(each, other)})
    assert sorted(trie.covered(other)) == sorted({each for each in patterns if subject_covers(other, each)})


@given(
    steps=st.lists(st.tuples(EVERY, st.sampled_from("xy"), st.booleans()), max_size=12),
    topics=st.lists(SUBJECTS, min_size=1, max_size=3),
)
@examples(300)
def test_r2_finds_what_matches_a_topic_while_entries_come_and_go(
    steps: list[tuple[str, str, bool]], topics: list[str]
) -> None:
    trie: TopicTrie[tuple[str, str]] = TopicTrie()
    model: dict[tuple[str, str], None] = {}
    for pattern, key, added in steps:
        if added:
            trie.add(pattern, (pattern, key), (pattern, key))
            model[pattern, key] = None
        else:
            removed = trie.remove(pattern, (pattern, key))
            assert (removed is not None) == ((pattern, key) in model)
            model.pop((pattern, key), None)
        for topic in topics:
            expected = sorted(each for each in model if subject_matches(each[0], topic))
            assert sorted(trie.matching(topic)) == expected
    assert len(trie) == len(model)
    for pattern, key in model:
        trie.remove(pattern, (pattern, key))
    assert not trie._root.children


@given(patterns=st.lists(EVERY, max_size=12), topic=SUBJECTS)
@examples(60)
def test_r2_a_stored_trie_says_the_same_in_the_same_order(patterns: list[str], topic: str) -> None:
    trie = planted(patterns)
    stored: TopicTrie[str] = pickle.loads(pickle.dumps(trie))
    assert stored.matching(topic) == trie.matching(topic)
    assert len(stored) == len(trie)


def test_entries_of_one_pattern_are_told_apart_by_key() -> None:
    trie = TopicTrie([("a/+", "one", 1), ("a/+", "two", 2), ("a/+", "one", 3)])
    assert dict(trie.under("a/+")) == {"one": 3, "two": 2}
    assert dict(trie.under("a/b")) == {}


def test_a_topic_of_very_many_levels_is_only_slow() -> None:
    trie = TopicTrie([("/" * 65_000, "k", 1), ("#", "k", 2)])
    assert sorted(trie.matching("/" * 65_000)) == [1, 2]
    stored: TopicTrie[int] = pickle.loads(pickle.dumps(trie))
    assert sorted(stored.matching("/" * 65_000)) == [1, 2]


def test_answers_of_many_entries_are_forgotten_sooner() -> None:
    trie = TopicTrie([("#", number, number) for number in range(1_000)])
    for number in range(200):
        assert len(trie.matching(f"t/{number}")) == 1_000
    assert sum(map(len, trie._remembered.values())) <= REMEMBERED_MAX + 1_000
