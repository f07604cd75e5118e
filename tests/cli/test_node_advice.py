"""L6: of what a node drops, its user is told what nodes that were not started alike make of it, and what to do."""

import re

import pytest
from typer.testing import CliRunner

from roamcast.cli._node_advice import advice_on
from roamcast.cli.main import app
from roamcast.model.space import Earth, Plane
from roamcast.multicast.drops import REASONS, Dropped, Reason
from roamcast.multicast.frames import COUNTER_AT, COUNTER_BYTES, FRAME_BYTES_MAX, PREFIX
from roamcast.multicast.keys import OPEN_GROUP_KEY, Identity
from roamcast.multicast.running import NodeSettings
from tests.multicast.samples import raised, sealed, seals

OF_THE_NETWORK: tuple[Reason, ...] = (
    "oversized",
    "truncated",
    "not_ours",
    "own",
    "not_joined",
    "broken_seal",
    "replayed",
    "crowded",
    "unattested",
    "queue_full",
)
"""What comes with every network, or by an attacker or a load: counted, and no more."""
TOLD = [reason for reason in REASONS if reason not in OF_THE_NETWORK]


def settings(space: Plane | Earth = Earth(), key: bytes = OPEN_GROUP_KEY, *, lists: bool = False) -> NodeSettings:  # noqa: B008
    return NodeSettings(
        name="ann", identity=Identity.fresh(), space=space, group_key=key, known={} if lists else None
    )


def advice(reason: Reason, detail: str = "this", own: NodeSettings | None = None) -> str:
    said = advice_on(reason, detail, own or settings())
    assert said is not None
    return said


@pytest.mark.parametrize("reason", TOLD)
def test_what_is_said_is_a_line_and_names_only_options_that_there_are(reason: Reason) -> None:
    help_text = CliRunner().invoke(app, ["node", "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    said = advice(reason, own=settings(lists=True))
    assert said.isprintable()
    for option in re.findall(r"--[a-z-]+", said):
        assert re.search(rf"{option}\b", help_text), option


@pytest.mark.parametrize("reason", OF_THE_NETWORK)
def test_of_noise_nothing_is_said(reason: Reason) -> None:
    assert advice_on(reason, "this", settings()) is None


def altered(place: int) -> bytes:
    datagram = bytearray(sealed(seals("ann"), raised()))
    datagram[place] ^= 1
    return bytes(datagram)


@pytest.mark.parametrize(
    "datagram",
    [
        altered(-1),
        altered(COUNTER_AT + COUNTER_BYTES - 1),
        bytes(FRAME_BYTES_MAX + 1),
        PREFIX + bytes(FRAME_BYTES_MAX),
    ],
    ids=["another-seal", "frame-number-0", "long", "long-frame"],
)
def test_of_a_damaged_frame_and_of_a_long_one_nothing_is_said_that_would_use_up_the_advice(datagram: bytes) -> None:
    listener = seals("bob")
    with pytest.raises(Dropped) as dropped:
        listener.open(0, datagram, listener.header(datagram))
    assert advice_on(dropped.value.reason, dropped.value.detail, settings()) is None


def test_the_advice_is_for_this_node() -> None:
    assert "this one is in the open group" in advice("wrong_key")
    assert "another key" in advice("wrong_key", own=settings(key=b"k" * 32))
    assert "nodes on a plane, while this one is on Earth" in advice("other_space")
    assert "nodes on Earth, while this one is on a plane" in advice("other_space", own=settings(Plane()))
    assert "--known-keys" not in advice("forged")
    assert "--known-keys" in advice("forged", own=settings(lists=True))


def test_what_was_wrong_with_the_first_is_told() -> None:
    for reason in ("forged", "stranger", "version", "too_long", "unsendable"):
        assert "'bob' is two" in advice(reason, "'bob' is two")
