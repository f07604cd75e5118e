"""Examples run on real nodes as `examples/README.md` says, on the loopback interface (L1)."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.multicast.terminals import Terminal
from tests.ports import free_port

pytestmark = pytest.mark.process
PAGE = (ROOT / "examples/README.md").read_text(encoding="utf-8")
NODES = {
    words[2]: words[2:]
    for block in blocks(PAGE, "")
    for words in map(shlex.split, block.splitlines())
    if words[:2] == ["roamcast", "node"]
}


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Terminal]]:
    monkeypatch.chdir(ROOT)
    port = str(free_port())
    opened: list[Terminal] = []

    def start(name: str) -> Terminal:
        opened.append(Terminal(tmp_path / "state", (*NODES[name], "--interface", "lo", "--port", port)))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


@pytest.mark.slow
def test_l1_the_ambulance_of_the_page_comes_nearer(started: Callable[[str], Terminal]) -> None:
    started("ambulance")
    car = started("car-1")
    car.until("an ambulance comes nearer")


@pytest.mark.slow
def test_l1_the_driver_of_the_page_hears_of_a_place_by_its_own_budget(started: Callable[[str], Terminal]) -> None:
    driver = started("driver")
    started("oak-street")
    driver.until("free in Oak Street for 2.50")


def test_l1_these_are_all_the_nodes_of_the_page() -> None:
    assert list(NODES) == ["ambulance", "car-1", "driver", "oak-street"]
