"""Applications as files: which module a class comes from, and how often a file is run."""

import sys
from pathlib import Path

import pytest

from roamcast.sim.applications import Applications, BadApplication

SOURCE = """
import pickle
from dataclasses import dataclass
from roamcast import Port

PLACE = {place!r}
RUNS = []

@dataclass
class Walker:
    name: str = PLACE
    def start(self, port: Port) -> None: ...

class Other:
    def start(self, port: Port) -> None: ...

RUNS.append(PLACE)
"""


def written(folder: Path, place: str) -> str:
    folder.mkdir()
    (folder / "walk.py").write_text(SOURCE.format(place=place))
    return f"{folder / 'walk.py'}"


def test_two_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    applications = Applications()
    here = applications.load(written(tmp_path / "here", "here") + ":Walker")
    there = applications.load(written(tmp_path / "there", "there") + ":Walker")
    for made, place in ((here, "here"), (there, "there")):
        assert sys.modules[made.__module__].__dict__["PLACE"] == place
        assert sys.modules[made.__module__].__dict__["Walker"] is made


def test_a_file_is_run_once_for_all_groups_of_a_run_and_again_for_another_run(tmp_path: Path) -> None:
    file = written(tmp_path / "here", "here")
    applications = Applications()
    walker, other = applications.load(f"{file}:Walker"), applications.load(f"{file}:Other")
    assert vars(sys.modules[walker.__module__])["Other"] is other
    assert Applications().load(f"{file}:Walker") is not walker


def test_a_file_that_fails_leaves_no_module_behind(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0")
    before = set(sys.modules)
    with pytest.raises(BadApplication, match="ZeroDivisionError: division by zero"):
        Applications().load(f"{tmp_path / 'bad.py'}:Walker")
    assert {name for name in set(sys.modules) - before if "bad" in name} == set()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("walk.py", "say which class"),
        ("nowhere.py:Walker", "there is no file"),
        ("walk.py:Runner", "has no class 'Runner' with a method start"),
    ],
)
def test_an_application_that_cannot_be_loaded_is_named(spec: str, expected: str, tmp_path: Path) -> None:
    folder = Path(written(tmp_path / "here", "here")).parent
    with pytest.raises(BadApplication, match=expected):
        Applications().load(f"{folder}/{spec}")
