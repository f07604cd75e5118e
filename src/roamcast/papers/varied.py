"""Scenarios of experiments: a file of `scenarios/`, with some of its keys changed."""

import atexit
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from roamcast.node.observer import Observer
from roamcast.papers.assemble import kit_of
from roamcast.sim.run import Result, run_scenario
from roamcast.sim.scenario import beside, scenario_from

HERE = Path(__file__).resolve()
FOLDERS = (HERE.parents[1] / "scenarios", HERE.parents[3] / "scenarios")
"""In an installed package, and in a checkout."""


class Shipped:
    """What the driver of a sweep has sent along, on a machine that has no scenarios of its own."""

    folder: Path | None = None


def ship(texts: dict[str, str]) -> None:
    """Scenarios and their applications, by file name; written down once in a process."""
    if Shipped.folder is None:
        Shipped.folder = Path(tempfile.mkdtemp(prefix="roamcast-scenarios-"))
        atexit.register(shutil.rmtree, Shipped.folder, ignore_errors=True)
        for name, text in texts.items():
            (Shipped.folder / name).write_text(text, encoding="utf-8")


def folder() -> Path:
    found = [each for each in (Shipped.folder, *FOLDERS) if each is not None and each.is_dir()]
    if not found:
        raise FileNotFoundError(f"no scenarios in {' or '.join(map(str, FOLDERS))}")
    return found[0]


def all_texts() -> dict[str, str]:
    """Every scenario that comes with the package, with the applications and models that they and experiments name."""
    files = [file for file in sorted(folder().iterdir()) if file.suffix in (".toml", ".py", ".json")]
    return {file.name: file.read_text(encoding="utf-8") for file in files}


def scenario_file(name: str) -> Path:
    file = folder() / f"{name}.toml"
    if not file.exists():
        there = ", ".join(sorted(each.stem for each in folder().glob("*.toml")))
        raise FileNotFoundError(f"no scenario is called '{name}'; there are {there}")
    return file


def changed(given: Any, changes: dict[str, Any]) -> Any:
    """A copy with each `a.b.0.c` of the changes set; a part of a path that is missing is made."""
    result = copied(given)
    for path, value in changes.items():
        *way, last = path.split(".")
        at = result
        for part in way:
            at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
        if isinstance(at, list):
            at[int(last)] = value
        else:
            at[last] = value
    return result


def copied(given: Any) -> Any:
    match given:
        case dict():
            return {key: copied(value) for key, value in given.items()}
        case list():
            return [copied(each) for each in given]
        case _:
            return given


def run_varied(name: str, changes: dict[str, Any], seed: int, watching: tuple[Observer, ...] = ()) -> Result:
    file = scenario_file(name)
    given = changed(tomllib.loads(file.read_text(encoding="utf-8")), changes)
    scenario = beside(scenario_from(given, name), file.parent)
    return run_scenario(scenario, kit_of(scenario.protocol, scenario.radio), seed, watching=watching)
