"""L6: `roamcast bench` runs the benchmarks of a checkout, here of a small one."""

import json
from pathlib import Path

import pytest

from roamcast import cli_bench
from roamcast.cli_bench import benchmarks_of, purpose_of
from tests.cli.test_commands import invoke

ROOT = Path(__file__).parents[2]
MAIN = (
    'import json, pathlib, sys\nQUICK = ("fast",)\nBENCHMARKS = (*QUICK, "slow")\n'
    'for name in sys.argv[1:]:\n    if name == "slow":\n        sys.exit("too slow")\n    print("measured", name)\n'
    '    pathlib.Path("out/bench").mkdir(parents=True, exist_ok=True)\n'
    '    pathlib.Path(f"out/bench/{name}.json").write_text(json.dumps({"figures": {"seconds": 1.5}}))\n'
)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bench"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "__main__.py").write_text(MAIN)
    (folder / "fast.py").write_text('"""How fast it is."""\n')
    (folder / "slow.py").write_text('"""How slow it is.\n\nVery."""\n')
    monkeypatch.setattr(cli_bench, "checkout", lambda: tmp_path)
    return tmp_path


def test_l6_the_benchmarks_of_this_repository_are_found_and_each_says_what_it_measures() -> None:
    assert cli_bench.checkout() == ROOT
    known, quick = benchmarks_of(ROOT)
    assert set(quick) < set(known)
    assert [name for name in known if not purpose_of(ROOT / "bench" / f"{name}.py")] == []


def test_l6_a_list_of_benchmarks_for_people_and_for_programs(small: Path) -> None:
    code, output = invoke("bench", "--list")
    assert code == 0
    assert "How slow it is." in output
    _, output = invoke("bench", "--list", "--json", "-")
    assert [each["name"] for each in json.loads(output)] == ["fast", "slow"]


def test_l6_figures_go_into_one_file(small: Path) -> None:
    code, _ = invoke("bench", "--json", str(small / "all.json"))
    assert code == 0
    assert json.loads((small / "all.json").read_text()) == {"fast": {"figures": {"seconds": 1.5}}}


def test_l6_a_benchmark_that_fails_is_exit_code_1_and_one_that_is_not_there_2(small: Path) -> None:
    assert invoke("bench", "slow")[0] == 1
    code, output = invoke("bench", "swift")
    assert code == 2
    assert "no benchmark is called 'swift'; there are fast, slow" in output


def test_l6_where_there_is_no_checkout_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_bench, "checkout", lambda: None)
    code, output = invoke("bench")
    assert code == 2
    assert "benchmarks are in the repository, not in the installed package" in output
