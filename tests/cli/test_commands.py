"""The command line as a person meets it: results, clear errors, exit codes, no tracebacks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roamcast import __version__
from roamcast.cli import EXIT_BAD_INPUT, EXIT_CHECK_FAILED, app

SCENARIO = Path("scenarios/brokers-flooding.toml")


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_help_lists_the_commands_and_the_version_is_the_packages() -> None:
    code, output = invoke("--help")
    assert code == 0
    assert "sim" in output
    assert "filter" in output
    assert invoke("--version") == (0, f"{__version__}\n")


def test_sim_shows_a_table_of_what_was_delivered_and_which_checks_passed() -> None:
    code, output = invoke("sim", str(SCENARIO))
    assert code == 0
    assert "delivery rate" in output
    assert "100.0%" in output
    assert "checks passed: no-duplicates, sender-order, only-matching, complete; seed 1" in output


def test_sim_prints_json_for_scripts() -> None:
    code, output = invoke("sim", str(SCENARIO), "--json", "--seed", "3")
    result = json.loads(output)
    assert (code, result["seed"], result["missed"]) == (0, 3, 0)


def test_sim_writes_a_journal_and_refuses_to_mix_it_with_another(tmp_path: Path) -> None:
    assert invoke("sim", str(SCENARIO), "--journal", str(tmp_path / "j"))[0] == 0
    code, output = invoke("sim", str(SCENARIO), "--journal", str(tmp_path / "j"))
    assert code == EXIT_BAD_INPUT
    assert "holds a journal already" in output


def test_a_wrong_scenario_is_answered_with_the_key_and_exit_code_2(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(SCENARIO.read_text().replace('over = "links"', 'over = "pigeons"'))
    code, output = invoke("sim", str(wrong))
    assert code == EXIT_BAD_INPUT
    assert "allowed: air, links" in output
    assert invoke("sim", str(tmp_path / "none.toml"))[0] == EXIT_BAD_INPUT


def test_a_failed_check_prints_the_command_that_repeats_it(tmp_path: Path) -> None:
    lossy = tmp_path / "lossy.toml"
    lossy.write_text(SCENARIO.read_text() + '\n[faults]\ncut = [{ a = "B3", b = "B5", at_s = 5, until_s = 9 }]\n')
    code, output = invoke("sim", str(lossy), "--seed", "6")
    assert code == EXIT_CHECK_FAILED
    assert "complete failed" in output
    assert f"roamcast sim {lossy} --seed 6" in output


def test_filter_explain_shows_the_tree_and_what_it_covers() -> None:
    code, output = invoke(
        "filter", "explain", "price < 5 AND near(position, 200)", "--covers", "price < 3 AND near(position, 100)"
    )
    assert code == 0
    assert "near(position, 200)" in output
    assert "covers" in output


@pytest.mark.parametrize("text", ["price <", "frobnicate(x) = 1", "(" * 4_000])
def test_filter_explain_answers_a_bad_filter_with_exit_code_2(text: str) -> None:
    code, output = invoke("filter", "explain", text)
    assert code == EXIT_BAD_INPUT
    assert "Traceback" not in output


def test_the_installed_command_runs(tmp_path: Path) -> None:
    """The entry point of the package, in a process of its own and from another folder."""
    command = Path(sys.executable).parent / "roamcast"
    done = subprocess.run(
        [command, "--version"], capture_output=True, text=True, cwd=tmp_path, timeout=60, env=os.environ
    )
    assert (done.returncode, done.stdout.strip()) == (0, __version__)
