"""The documentation says what the code does: every key and default, every path, every link, every example."""

import math
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import NODEFAULT, Struct, inspect
from typer.testing import CliRunner

from roamcast.adhoc.context import params as context_params
from roamcast.adhoc.flooding import FloodingParams
from roamcast.adhoc.proximity import params as proximity_params
from roamcast.broker import params as broker_params
from roamcast.broker.overlay import params as overlay_params
from roamcast.broker.resubscribing import ResubscribingParams
from roamcast.cli.main import app
from roamcast.model.filter import BadFilter, parse_json, parse_text
from roamcast.movement.models import MobilityModel
from roamcast.papers.assemble import KITS, kit_of
from roamcast.sim.access import AccessRule
from roamcast.sim.checkers import CHECKS
from roamcast.sim.faults import FaultParams
from roamcast.sim.fences import FenceParams
from roamcast.sim.links import LinkParams
from roamcast.sim.radio import RadioParams
from roamcast.sim.scenario import HostGroup, Scenario, load_scenario
from roamcast.sim.traffic import AnnounceParams, ScopeParams
from roamcast.sim.underlay import UnderlayParams
from roamcast.sim.wiring import Wiring
from tests.docs.pages import PAGES, ROOT, anchors, blocks, broken_links, key_tables, named_paths, text_of

SCENARIOS = text_of("docs/reference/SCENARIOS.md")
REQUIREMENTS = text_of("docs/reference/REQUIREMENTS.md")
PARAMS: list[type[Struct]] = [
    FloodingParams,
    proximity_params.ProximityParams,
    context_params.ContextParams,
    broker_params.BrokerParams,
    overlay_params.OverlayParams,
    ResubscribingParams,
]
IDS = {"S": 14, "C": 13, "M": 10, "R": 7, "O": 9, "P": 10, "L": 13, "F": 7}
LONG_S = 120
"""Scenarios of more simulated seconds than this are loaded, not run."""


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return result.exit_code, result.stdout if result.exit_code == 0 else result.output


def structs_of(info: Any, found: dict[type[Struct], inspect.StructType]) -> dict[type[Struct], inspect.StructType]:
    """Every struct that can stand somewhere in a value of this type."""
    if isinstance(info, inspect.StructType):
        if info.cls not in found:
            found[info.cls] = info
            for field in info.fields:
                structs_of(field.type, found)
        return found
    for name in ("types", "item_types"):
        for each in getattr(info, name, ()):
            structs_of(each, found)
    for name in ("item_type", "value_type"):
        if hasattr(info, name):
            structs_of(getattr(info, name), found)
    return found


STRUCTS: dict[type[Struct], inspect.StructType] = {}
for root in (Scenario, *PARAMS):
    structs_of(inspect.type_info(root), STRUCTS)


