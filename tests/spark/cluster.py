"""A real cluster on this machine, out of the installed pyspark: a standalone master with workers, or a Spark Connect
server. Everything is on the loopback, on ports that the system gives; every wait has an end, and a failure shows the
logs.

What runs there has no roamcast of its own: a `sitecustomize` hides every copy that is installed, so that a task can
import only one that was sent to it.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
START_S_MAX = 60.0
COMMAND_S_MAX = 600.0
STOP_S_MAX = 15.0
LOG_CHARACTERS = 6_000
SHORT_LIVED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Half of what a Java process of a minute costs is compiling for an hour that never comes."""

HIDING = """
import importlib.abc
import importlib.machinery
import sys


class OnlyWhatWasSent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "roamcast":
            return None
        sent = [place for place in sys.path if place.endswith(".zip")]
        spec = importlib.machinery.PathFinder.find_spec(name, sent)
        if spec is None:
            raise ModuleNotFoundError("roamcast was not sent here", name=name)
        return spec


sys.meta_path.insert(0, OnlyWhatWasSent())
"""


class NotStarted(Exception):
    """A part of the cluster did not come up; the message ends with its log."""


class Part:
    """A Java process of Spark's, in a process group of its own with all that it starts."""

    def __init__(self, name: str, arguments: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        self.lines: list[str] = []
        self.news = threading.Condition()
        self.process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *arguments],
            env={**environment, "SPARK_HOME": str(SPARK_HOME)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        assert self.process.stdout is not None
        self.reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self.reader.start()

    def _read(self, output: IO[str]) -> None:
        with open(self.log, "w") as log:
            for line in output:
                log.write(line)
                log.flush()
                with self.news:
                    self.lines.append(line)
                    self.news.notify_all()
        with self.news:
            self.news.notify_all()

    def said(self, pattern: str) -> re.Match[str]:
        """The first line of its log with this in it, as soon as it is there."""
        found: list[re.Match[str]] = []

        def heard() -> bool:
            found.extend(match for line in self.lines if (match := re.search(pattern, line)))
            return bool(found) or not self.reader.is_alive()

        with self.news:
            self.news.wait_for(heard, START_S_MAX)
        if not found:
            raise NotStarted(f"{self.name} never said '{pattern}':\n{self.tail()}")
        return found[0]

    def tail(self) -> str:
        return "".join(self.lines)[-LOG_CHARACTERS:]

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                break
            try:
                self.process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                continue
        self.reader.join(STOP_S_MAX)


class Cluster:
    """Where it is reached, and its parts."""

    def __init__(self, option: str, parts: list[Part], environment: Mapping[str, str]) -> None:
        self.option = option
        self.parts = parts
        self.environment = environment

    def run(self, *arguments: str) -> str:
        """What a command of roamcast prints that is run on this cluster."""
        command = [sys.executable, "-m", "roamcast", *arguments, *self.option.split("=")]
        try:
            done = subprocess.run(
                command, env=self.environment, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False
            )
        except subprocess.TimeoutExpired as problem:
            raise AssertionError(f"{command} did not end in {COMMAND_S_MAX} s\n{self.logs()}") from problem
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stderr}\n{self.logs()}"
        return done.stdout

    def run_losing_executors(self, *arguments: str, when: Sequence[Callable[[], bool]]) -> str:
        """As `run`; an executor is killed each time one of these comes true, in their order."""
        waiting = list(when)
        done = threading.Event()

        def kill() -> None:
            while waiting and not done.wait(0.05):
                running = self.executors()
                if running and waiting[0]():
                    waiting.pop(0)
                    os.kill(running[0], signal.SIGKILL)

        killing = threading.Thread(target=kill, daemon=True)
        killing.start()
        try:
            said = self.run(*arguments)
        finally:
            done.set()
            killing.join()
        assert not waiting, f"{len(waiting)} executors were never killed"
        return said

    def executors(self) -> list[int]:
        """The processes that the workers have started to run tasks."""
        sessions = {part.process.pid for part in self.parts}
        found = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if (
                    b"CoarseGrainedExecutorBackend" in place.read_bytes()
                    and os.getsid(int(place.parent.name)) in sessions
                ):
                    found.append(int(place.parent.name))
            except (OSError, ProcessLookupError):
                continue
        return sorted(found)

    def logs(self) -> str:
        return "\n".join(f"--- {part.name}\n{part.tail()}" for part in self.parts)


@contextmanager
def standalone(directory: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and workers of one core each."""
    environment = without_roamcast(directory)
    with started() as parts:
        listen = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = Part("master", ["org.apache.spark.deploy.master.Master", *listen], environment, directory / "master")
        parts.append(master)
        address = master.said(r"Starting Spark master at (spark://\S+)")[1]
        for number in range(workers):
            place = directory / f"worker-{number}"
            arguments = [*listen, "--cores", "1", "--memory", "1g", "--work-dir", str(place), address]
            name = "org.apache.spark.deploy.worker.Worker"
            parts.append(Part(place.name, [name, *arguments], environment, directory / f"{place.name}.log"))
        for part in parts[1:]:
            part.said("Successfully registered with master")
        yield Cluster(f"--master={address}", parts, client(directory, os.environ))


@contextmanager
def connect_server(directory: Path) -> Iterator[Cluster]:
    """Spark Connect, and clients that could not start Java if they tried."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    arguments = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]"]
    for key, value in settings.items():
        arguments += ["--conf", f"{key}={value}"]
    arguments += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with started() as parts:
        server = Part("connect", arguments, without_roamcast(directory), directory / "connect.log")
        parts.append(server)
        port = server.said(r"Spark Connect server started at: \S*?:(\d+)")[1]
        without_java = {**os.environ, "JAVA_HOME": str(directory / "no-java")}
        yield Cluster(f"--remote=sc://127.0.0.1:{port}", parts, client(directory, without_java))


@contextmanager
def started() -> Iterator[list[Part]]:
    parts: list[Part] = []
    try:
        yield parts
    finally:
        for part in reversed(parts):
            part.stop()


def without_roamcast(directory: Path) -> dict[str, str]:
    """The environment of a machine with this Python and its libraries, and no roamcast."""
    hiding = directory / "hiding"
    hiding.mkdir()
    (hiding / "sitecustomize.py").write_text(HIDING)
    ours = {"PYTHONPATH": str(hiding), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, **SHORT_LIVED, **ours}


def client(directory: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """As somebody has it who set up Spark for a cluster as small as this one."""
    settings = directory / "conf"
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 4\nspark.ui.enabled false\n")
    ours = {"SPARK_CONF_DIR": str(settings), "SPARK_LOCAL_IP": "127.0.0.1", "NO_COLOR": "1", "COLUMNS": "200"}
    return {**environment, **SHORT_LIVED, **ours}
