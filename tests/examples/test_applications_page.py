"""`docs/reference/APPLICATIONS.md` says what the application interface does: calls, types, messages, misses."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from roamcast import (
    Anchored,
    BadEvent,
    BadFilter,
    BadValue,
    Circle,
    ContentType,
    Delivery,
    EventType,
    Point,
    Port,
    Scope,
)
from roamcast.model.context import Context
from roamcast.model.space import Plane, Space
from roamcast.model.values import Value
from roamcast.node.boundary import Input
from roamcast.papers.assemble import kit_of
from roamcast.sim.run import Run
from roamcast.sim.scenario import load_scenario

PAGE = Path("docs/reference/APPLICATIONS.md").read_text(encoding="utf-8")
JOURNAL = Path("docs/JOURNAL.md").read_text(encoding="utf-8")
AROUND = Circle(Point(0, 0), 300)
FOUND = EventType(
    "rescue/found",
    {"persons": ContentType.INTEGER, "where": ContentType.POSITION, "note": ContentType.STRING},
)
CONTENT: dict[str, Value] = {"persons": 2, "where": Point(0, 0), "note": "here"}
SCENARIO = """
name = "rescue"
seconds = 5
protocol = { kind = "proximity" }
radio = { kind = "unit-disk", range_m = 200 }
[[hosts]]
name = "robot"
application = "rescue.py:Robot"
mobility = { kind = "static", placement = { kind = "at", points = [[0, 0]] } }
[[hosts]]
name = "medic"
application = "rescue.py:Medic"
mobility = { kind = "static", placement = { kind = "at", points = [[90, 0]] } }
"""


def ran(path: Path, said: list[str]) -> Run:
    scenario = load_scenario(path)
    run = Run(
        scenario,
        kit_of(scenario.protocol, scenario.radio),
        1,
        say=lambda _, host, text: said.append(f"{host}: {text}"),
    )
    for _ in run.steps():
        pass
    return run


def test_s3_the_application_of_the_page_runs(tmp_path: Path) -> None:
    source = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert source is not None
    (tmp_path / "rescue.py").write_text(source[1], encoding="utf-8")
    (tmp_path / "rescue.toml").write_text(SCENARIO, encoding="utf-8")
    said: list[str] = []
    ran(tmp_path / "rescue.toml", said)
    assert said == ["medic: 2 persons under the stairs: I go"]


def test_every_call_of_the_port_is_on_the_page() -> None:
    calls = ["host", *(name for name in vars(Port) if not name.startswith("_"))]
    assert len(calls) > 10
    assert [name for name in calls if not re.search(rf"`port\.{name}\b", PAGE)] == []


def test_s1_every_type_of_content_has_a_row() -> None:
    rows = re.findall(r"^\| `([A-Z]+)` \|", PAGE, re.MULTILINE)
    assert rows == [each.name for each in ContentType]


def test_s14_every_field_of_delivery_has_a_row_with_its_default() -> None:
    table = PAGE.split("## `Delivery`")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", table, re.MULTILINE)
    fields = msgspec.structs.fields(Delivery)
    assert rows == [(field.name, repr(field.default).replace("'", '"')) for field in fields]


class Nowhere:
    """Something to stand on, at a place or at none."""

    def __init__(self, position: Point | None) -> None:
        self.space: Space = Plane()
        self.here = Context("a", position)
        self.given: list[Input] = []

    def now_us(self) -> int:
        return 0

    def context(self) -> Context:
        return self.here

    def give(self, given: Input) -> None:
        self.given.append(given)

    def after(self, delay_us: int, action: Callable[[], None]) -> None: ...
    def say(self, text: str) -> None: ...
    def set_attributes(self, attributes: dict[str, Value]) -> None: ...


def announced() -> Port:
    port = Port("a", Nowhere(Point(0, 0)))
    port.announce(FOUND, AROUND)
    return port


def withdrawn() -> Port:
    port = announced()
    port.unannounce("rescue/found")
    return port


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in CONTENT.items() if key != name}


AS_REGION: Any = Circle(Point(0, 0), 5)
AS_PROXIMITY: Any = Anchored(AROUND, "a")
SHORT = EventType("rescue/found", {"persons": ContentType.INTEGER, "where": ContentType.POSITION})
MISTAKES: list[Callable[[], object]] = [
    lambda: Port("a", Nowhere(Point(0, 0))).raise_("x"),
    lambda: announced().announce(FOUND, AROUND),
    lambda: withdrawn().raise_("rescue/found", CONTENT),
    lambda: announced().withdraw("e"),
    lambda: announced().unannounce("x"),
    lambda: withdrawn().announce(SHORT),
    lambda: announced().raise_("rescue/found", without("note")),
    lambda: announced().raise_("rescue/found", CONTENT | {"persons": 2.0}),
    lambda: announced().raise_("rescue/found", CONTENT | {"colour": "red"}),
    lambda: announced().raise_("rescue/found", CONTENT, audience=Scope(AROUND)),
    lambda: Port("a", Nowhere(Point(0, 0))).announce(FOUND, AS_PROXIMITY),
    lambda: announced().subscribe("x", print, interest=AS_REGION),
    lambda: EventType("rescue/+"),
    lambda: announced().subscribe("x", print, "price <"),
    lambda: announced().unsubscribe("s"),
    lambda: Port("a", Nowhere(None)).announce(FOUND, AROUND),
]
ROWS = re.findall(r"^\| `([^`]+)` \| (`.*): `(Bad\w+)` \|", PAGE, re.MULTILINE)


def test_every_row_of_the_table_of_exceptions_is_tried() -> None:
    assert len(ROWS) == len(MISTAKES)


@pytest.mark.parametrize(
    ("row", "mistake"),
    list(zip(ROWS, MISTAKES, strict=False)),
    ids=[row[0][:40] for row, _ in zip(ROWS, MISTAKES, strict=False)],
)
def test_a_mistake_gets_the_message_that_the_page_quotes(
    row: tuple[str, str, str], mistake: Callable[[], object]
) -> None:
    message, _, kind = row
    with pytest.raises({"BadEvent": BadEvent, "BadValue": BadValue, "BadFilter": BadFilter}[kind]) as raised:
        mistake()
    assert str(raised.value).startswith(message)


def test_nothing_has_changed_after_a_mistake() -> None:
    ground = Nowhere(Point(0, 0))
    port = Port("a", ground)
    for attempt in (
        lambda: port.announce(FOUND, AS_PROXIMITY),
        lambda: port.raise_("rescue/found", CONTENT),
        lambda: port.subscribe("x", print, "price <"),
    ):
        with pytest.raises((BadValue, BadFilter)):
            attempt()
    assert (ground.given, port.announcements, port.handlers, port.vocabulary.types) == ([], {}, {}, {})


def test_p1_every_note_that_the_page_explains_is_one_of_the_journal() -> None:
    table = PAGE.split("## What notes mean to you")[1]
    notes = [
        note for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for note in re.findall(r"`(\w+)`", row)
    ]
    assert len(notes) > 25
    assert [note for note in notes if f"`{note}`" not in JOURNAL] == []


def missed_at_s(run: Run) -> Counter[float]:
    delivered = set(run.tally.deliveries)
    missing = [
        event_id for event_id, subscription_id in run.ideal.expected if (event_id, subscription_id) not in delivered
    ]
    return Counter(run.tally.published_us[event_id] / 1e6 for event_id in missing)


def test_s9_the_ambulance_misses_what_no_radio_reaches() -> None:
    """The page says: nine, all while a car was more than 200 m and less than 250 m away."""
    run = ran(Path("examples/ambulance.toml"), [])
    assert missed_at_s(run) == {4.0: 1, 5.0: 1, 6.0: 1, 26.0: 1, 27.0: 1, 38.0: 2, 39.0: 2}
    assert run.result().unwanted == 2


def test_s9_the_ambulance_misses_nothing_when_the_radio_reaches_as_far_as_its_proximity(tmp_path: Path) -> None:
    (tmp_path / "ambulance.py").write_text(Path("examples/ambulance.py").read_text())
    scenario = Path("examples/ambulance.toml").read_text()
    (tmp_path / "ambulance.toml").write_text(scenario.replace("range_m = 200", "range_m = 250"))
    assert missed_at_s(ran(tmp_path / "ambulance.toml", [])) == {}


def test_s8_the_game_misses_what_its_page_says(tmp_path: Path) -> None:
    """The page says: six players at the last; two at the first, before they have heard of it, where nobody asks."""
    assert missed_at_s(ran(Path("examples/game.toml"), [])) == {40.0: 6}
    (tmp_path / "game.py").write_text(Path("examples/game.py").read_text())
    scenario = Path("examples/game.toml").read_text()
    as_published = scenario.replace('kind = "proximity"', 'kind = "proximity"\npreset = "paper"')
    (tmp_path / "game.toml").write_text(as_published)
    assert missed_at_s(ran(tmp_path / "game.toml", [])) == {0.0: 2, 40.0: 6}
