"""The command line as a person meets it: results, clear errors, exit codes, no tracebacks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roamcast import __version__
from roamcast.cli.main import app
from roamcast.journal.reader import read_entries
from roamcast.journal.records import Published
from roamcast.terminal import EXIT_BAD_INPUT, EXIT_CHECK_FAILED, EXIT_INTERRUPTED

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


def test_a_check_that_fails_during_the_run_leaves_a_whole_journal_and_a_result(tmp_path: Path) -> None:
    scenario = tmp_path / "strict.toml"
    flooding = Path("scenarios/context-flooding.toml").read_text()
    scenario.write_text(flooding.replace('checks = ["no-duplicates"]', 'checks = ["only-matching"]'))
    code, output = invoke("sim", str(scenario), "--journal", str(tmp_path / "journal"))
    assert code == EXIT_CHECK_FAILED
    assert "not all checks passed" in output
    assert len(list(read_entries(tmp_path / "journal", Published))) > 0


@pytest.mark.slow
def test_ctrl_c_ends_a_run_with_what_there_was_and_a_journal(tmp_path: Path) -> None:
    scenario = tmp_path / "long.toml"
    scenario.write_text(Path("scenarios/town.toml").read_text().replace("seconds = 60", "seconds = 100_000"))
    arguments = ["roamcast", "sim", str(scenario), "--journal", str(tmp_path / "journal")]
    script = (
        "import sys, roamcast.sim.run as run\n"
        "from roamcast.cli.main import app\n"
        "steps = run.Run.steps\n"
        "def interrupted(self):\n"
        "    for now_us in steps(self):\n"
        "        yield now_us\n"
        "        if now_us >= 3_000_000:\n"
        "            raise KeyboardInterrupt\n"
        "run.Run.steps = interrupted\n"
        f"sys.argv = {arguments!r}\n"
        "app()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == EXIT_INTERRUPTED
    assert "interrupted at 3 s" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(list(read_entries(tmp_path / "journal", Published))) > 0


def test_a_directory_that_cannot_hold_a_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("taken")
    code, output = invoke("sim", str(SCENARIO), "--journal", str(tmp_path / "file"))
    assert code == EXIT_BAD_INPUT
    assert "cannot be a journal's directory" in output


def test_what_is_hardly_meant_is_said_before_the_run(tmp_path: Path) -> None:
    odd = tmp_path / "odd.toml"
    text = SCENARIO.read_text().replace('"parking/+"', '"orad/+"').replace('"complete"', '"no-duplicates"')
    odd.write_text(text + '\n[faults]\ncrash = [{ host = "B1", at_s = 200 }]\n')
    code, output = invoke("sim", str(odd))
    assert code == 0
    assert "nobody publishes what 'orad/+' asks for" in output
    assert "the crash of 'B1' at 200 s comes after the end of the run" in output


def test_filter_explain_shows_the_tree_and_what_it_covers() -> None:
    code, output = invoke(
        "filter", "explain", "price < 5 AND near(position, 200)", "--covers", "price < 3 AND near(position, 100)"
    )
    assert code == 0
    assert "near(position, 200)" in output
    assert "covers" in output


def test_l6_filter_explain_answers_programs_in_json() -> None:
    code, output = invoke("filter", "explain", "near(position, 200)", "--covers", "near(position, 100)", "--json")
    told = json.loads(output)
    assert (code, told["text"], told["needs"]) == (0, "near(position, 200)", ["position"])
    assert len(told["covering"]) == 2


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
