"""L6: benchmarks that are interrupted or cannot be run: nothing of theirs goes on, and what they measured is kept.

The runner is the real one, in a checkout in which one benchmark is replaced by a small one that starts a broker.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from roamcast import __version__

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
ROAMCAST = (
    "from pathlib import Path; from roamcast.cli import bench, main; bench.checkout = lambda: Path.cwd(); main.main()"
)
WITH_A_BROKER = '''"""Has a broker, and waits."""
import time
from bench.fanout_peers import PEERS, Running

def main():
    with Running(PEERS[0]):
        print("the broker runs", flush=True)
        time.sleep(60)
    return {"late": 2.0}
'''
NOTES_ONE = '''"""Has one case, and goes on."""
from bench import progress

def main():
    progress.note({"first": 1.5})
    '''
PATIENCE_S = 40.0


def hears_interrupts() -> None:
    """Where tests run in the background of a shell, interrupts are ignored, and by all that they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        shutil.copytree(ROOT / "bench", self.root / "bench", ignore=shutil.ignore_patterns("__pycache__"))
        self.started: list[subprocess.Popen[str]] = []

    def replace(self, name: str, text: str) -> None:
        (self.root / "bench" / f"{name}.py").write_text(text)

    def start(self, *command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=self.root,
            env={**os.environ, "TMPDIR": str(self.temporary), "COLUMNS": "200", "NO_COLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            preexec_fn=hears_interrupts,
        )
        self.started.append(process)
        return process

    def started_until(self, line: str, *command: str) -> subprocess.Popen[str]:
        process = self.start(*command)
        assert process.stdout is not None
        while said := process.stdout.readline():
            if said.strip() == line:
                return process
        pytest.fail(f"it ended before it said '{line}': {process.communicate()[1]}")

    def run(self, *command: str) -> tuple[int, str, str]:
        process = self.start(*command)
        said, complained = process.communicate(timeout=PATIENCE_S)
        return process.returncode, said, complained

    def written(self, name: str) -> dict[str, object]:
        def no_number(text: str) -> float:
            raise AssertionError(f"{text} is not JSON")

        text = (self.root / "out" / "bench" / f"{name}.json").read_text()
        told: dict[str, object] = json.loads(text, parse_constant=no_number)
        return told

    def still_there(self) -> dict[int, str]:
        """Processes that were started with something of the temporary folder: a broker has its settings there."""
        found = {}
        for each in Path("/proc").iterdir():
            if each.name.isdigit():
                try:
                    command = (each / "cmdline").read_bytes().decode(errors="replace")
                except OSError:
                    continue
                if str(self.temporary) in command:
                    found[int(each.name)] = command.replace("\0", " ")
        return found

    def left(self, within_s: float) -> tuple[list[str], list[str]]:
        """Processes and files, once there are none or so many seconds have passed."""
        until = time.monotonic() + within_s
        while self.still_there() and time.monotonic() < until:
            time.sleep(0.05)
        return list(self.still_there().values()), [each.name for each in self.temporary.iterdir()]

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()
        for pid in self.still_there():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("what goes on is looked up in /proc")
    made = Checkout(tmp_path)
    yield made
    made.end()


def interrupt_the_command(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)


def interrupt_all_of_them(process: subprocess.Popen[str]) -> None:
    """As Ctrl-C in a terminal does."""
    os.killpg(process.pid, signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize("interrupt", [interrupt_the_command, interrupt_all_of_them])
def test_l6_a_benchmark_that_is_interrupted_leaves_no_broker_and_no_folder(
    checkout: Checkout, interrupt: Callable[[subprocess.Popen[str]], None]
) -> None:
    checkout.replace("journal", WITH_A_BROKER)
    process = checkout.started_until("the broker runs", "-c", ROAMCAST, "bench", "journal")
    assert checkout.still_there()
    interrupt(process)
    said, complained = process.communicate(timeout=PATIENCE_S)
    assert checkout.left(1.0) == ([], [])
    assert process.returncode == 130
    assert "Traceback" not in said + complained


@pytest.mark.slow
def test_l6_a_broker_ends_with_a_benchmark_that_was_killed(checkout: Checkout) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux ends a process with its parent")
    checkout.replace("journal", WITH_A_BROKER)
    process = checkout.started_until("the broker runs", "-m", "bench", "journal")
    process.kill()
    process.wait()
    assert checkout.left(5.0)[0] == []


def test_l6_an_interrupt_keeps_what_was_measured_and_says_where(checkout: Checkout) -> None:
    waits = "import time\n    print('the second case', flush=True)\n    time.sleep(60)\n    return {}"
    checkout.replace("journal", NOTES_ONE + waits)
    process = checkout.started_until("the second case", "-m", "bench", "journal")
    process.send_signal(signal.SIGINT)
    said, complained = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complained) == (130, "")
    assert said == "interrupted; 1 case is in out/bench/journal.json\n"
    told = checkout.written("journal")
    assert told["complete"] is False
    assert told["figures"] == {"first": 1.5}


def test_l6_what_a_benchmark_measured_before_it_failed_is_kept(checkout: Checkout) -> None:
    checkout.replace("journal", NOTES_ONE + "raise OSError('the peer is gone')")
    code, _, complained = checkout.run("-m", "bench", "journal")
    assert code == 1
    assert "OSError: the peer is gone" in complained
    assert (checkout.written("journal")["complete"], checkout.written("journal")["figures"]) == (
        False,
        {"first": 1.5},
    )


def test_l6_an_interrupt_before_the_first_case_leaves_earlier_figures(checkout: Checkout) -> None:
    checkout.replace("journal", "def main():\n    return {'earlier': 1.0}\n")
    assert checkout.run("-m", "bench", "journal")[0] == 0
    checkout.replace("journal", "import time\ndef main():\n    print('begun', flush=True)\n    time.sleep(60)\n")
    process = checkout.started_until("begun", "-m", "bench", "journal")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE_S)[0] == "interrupted; nothing was measured\n"
    assert checkout.written("journal")["figures"] == {"earlier": 1.0}


