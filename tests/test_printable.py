"""L7: what others wrote commands no terminal, whoever prints it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.cli._pubsub import as_json, as_line
from roamcast.client import ClientEvent
from roamcast.printable import shown, shown_json

COMMANDS = "high\nalerts/ice {}\x1b]0;owned\x07\x1b[2J\x9b1A\r\u202e"


@given(st.text())
def test_l7_what_can_be_printed_is_shown_as_it_is(text: str) -> None:
    assert shown(text).isprintable()
    if text.isprintable():
        assert shown(text) == text


@given(st.text(st.characters(codec=None)))
def test_l7_json_that_is_shown_says_the_same(text: str) -> None:
    line = shown_json(json.dumps(text, ensure_ascii=False))
    assert line.isprintable()
    assert json.loads(line) == text


@pytest.mark.parametrize(
    "event",
    [
        ClientEvent("alerts/water", {}, COMMANDS.encode()),
        ClientEvent("alerts/water", {}, json.dumps({"by": COMMANDS}, ensure_ascii=False).encode()),
        ClientEvent(COMMANDS, {}, b"high"),
        ClientEvent("alerts/water", {}, b"high", id=COMMANDS),
        ClientEvent("alerts/water", {}, rb'"\ud800"'),
        ClientEvent("alerts/water", {}, b"\xff\xfe"),
        ClientEvent("alerts/water", {}, b"[" * 100_000),
        ClientEvent("alerts/water", {}, b"[" * 900 + b"]" * 900),
    ],
    ids=["text", "attribute", "subject", "id", "half-a-sign", "bytes", "deep", "less-deep"],
)
def test_l7_an_event_of_a_broker_is_one_line_that_commands_nothing(event: ClientEvent) -> None:
    """`roamcast sub` prints what anybody published who may."""
    assert as_line(event).isprintable()
    assert as_json(event).isprintable()
    assert json.loads(as_json(event))["subject"] == event.subject
