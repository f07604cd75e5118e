"""L2: topic names and filters, shared and named subscriptions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.mqtt import MalformedPacket, matches, parse_filter
from roamcast.mqtt.topics import LEVELS_MAX, BadTopicFilter, TopicFilter, TopicIndex
from tests.effort import examples

topics = st.lists(st.sampled_from(["", "a", "b", "$x"]), min_size=1, max_size=4).map("/".join).filter(bool)
deep_topics = st.one_of(topics, topics.map(lambda each: "a/" * 15 + each))
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


@given(
    steps=st.lists(st.tuples(deep_topics, st.booleans()), max_size=30),
    pattern=st.one_of(patterns, patterns.map(lambda each: "a/" * 15 + each)),
)
@examples(300)
def test_an_index_of_topics_finds_what_matches_a_pattern(steps: list[tuple[str, bool]], pattern: str) -> None:
    index, model = TopicIndex(), dict[str, None]()
    for topic, added in steps:
        if added:
            index.add(topic)
            model[topic] = None
        elif topic in model:
            index.remove(topic)
            del model[topic]
    assert sorted(index.match(pattern)) == sorted(each for each in model if matches(pattern, each))
    for topic in model:
        index.remove(topic)
    assert not index._lists


def test_a_topic_of_very_many_levels_is_listed_no_more_often_than_another() -> None:
    index = TopicIndex(["a/" * 30_000, "a/" * 30_001])
    assert len(index._lists) == LEVELS_MAX + 2
    assert index.match("a/+/#") == ["a/" * 30_000, "a/" * 30_001]
    assert index.match("a/" * 30_000) == ["a/" * 30_000]


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