def test_l6_figures_are_json_and_say_of_what_they_are(checkout: Checkout) -> None:
    git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@example.org"]
    for words in (["init", "-q"], ["add", "bench"], ["commit", "-qm", "all of it"]):
        subprocess.run([*git, *words], cwd=checkout.root, check=True)
    commit = subprocess.run(
        [*git, "rev-parse", "HEAD"], cwd=checkout.root, check=True, capture_output=True, text=True
    ).stdout.strip()
    checkout.replace(
        "journal", "def main():\n    return {'none': float('nan'), 'endless': float('inf'), 'some': 2}\n"
    )
    code, said, _ = checkout.run("-m", "bench", "journal")
    assert code == 0
    assert said.endswith("journal: 3 figures are in out/bench/journal.json\n")
    told = checkout.written("journal")
    assert told["complete"] is True
    assert told["figures"] == {"none": None, "endless": None, "some": 2}
    conditions = told["conditions"]
    assert isinstance(conditions, dict)
    assert conditions["roamcast"] == __version__
    # One file of it is not as it was committed.
    assert conditions["commit"] == f"{commit[:12]}-dirty"
    assert float(conditions["load_after"]) >= 0
    assert conditions["versions"]["numpy"] == version("numpy")


def test_l6_peers_that_were_skipped_are_told_with_the_figures(checkout: Checkout) -> None:
    skips = "progress.skipped('mosquitto', 'not installed: apt-get install mosquitto')\n    return {'ours': 1.0}"
    checkout.replace("journal", NOTES_ONE + skips)
    code, said, _ = checkout.run("-m", "bench", "journal")
    assert code == 0
    assert "mosquitto is skipped: not installed: apt-get install mosquitto\n" in said
    assert said.endswith("journal: 2 figures are in out/bench/journal.json; without mosquitto\n")
    assert checkout.written("journal")["skipped"] == [
        {"peer": "mosquitto", "reason": "not installed: apt-get install mosquitto"}
    ]


def test_l6_a_benchmark_that_was_skipped_is_no_success_and_the_next_one_runs(checkout: Checkout) -> None:
    lacking = (
        "from bench import progress\ndef main():\n    progress.skipped('the page', 'no browser')\n    return {}\n"
    )
    checkout.replace("journal", lacking)
    checkout.replace("filters", "def main():\n    return {'one': 1.0}\n")
    code, said, _ = checkout.run("-m", "bench", "journal", "filters")
    assert code == 1
    assert "journal measured nothing: the page is skipped\n" in said
    told = checkout.written("journal")
    assert (told["complete"], told["figures"]) == (False, {})
    assert checkout.written("filters")["figures"] == {"one": 1.0}


def test_l6_the_runner_shows_how_it_is_used(checkout: Checkout) -> None:
    code, said, complained = checkout.run("-m", "bench", "--help")
    assert (code, complained) == (0, "")
    assert "usage: python -m bench" in said
    assert "most of an hour" in said
    code, _, complained = checkout.run("-m", "bench", "fannout")
    assert code == 2
    assert "no benchmark is called 'fannout'; did you mean 'fanout'?" in complained


def test_l6_the_runner_takes_a_name_without_its_underscore(checkout: Checkout) -> None:
    checkout.replace("raise_", "def main():\n    return {'one': 1.0}\n")
    assert checkout.run("-m", "bench", "raise")[0] == 0
    assert checkout.written("raise_")["figures"] == {"one": 1.0}


def test_l6_fanout_refuses_a_word_that_no_peer_and_no_case_has(checkout: Checkout) -> None:
    code, said, complained = checkout.run("-m", "bench.fanout", "ours", "mosquito", "1-50")
    assert (code, said) == (2, "")
    assert "'mosquito' is no peer and in no case; did you mean 'mosquitto'?" in complained
    assert "ping-pong q0" in complained
