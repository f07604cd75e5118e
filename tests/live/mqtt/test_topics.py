"""L2: topic names and filters, shared and named subscriptions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roamcast.live.mqtt import FilterTree, MalformedPacket, matches, parse_filter
from roamcast.live.mqtt.topics import BadTopicFilter, TopicFilter

topics = st.lists(st.sampled_from(["", "a", "b", "$x"]), min_size=1, max_size=4).map("/".join).filter(bool)
patterns = st.builds(
    lambda front, last: "/".join([*front, *last]),
    st.lists(st.sampled_from(["", "a", "b", "$x", "+"]), max_size=4),
    st.sampled_from([["#"], ["a"], ["+"], []]),
).filter(bool)


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("#", "sport/tennis", True),
        ("sport/tennis/+", "sport/tennis/player1", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/monitor", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/monitor", True),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
        ("a/$b", "a/$b", True),
        ("a/+", "a/$b", True),
        ("ACCOUNTS", "Accounts", False),
        ("+/#", "a", True),
        ("/", "/", True),
        ("a//b", "a/b", False),
    ],
)
def test_the_examples_of_the_standard(pattern: str, topic: str, expected: bool) -> None:
    assert matches(pattern, topic) is expected


@settings(max_examples=300, deadline=None)
@given(st.lists(patterns, max_size=8), topics)
def test_the_tree_finds_exactly_what_matches(held: list[str], topic: str) -> None:
    tree: FilterTree[str] = FilterTree()
    for pattern in held:
        tree.add(pattern, "key", pattern)
    assert sorted(tree.match(topic)) == sorted({pattern for pattern in held if matches(pattern, topic)})


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(patterns, st.sampled_from("xy"), st.booleans()), max_size=12), topics)
def test_the_tree_forgets_what_is_removed(steps: list[tuple[str, str, bool]], topic: str) -> None:
    tree: FilterTree[tuple[str, str]] = FilterTree()
    model: dict[tuple[str, str], None] = {}
    for pattern, key, added in steps:
        if added:
            tree.add(pattern, key, (pattern, key))
            model[pattern, key] = None
        else:
            removed = tree.remove(pattern, key)
            assert (removed is not None) == ((pattern, key) in model)
            model.pop((pattern, key), None)
    assert len(tree) == len(model)
    assert sorted(tree.match(topic)) == sorted(each for each in model if matches(each[0], topic))
    for pattern, key in model:
        tree.remove(pattern, key)
    assert not tree._root.branches


def test_a_topic_of_very_many_levels_is_only_slow() -> None:
    tree: FilterTree[int] = FilterTree()
    tree.add("/" * 65_000, "k", 1)
    tree.add("#", "k", 2)
    assert sorted(tree.match("/" * 65_000)) == [1, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/+", TopicFilter("a/+", "a/+")),
        ("$share/g/a/#", TopicFilter("$share/g/a/#", "a/#", "g")),
        ("$roam/near/a/#", TopicFilter("$roam/near/a/#", "a/#", None, "near")),
        ("$share/g/$roam/near/a", TopicFilter("$share/g/$roam/near/a", "a", "g", "near")),
        ("$share/g//", TopicFilter("$share/g//", "/", "g")),
        ("$SYS/#", TopicFilter("$SYS/#", "$SYS/#")),
        ("$shared/g/a", TopicFilter("$shared/g/a", "$shared/g/a")),
        ("$share/g/$SYS/x", TopicFilter("$share/g/$SYS/x", "$SYS/x", "g")),
    ],
)
def test_prefixes_are_taken_off(text: str, expected: TopicFilter) -> None:
    assert parse_filter(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "$share",
        "$share/g",
        "$share/g/",
        "$share//a",
        "$share/+/a",
        "$share/#",
        "$roam/me",
        "$roam/+/a",
        "$roam/n/",
        "$roam/n/$share/g/a",
        "$roam/n/$roam/m/a",
        "$share/g/$share/h/a",
        "$share/g/$roam/n",
    ],
)
def test_a_wrong_prefix_is_no_filter_anybody_can_have(text: str) -> None:
    with pytest.raises(BadTopicFilter):
        parse_filter(text)


@pytest.mark.parametrize("text", ["", "a#", "#/a", "a+/b", "+a", "##"])
def test_misplaced_wildcards_are_malformed(text: str) -> None:
    with pytest.raises(MalformedPacket):
        parse_filter(text)
