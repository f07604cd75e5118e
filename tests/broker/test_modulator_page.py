"""`docs/reference/MODULATORS.md` says what modulators do, and flood watch does what it says (O1, O9)."""

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wasmtime import wat2wasm

from roamcast.broker.modulators.guarded import Guarded
from roamcast.broker.modulators.interface import BadModulator
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.placement import along, best
from roamcast.broker.modulators.spec import Registered, Wasm, spec_from_text
from roamcast.broker.modulators.wasm import Given
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane, Space
from roamcast.model.values import Point, Value
from roamcast.node.boundary import Input, Publish, Subscribe
from roamcast.node.port import Port
from tests.broker.modulator_samples import event, made
from tests.effort import examples

PAGE = Path("docs/reference/MODULATORS.md").read_text(encoding="utf-8")
SOURCES = [each.read_text(encoding="utf-8") for each in Path("src/roamcast/broker/modulators").glob("*.py")]


def table(heading: str) -> list[tuple[str, ...]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [tuple(re.findall(r"`([^`]+)`", row)) for row in re.findall(r"^\| `.*", section, re.MULTILINE)]


def block(language: str, number: int) -> str:
    return str(re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[number])


def test_o9_every_limit_has_a_row_with_its_default() -> None:
    fields = msgspec.structs.fields(Limits)
    assert [row[:2] for row in table("Limits")] == [(each.name, str(each.default)) for each in fields]


def test_o9_every_reason_to_count_by_has_a_row() -> None:
    found = {reason for source in SOURCES for reason in re.findall(r'(?:Failed|_count|_failed)\("(\w+)"', source)}
    found |= set(re.findall(r'TrapCode\.\w+: "(\w+)"', "".join(SOURCES))) | {"trap"}
    assert {row[0] for row in table("When something goes wrong")} == found


def test_o1_what_code_is_given_is_listed_in_its_order() -> None:
    rows = re.findall(r"^\| (\d) \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert rows == [(str(index), name) for index, name in enumerate(Given.__struct_fields__)]


def test_o1_the_webassembly_of_the_page_counts() -> None:
    modulator = made(Wasm(bytes(wat2wasm(block("wat", 0)))))
    said = [each.attributes for number in range(3) for each in modulator.take(event(number), 0)]
    assert said == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_o1_the_python_of_the_page_runs() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(block("python", 0), names)
    assert spec_from_text(names["text"]) == names["hourly"]
    exec(block("python", 1), names)
    modulator = made(Registered("change", {"attribute": "mm"}))
    assert [each.attributes for mm in (3, 5) for each in modulator.take(event(mm, mm=mm), 0)] == [
        {"mm": 3},
        {"mm": 2},
    ]


def flood_watch() -> ModuleType:
    loading = importlib.util.spec_from_file_location("flood_watch", "examples/flood_watch.py")
    assert loading is not None
    assert loading.loader is not None
    module = importlib.util.module_from_spec(loading)
    sys.modules["flood_watch"] = module
    loading.loader.exec_module(module)
    return module


FLOOD: Any = flood_watch()
COLUMNS = 4
FIELDS = st.lists(st.integers(0, 9_999), min_size=12, max_size=12)


@examples(40)
@given(FIELDS, st.lists(FIELDS, min_size=1, max_size=4), st.data())
def test_o9_runoff_in_python_and_in_webassembly_agree(
    terrain: list[int], storm: list[list[int]], data: st.DataObject
) -> None:
    left, top = data.draw(st.integers(0, COLUMNS - 1)), data.draw(st.integers(0, 2))
    parameters = {
        "columns": COLUMNS,
        "terrain": FLOOD.written(terrain),
        "left": left,
        "top": top,
        "right": data.draw(st.integers(left + 1, COLUMNS)),
        "bottom": data.draw(st.integers(top + 1, 3)),
    }
    python, wasm = made(FLOOD.in_python(parameters)), made(FLOOD.in_wasm(parameters))
    for hour, fallen in enumerate(storm):
        rain = Event(f"e{hour}", "rain", Context("w"), 0, 0, {"note": 1.5, "rain": FLOOD.written(fallen)})
        assert python.take(rain, hour) == wasm.take(rain, hour)
    assert python.problems == wasm.problems == {}
    assert python.inner.state() == wasm.inner.state()


def test_o4_runoff_that_moves_says_what_it_would_have_said() -> None:
    seen, _ = FLOOD.watch(FLOOD.in_python(FLOOD.A_TENTH), 12)
    assert len(seen) == 12
    assert FLOOD.watch(FLOOD.in_python(FLOOD.A_TENTH), 12, moves_at=5)[0] == seen
    assert FLOOD.watch(FLOOD.in_wasm(FLOOD.A_TENTH), 12, moves_at=7)[0] == seen


def test_o9_who_asks_about_a_tenth_has_the_modulator_upstream() -> None:
    places = along(["A", "B", "C"])
    assert best(FLOOD.watch(FLOOD.in_python(FLOOD.A_TENTH), 6)[1], places).broker == "A"
    assert best(FLOOD.watch(FLOOD.in_python(FLOOD.EVERYTHING), 6)[1], places).broker == "C"


def test_o1_water_runs_downhill_and_none_is_made() -> None:
    modulator = made(FLOOD.in_python(FLOOD.EVERYTHING))
    fallen = 0
    for hour in range(6):
        fallen += sum(each * FLOOD.RUNOFF_PERCENT // 100 for each in FLOOD.read(FLOOD.storm(hour), 400))
        modulator.take(FLOOD.rain(hour), 0)
    depths = FLOOD.read(modulator.inner.state().decode(), 400)
    bed = [depths[row * FLOOD.COLUMNS + FLOOD.COLUMNS // 2] for row in range(FLOOD.ROWS)]
    assert 0 < sum(depths) <= fallen
    assert max(bed) == max(depths)


class Straight:
    """The shortest runtime: one host, whose publications go through the modulators of its own subscriptions."""

    def __init__(self) -> None:
        self.space: Space = Plane()
        self.port = Port("host", self)
        self.modulators: dict[str, Guarded] = {}
        self.later: list[Callable[[], None]] = []
        self.said: list[str] = []
        self.seconds = 0

    def now_us(self) -> int:
        return self.seconds * 1_000_000

    def context(self) -> Context:
        return Context("host", Point(0, 0))

    def give(self, given: Input) -> None:
        if isinstance(given, Subscribe):
            self.modulators[given.subscription.id] = made(spec_from_text(given.subscription.modulator))
        if isinstance(given, Publish):
            for subscription_id, modulator in self.modulators.items():
                for each in modulator.take(given.event, self.now_us()):
                    self.port.deliver(each, subscription_id)

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        self.later.append(action)

    def say(self, text: str) -> None:
        self.said.append(f"{self.seconds} s: {text}")

    def set_attributes(self, attributes: dict[str, Value]) -> None: ...


def test_o1_the_rescuer_hears_how_deep_the_water_is() -> None:
    ground = Straight()
    FLOOD.Rescuer().start(ground.port)
    FLOOD.Weather().start(ground.port)
    for ground.seconds in range(1, 24):
        due, ground.later = ground.later, []
        for action in due:
            action()
    assert ground.said[0] == "1 s: the river is 8 cm deep"
    assert ground.said[-1] == "20 s: the river is 38 cm deep"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"columns": 0}, "terrain"),
        ({"terrain": "12"}, "terrain"),
        ({"right": 3, "left": 3}, "empty"),
        ({"top": -1}, "top"),
    ],
)
def test_o1_runoff_refuses_parameters_that_do_not_fit(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadModulator, match=said):
        made(Registered("runoff", {**FLOOD.A_TENTH, **changes}))


@pytest.mark.parametrize("rain", ["", "12", "x" * 1_600, 5])
def test_o9_rain_that_is_none_fails_in_both(rain: Any) -> None:
    for spec in (FLOOD.in_python(FLOOD.A_TENTH), FLOOD.in_wasm(FLOOD.A_TENTH)):
        modulator = made(spec)
        assert modulator.take(event(1, rain=rain), 0) == []
        assert sum(modulator.problems.values()) == 1


def test_o9_the_program_prints_what_its_page_promises(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path("examples/README.md").read_text(encoding="utf-8")
    promised = re.search(r"python examples/flood_watch\.py\n```\n.*?```\n(.*?)```", page, re.DOTALL)
    assert promised is not None
    FLOOD.main()
    assert capsys.readouterr().out == promised[1]
