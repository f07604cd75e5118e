"""O8: flood watch on three machines, in the four networks of figure 15; events take the paper's paths.

How long they take is measured by `python -m bench flood_watch`.
"""

import os

import pytest

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane
from roamcast.model.values import FOREVER_US
from roamcast.papers.overlay_hosts import NETWORKS, WAYS
from tests.broker.overlay_live.hosts import FloodWatch, Paths
from tests.broker.overlay_live.watcher import asking, rain_of
from tests.broker.test_modulator_page import FLOOD
from tests.networks.namespaces import FOLDER, why_not

REASON = why_not()
needs_namespaces = pytest.mark.skipif(REASON is not None, reason=REASON or "")
SIDE = 20
EVENTS = 3
MODULATOR_AT = {"overlay": ("B", "A", "A", "A"), "static": ("B", "B", "B", "B")}


def depths(hours: int, rows: int) -> list[int]:
    """What a modulator says that nobody moves."""
    modulator = FLOOD.Runoff(asking(rows, SIDE), Plane())
    rain = [Event("e", "r", Context("P"), 0, FOREVER_US, {"rain": rain_of(1 + hour, SIDE)}) for hour in range(hours)]
    return [modulator.take(event, 0)[0].attributes["deepest"] for event in rain]


@pytest.mark.slow
@needs_namespaces
@pytest.mark.parametrize(("approach", "rows"), [("overlay", 2), ("static", SIDE)])
def test_o8_events_take_the_papers_paths_in_all_four_networks(approach: str, rows: int) -> None:
    with FloodWatch(approach, SIDE) as watch:
        watch.begin(rows)
        for number, way in enumerate(WAYS[approach]):
            watch.settle(number, way)
            assert [watch.rain()[0] for _ in range(EVENTS)] == [way] * EVENTS, NETWORKS[number]
            assert watch.modulator_at() == MODULATOR_AT[approach][number], NETWORKS[number]
        assert watch.deepest == depths(watch.hour, rows)
    assert not list(FOLDER.glob(f"rcast-{os.getpid()}-*"))


CARDS = {"A": b"aaaaaa", "B": b"bbbbbb", "C": b"cccccc"}


def listening(*hops: str) -> Paths:
    """After each card was heard once, frames with an event went these hops."""
    paths = Paths()
    for name, card in CARDS.items():
        paths.tap(name, "A", b"\xff" * 6 + card)
    for hop in hops:
        sender, receiver = hop[0], hop[1]
        paths.tap(sender, receiver, CARDS[receiver] + CARDS[sender] + b"..P:e17.4...")
    return paths


def test_o8_a_path_is_read_off_the_frames_and_one_sent_again_changes_nothing() -> None:
    assert listening("AC", "AC", "CB", "BC", "CB").way("P:e17.4") == "A→C→B→C"


def test_o8_a_path_with_a_hole_is_not_made_whole() -> None:
    assert listening("AB", "AC").way("P:e17.4") == "A→B, A→C"
    assert listening("AB").way("P:e17.5") == ""


def test_o8_a_frame_for_somebody_else_is_no_hop() -> None:
    paths = listening()
    paths.tap("A", "B", CARDS["C"] + CARDS["A"] + b"P:e17.4")
    assert paths.way("P:e17.4") == ""