def as_toml(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case float() if value.is_integer() and math.isfinite(value):
            return str(int(value))
        case str():
            return f'"{value}"'
        case tuple():
            return f"[{', '.join(map(as_toml, value))}]"
    return str(value)


def rows_of(struct: type[Struct]) -> list[tuple[str, str | None]]:
    """Key and default as the page must show them; None where it may use its own words."""
    rows: list[tuple[str, str | None]] = []
    if struct is broker_params.BrokerParams:
        # Which groups are brokers is taken out before a broker gets its parameters.
        rows.append(("brokers", as_toml(("broker",))))
    for field in msgspec.structs.fields(struct):
        default = field.default
        if field.default_factory is not NODEFAULT:
            default = field.default_factory()
        if isinstance(default, Struct):
            rows.append((field.encode_name, None))
        else:
            rows.append((field.encode_name, "needed" if default is NODEFAULT else as_toml(default)))
    return rows


def agrees(table: list[tuple[str, str]], rows: list[tuple[str, str | None]]) -> bool:
    return len(table) == len(rows) and all(
        key == wanted and default in (said, None) for (key, said), (wanted, default) in zip(table, rows, strict=True)
    )


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_key_of_a_scenario_is_documented_with_its_default(struct: type[Struct]) -> None:
    rows, tables = rows_of(struct), key_tables(SCENARIOS)
    nearest = max(tables, key=lambda table: len(set(table) & set(rows)))
    missing, wrong = [each for each in rows if each not in nearest], [each for each in nearest if each not in rows]
    assert any(agrees(table, rows) for table in tables), (
        f"SCENARIOS.md lacks a table of {struct.__name__}; the nearest lacks {missing}, has {wrong}, or another order"
    )


def test_the_comparison_of_tables_can_fail() -> None:
    rows = rows_of(LinkParams)
    table = [(key, default or "") for key, default in rows]
    assert agrees(table, rows)
    assert not agrees(table[:-1], rows)
    assert not agrees([*table[:-1], ("hops", "2")], rows)


def test_every_kind_of_mobility_radio_and_placement_is_documented() -> None:
    kinds = [str(info.tag) for info in STRUCTS.values() if info.tag is not None]
    assert len(kinds) > 10
    assert [kind for kind in kinds if f"`{kind}`" not in SCENARIOS and f'`kind = "{kind}"`' not in SCENARIOS] == []
    mobilities = [str(info.tag) for info in structs_of(inspect.type_info(MobilityModel), {}).values() if info.tag]
    headings = re.findall(r"^### `([\w-]+)`$", SCENARIOS, re.MULTILINE)
    placements = ("at", "uniform", "line")
    assert [kind for kind in mobilities if kind not in headings and kind not in placements] == []


def test_every_protocol_has_a_section_and_every_check_a_row() -> None:
    assert [kind for kind in KITS if f"### `{kind}`" not in SCENARIOS] == []
    assert [check for check in CHECKS if f"| `{check}` |" not in SCENARIOS] == []


def changes(preset: Struct, base: Struct, prefix: str = "") -> list[str]:
    found: list[str] = []
    for name in base.__struct_fields__:
        ours, theirs = getattr(preset, name), getattr(base, name)
        if isinstance(ours, Struct):
            found += changes(ours, theirs, f"{name}.")
        elif ours != theirs:
            found.append(f"`{prefix}{name} = {as_toml(ours)}`")
    return found


PRESETS = [
    *((name, preset, proximity_params.ProximityParams()) for name, preset in proximity_params.PRESETS.items()),
    *((name, make(), context_params.ContextParams()) for name, make in context_params.PRESETS.items()),
]


@pytest.mark.parametrize(("name", "preset", "base"), PRESETS)
def test_every_preset_is_documented_with_what_it_changes(name: str, preset: Struct, base: Struct) -> None:
    assert f"| `{name}` | {', '.join(changes(preset, base)) or 'nothing'} |" in SCENARIOS


@pytest.mark.slow
def test_the_first_example_of_the_scenario_reference_runs(tmp_path: Path) -> None:
    file = tmp_path / "road.toml"
    file.write_text(blocks(SCENARIOS, "toml")[0], encoding="utf-8")
    code, output = invoke("sim", str(file), "--json")
    assert code == 0, output
    result = msgspec.json.decode(output)
    assert result["notes"]["crashed"] == 1
    assert result["unwanted"] == result["duplicates"] == 0
    assert 0 < result["missed"] < result["expected"]


FRAGMENTS: dict[str, Any] = {
    "mobility": MobilityModel,
    "radio": RadioParams,
    "underlay": UnderlayParams,
    "links": tuple[LinkParams, ...],
    "wiring": tuple[Wiring, ...],
    "access": tuple[AccessRule, ...],
    "fences": tuple[FenceParams, ...],
    "audience": ScopeParams,
    "interest": ScopeParams,
    "announce": AnnounceParams,
    "faults": FaultParams,
}


@pytest.mark.parametrize("fragment", blocks(SCENARIOS, "toml")[1:], ids=lambda text: text.split("\n")[0][:40])
def test_every_other_example_of_the_scenario_reference_is_accepted(fragment: str) -> None:
    for key, value in tomllib.loads(fragment).items():
        if key == "protocol":
            kit_of(value)
        elif key == "hosts" and isinstance(value, list):
            msgspec.convert(value, tuple[HostGroup, ...])
        elif key == "hosts":
            msgspec.convert(value["mobility"], MobilityModel)
        else:
            msgspec.convert(value, FRAGMENTS[key])


def test_the_application_of_the_scenario_reference_runs(tmp_path: Path) -> None:
    (tmp_path / "siren.py").write_text(blocks(SCENARIOS, "python")[0], encoding="utf-8")
    scenario = """
        name = "siren"
        seconds = 5
        protocol = { kind = "proximity" }
        radio = { kind = "unit-disk", range_m = 200 }
        [[hosts]]
        name = "ambulance"
        application = "siren.py:Siren"
        [hosts.mobility]
        kind = "routes"
        routes = [{ name = "east", points = [[0, 0], [900, 0]], speed_mps = 20, entries_s = [0] }]
        [[hosts]]
        name = "driver"
        application = "siren.py:Driver"
        [hosts.mobility]
        kind = "routes"
        routes = [{ name = "west", points = [[150, 5], [0, 5]], speed_mps = 5, entries_s = [0] }]
    """
    (tmp_path / "siren.toml").write_text(scenario, encoding="utf-8")
    code, output = invoke("sim", str(tmp_path / "siren.toml"))
    assert code == 0, output
    assert "make way for ambulance" in output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One two\n[a](#one-two) [b](#three) [c](gone.md) `[d](code.md)` [e](https://example.org)\n")
    assert broken_links(page) == ["#three", "gone.md"]
    assert "hosts" in anchors("## `[[hosts]]`\n")


@pytest.mark.parametrize("page", ["docs/ARCHITECTURE.md", "docs/reference/REQUIREMENTS.md"])
def test_every_path_that_a_page_names_exists(page: str) -> None:
    roots = [ROOT, ROOT / "docs", ROOT / "src/roamcast", ROOT / "src/roamcast/model"]
    paths = named_paths(text_of(page))
    assert len(paths) > 30
    assert [path for path in paths if not any((root / path).exists() for root in roots)] == []


def test_each_way_of_an_event_is_told_with_at_most_a_dozen_files() -> None:
    ways = re.split(r"^## (?=\d)", text_of("docs/ARCHITECTURE.md").partition("## Why")[0], flags=re.MULTILINE)[1:]
    named = [{each for each in named_paths(way) if each.endswith(".py")} for way in ways]
    assert [len(each) for each in named if len(each) > 12] == []
    assert len(named) == 4


def test_the_pictures_of_the_architecture_show_packages_and_layers_that_exist() -> None:
    picture, layers = re.findall(r"^```\n(.*?)^```", text_of("docs/ARCHITECTURE.md"), re.MULTILINE | re.DOTALL)
    named = re.findall(r"\b([a-z]\w*/(?:\w+/)*(?:\w+\.py)?)", picture)
    assert len(named) > 12
    assert [each for each in named if not (ROOT / "src/roamcast" / each).exists()] == []
    enforced = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    assert layers.splitlines() == enforced


@pytest.mark.parametrize("name", ["CONTEXT", "MESH", "OVERLAY", "REBECA", "STEAM"])
def test_every_module_that_a_paper_page_names_exists(name: str) -> None:
    """A module is named with as much of its path as tells which one is meant."""
    modules = [
        f"/{file.relative_to(ROOT)}"
        for folder in ("src", "bench", "tests", "examples")
        for file in (ROOT / folder).rglob("*.py")
    ]
    named = [path for path in named_paths(text_of(f"docs/papers/{name}.md")) if path.endswith(".py")]
    assert named
    assert [path for path in named if not any(module.endswith(f"/{path.lstrip('./')}") for module in modules)] == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = text_of("mkdocs.yml")
    pages = [str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")]
    assert [page for page in pages if f": {page}\n" not in navigation] == []


def test_every_requirement_has_one_row_in_order() -> None:
    rows = re.findall(r"^\| ([A-Z]\d+) \|", REQUIREMENTS, re.MULTILINE)
    assert rows == [f"{letter}{number}" for letter, most in IDS.items() for number in range(1, most + 1)]


def readme_commands() -> list[list[str]]:
    lines = chain.from_iterable(block.splitlines() for block in blocks(text_of("README.md"), ""))
    commands = [shlex.split(line, comments=True) for line in lines if re.match(r"(\.venv/bin/)?roamcast ", line)]
    return [command[1:] for command in commands]


ON_SPARK = ("audit", "experiments run")


def on_spark(arguments: list[str]) -> bool:
    return " ".join(arguments).startswith(ON_SPARK)


def shortened(arguments: list[str], out: Path) -> list[str]:
    """The same command with its output elsewhere, and less of what it does many times."""
    given = [str(out / each.removeprefix("out/")) if each.startswith("out/") else each for each in arguments]
    for option in ("--seeds", "--runs"):
        if option in given:
            given[given.index(option) + 1] = "2"
    return given


@pytest.mark.parametrize("arguments", [each for each in readme_commands() if not on_spark(each)], ids=" ".join)
def test_every_command_of_the_readme_runs(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    scenarios = [load_scenario(Path(each)) for each in arguments if each.endswith(".toml")]
    if any(scenario.seconds > LONG_S for scenario in scenarios):
        for scenario in scenarios:
            kit_of(scenario.protocol)
        return
    if arguments[0] == "broker":
        serve_for_a_moment(shortened(arguments, tmp_path))
        return
    code, output = invoke(*shortened(arguments, tmp_path))
    assert code == 0, output


def serve_for_a_moment(arguments: list[str]) -> None:
    """A broker runs until it is told to stop; here as soon as it is ready, on a port that is free."""
    given = [*arguments, "--mqtt-port", "0", "--http-port", "0"]
    program = [sys.executable, "-c", "from roamcast.cli.main import main; main()", *given]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as broker:
        assert broker.stdout is not None
        said = []
        for line in broker.stdout:
            said.append(line)
            if "is ready" in line:
                broker.send_signal(signal.SIGTERM)
        assert broker.wait(60) == 0, "".join(said)
        assert any("is ready" in line for line in said)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_p2_every_command_of_the_readme_that_needs_spark_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    commands = readme_commands()
    assert sum(map(on_spark, commands)) == 2
    for arguments in commands:
        journal = "--journal" in arguments
        if not journal and not on_spark(arguments):
            continue
        given = shortened(arguments, tmp_path)
        code, output = invoke(*given, *(["--runs", "1", "--out", str(tmp_path)] if "experiments" in given else []))
        assert code == 0, output


def test_the_readme_shows_commands() -> None:
    assert len(readme_commands()) >= 2


def test_s4_the_errors_that_the_filter_reference_quotes_are_those_that_are_printed() -> None:
    page = text_of("docs/reference/FILTERS.md")
    with pytest.raises(BadFilter) as text_error:
        parse_text("kind = 'a' AND price == 3")
    assert text_error.value.position == 21
    assert f"\n{text_error.value}\n" in page
    nearby = {"op": "not", "args": [{"op": "nearby", "args": [{"property": "position"}, 200]}]}
    with pytest.raises(BadFilter) as json_error:
        parse_json({"op": "and", "args": [{"property": "busy"}, nearby]})
    assert f"\n{json_error.value}\n" in page


@pytest.mark.slow
def test_p1_the_snippets_of_the_journal_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("road.toml").write_text(blocks(SCENARIOS, "toml")[0], encoding="utf-8")
    assert invoke("sim", "road.toml", "--journal", "journal", "--json")[0] == 0
    names: dict[str, Any] = {}
    for snippet in blocks(text_of("docs/JOURNAL.md"), "python"):
        if "spark" not in snippet:
            exec(snippet, names)
    assert names["late"]
    assert names["events"]["severity"].between(1, 5).all()


def test_p1_every_note_that_a_scenario_can_cause_is_documented() -> None:
    page = text_of("docs/JOURNAL.md")
    sources = [
        source.read_text(encoding="utf-8")
        for folder in ("sim", "adhoc", "broker")
        for source in sorted((ROOT / "src/roamcast" / folder).rglob("*.py"))
    ]
    notes = dict.fromkeys(chain.from_iterable(re.findall(r'[Nn]ote\((?:body, )?"(\w+)"', text) for text in sources))
    assert len(notes) > 20
    assert [note for note in notes if f"`{note}`" not in page] == []


def test_p1_every_note_of_a_live_node_is_documented() -> None:
    page = text_of("docs/JOURNAL.md")
    notes = re.findall(r'remark\("(\w+)"', text_of("src/roamcast/multicast/running.py"))
    assert "interfaces_changed" in notes
    assert [note for note in notes if f"`{note}`" not in page] == []
