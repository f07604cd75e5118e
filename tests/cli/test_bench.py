"""L6: `roamcast bench` runs the benchmarks of a checkout, here of a small one."""

import json
import os
from pathlib import Path

import pytest

from roamcast.cli import bench
from roamcast.cli.bench import account_of, benchmarks_of, module_named
from tests.cli.test_commands import invoke

ROOT = Path(__file__).parents[2]
MAIN = (
    'import json, pathlib, sys\nQUICK = ("fast",)\nBENCHMARKS = (*QUICK, "slow")\n'
    'for name in sys.argv[1:]:\n    if name == "slow":\n        sys.exit("too slow")\n    print("measured", name)\n'
    '    pathlib.Path("out/bench").mkdir(parents=True, exist_ok=True)\n'
    '    pathlib.Path(f"out/bench/{name}.json").write_text(json.dumps({"figures": {"seconds": 1.5}}))\n'
)
SLOW = '''"""How slow it is.

Very."""
TAKES = "most of an hour"
NEEDS = {
    "git": "apt-get install git",
    "an-unheard-of-broker": "apt-get install an-unheard-of-broker",
    "msgspec": "pip install msgspec",
    "an-unheard-of-package": "pip install an-unheard-of-package",
    "bench/fast.py": "make fast",
    "bench/packages": "make packages",
}
'''


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bench"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "__main__.py").write_text(MAIN)
    (folder / "fast.py").write_text('"""How fast it is."""\nTAKES = "2 s"\n')
    (folder / "slow.py").write_text(SLOW)
    monkeypatch.setattr(bench, "checkout", lambda: tmp_path)
    return tmp_path


def test_l6_the_checkout_is_found_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert bench.checkout() == ROOT


def test_l6_the_benchmarks_of_this_repository_are_found_and_each_says_what_it_measures() -> None:
    known, quick = benchmarks_of(ROOT)
    assert set(quick) < set(known)
    assert [name for name in known if not account_of(ROOT, name).about] == []


def test_l6_each_benchmark_says_how_long_it_takes_and_quick_is_what_takes_less_than_half_a_minute() -> None:
    known, quick = benchmarks_of(ROOT)
    takes = {name: account_of(ROOT, name).takes for name in known}
    assert [name for name, time in takes.items() if not time] == []
    for name in quick:
        seconds, unit = takes[name].split()
        assert unit == "s"
        assert int(seconds) < 30


def test_l6_a_list_of_benchmarks_for_people_and_for_programs(small: Path) -> None:
    code, output = invoke("bench", "--list")
    assert code == 0
    for told in ("How slow it is.", "most of an hour", "git, msgspec, bench/fast.py", "make packages"):
        assert told in output
    _, output = invoke("bench", "--list", "--json", "-")
    fast, slow = json.loads(output)
    assert (fast["name"], fast["quick"], fast["takes"], fast["needs"]) == ("fast", True, "2 s", [])
    assert (slow["name"], slow["takes"]) == ("slow", "most of an hour")
    lacking = {each["name"]: each["get"] for each in slow["needs"] if not each["here"]}
    assert lacking == {
        "an-unheard-of-broker": "apt-get install an-unheard-of-broker",
        "an-unheard-of-package": "pip install an-unheard-of-package",
        "bench/packages": "make packages",
    }
    assert [each["name"] for each in slow["needs"] if each["here"]] == ["git", "msgspec", "bench/fast.py"]


def test_l6_a_list_goes_into_the_file_that_was_named(small: Path) -> None:
    code, output = invoke("bench", "--list", "--json", str(small / "list.json"))
    assert (code, output) == (0, "")
    assert [each["name"] for each in json.loads((small / "list.json").read_text())] == ["fast", "slow"]


def test_l6_figures_of_who_ran_before_one_failed_go_into_the_file_and_old_ones_do_not(small: Path) -> None:
    (small / "out" / "bench").mkdir(parents=True)
    old = small / "out" / "bench" / "slow.json"
    old.write_text("{}")
    os.utime(old, (1.0, 1.0))
    assert invoke("bench", "fast", "slow", "--json", str(small / "all.json"))[0] == 1
    assert json.loads((small / "all.json").read_text()) == {"fast": {"figures": {"seconds": 1.5}}}


def test_l6_figures_go_into_one_file(small: Path) -> None:
    code, _ = invoke("bench", "--json", str(small / "all.json"))
    assert code == 0
    assert json.loads((small / "all.json").read_text()) == {"fast": {"figures": {"seconds": 1.5}}}


def test_l6_a_benchmark_that_fails_is_exit_code_1_and_one_that_is_not_there_2(small: Path) -> None:
    assert invoke("bench", "slow", "--json", str(small / "none.json"))[0] == 1
    assert not (small / "none.json").exists()
    code, output = invoke("bench", "swift")
    assert code == 2
    assert "no benchmark is called 'swift'; there are fast, slow" in output


def test_l6_a_mistyped_benchmark_is_guessed(small: Path) -> None:
    code, output = invoke("bench", "fasst")
    assert code == 2
    assert "no benchmark is called 'fasst'; did you mean 'fast'?" in output


def test_l6_a_benchmark_is_found_by_its_name_without_the_underscore() -> None:
    known, _ = benchmarks_of(ROOT)
    assert "raise_" in known
    assert (module_named("raise", known), module_named("raise_", known)) == ("raise_", "raise_")
    assert module_named("raise__", known) is None


def test_l6_where_there_is_no_checkout_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "checkout", lambda: None)
    code, output = invoke("bench")
    assert code == 2
    assert "benchmarks are in the repository, not in the installed package" in output
