"""The Spark session: local, on a cluster, or through Spark Connect, with this package on every executor.

Spark needs Java on the machine that runs the driver; its own message without one helps nobody, so it is looked for
first. Through Spark Connect the driver is elsewhere, and no Java is needed here.

While it starts, Java writes lines on the terminal that nobody asked for and no setting silences altogether. They are
held back, and shown if the start fails.
"""

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

import roamcast
from roamcast.spark.tables import UNREADABLE_FILE, BadPipeline

JAVA_MAJOR_MIN = 17
CONNECT_PORT = 15002
CONNECT_S = 10.0
LOCAL = re.compile(r"local(\[.*\])?")
MASTER = re.compile(r"local(\[(\*|[1-9]\d*)( *, *\d+)?\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+")
JAVA_FRAME = re.compile(r"\s+at [\w$./<>]+\(|\s+\.\.\. \d+ more")
UNREADABLE = re.compile(rf"(?:\[FAILED_READ_FILE[.\w]*\].* file|{UNREADABLE_FILE}) (?:file://)?(\S+?)\.?\s")
NO_JAVA = f"""Spark needs a Java runtime, version {JAVA_MAJOR_MIN} or newer, and {{found}}. Install one:
  Debian, Ubuntu   sudo apt-get install default-jre-headless
  Fedora           sudo dnf install java-17-openjdk-headless
  macOS            brew install openjdk@17   (and set JAVA_HOME as brew says)
If Java is installed somewhere unusual, set JAVA_HOME to its folder. With --remote no Java is needed here."""
NO_CONNECT = (
    "Spark Connect needs packages that are not installed: {missing}. Install them: pip install 'pyspark[connect]'"
)


def open_session(
    master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None, data_bytes: int = 0
) -> SparkSession:
    """The one session of this process; an open one is taken as it is. What the user set wins: `conf`, then
    spark-defaults.conf and SPARK_SUBMIT_OPTS, then what pays where so much data will pass through Java."""
    if remote is not None:
        return connected(remote)
    return SparkSession.getActiveSession() or classic(master, conf or {}, data_bytes)


def classic(master: str | None, conf: Mapping[str, str], data_bytes: int = 0) -> SparkSession:
    said = {**defaults(), **conf}
    where = master or said.get("spark.master", "local[*]")
    check_master(where)
    check_java()
    # Without this the workers may be another Python, without numpy or Arrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    ours = {**OPTIONS, **(LOCAL_OPTIONS if LOCAL.fullmatch(where) else {})}
    if LOCAL.fullmatch(where) and "spark.driver.extraJavaOptions" not in said:
        os.environ.setdefault("SPARK_SUBMIT_OPTS", BRIEF_JAVA if data_bytes < LARGE_BYTES else LONG_JAVA)
    builder = SparkSession.builder.master(where).appName("roamcast")
    for key, value in {**{key: value for key, value in ours.items() if key not in said}, **conf}.items():
        builder = builder.config(key, value)
    try:
        with quiet_start():
            spark = builder.getOrCreate()
            spark.sparkContext.setLogLevel("ERROR")
    except Exception as problem:
        raise BadPipeline(f"no Spark session with master '{where}': {first_line(problem)}") from problem
    if not LOCAL.fullmatch(where):
        spark.sparkContext.addPyFile(str(package_archive()))
    return spark


def pairs_given(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """Settings as an option gives them that may be given several times."""
    found = {}
    for each in given or ():
        key, sign, value = each.partition("=")
        if not sign or not key:
            raise BadPipeline(f"{option} is '{each}'; give NAME=VALUE")
        found[key] = value
    return found


def defaults() -> dict[str, str]:
    """What spark-defaults.conf says, where Spark looks for it."""
    home = os.environ.get("SPARK_CONF_DIR") or f"{os.environ.get('SPARK_HOME', '')}/conf"
    file = Path(home) / "spark-defaults.conf"
    lines = file.read_text().splitlines() if file.is_file() else []
    pairs = (
        re.split(r"[\s=]+", line.strip(), maxsplit=1) for line in lines if line.strip() and line.strip()[0] != "#"
    )
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


BRIEF_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LONG_JAVA = "-XX:+UseSerialGC"
LARGE_BYTES = 128 * 1024 * 1024
"""From so much data on, what Java's second compiler saves is more than it costs."""
OPTIONS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # The order of rows within a bin is made by its readers; sorting once more for the writer costs a spill.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # Else Spark starts a job to list the files of a table.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
}
LOCAL_OPTIONS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    # Every stage would be a job of its own, planned anew: on one machine that costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.port": "0",
}


@contextmanager
def quiet_start() -> Iterator[None]:
    """Holds back what this process and those it starts write to standard error, and shows it only on failure.

    A process that was started within goes on writing into the same pipe: from then on, all of it is passed on.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    held = Held(reading, terminal)
    held.start()
    try:
        yield
    except BaseException:
        held.shown = True
        raise
    finally:
        sys.stderr.flush()
        os.write(2, held.mark)
        os.dup2(terminal, 2)
        held.marked.wait()


class Held(threading.Thread):
    """Passes on what comes after a mark; what comes before it, only if it is to be shown."""

    def __init__(self, reading: int, terminal: int) -> None:
        super().__init__(daemon=True)
        self.reading = reading
        self.terminal = terminal
        self.mark = b"\0" + os.urandom(16)
        self.marked = threading.Event()
        self.shown = False

    def run(self) -> None:
        held = b""
        while chunk := os.read(self.reading, 65_536):
            if self.marked.is_set():
                os.write(self.terminal, chunk)
                continue
            held += chunk
            before, mark, after = held.partition(self.mark)
            if mark:
                os.write(self.terminal, (before if self.shown else b"") + after)
                self.marked.set()
        os.close(self.reading)
        os.close(self.terminal)


def connected(remote: str) -> SparkSession:
    check_somebody_is_there(remote)
    if importlib.util.find_spec("grpc") is None:
        raise BadPipeline(NO_CONNECT.format(missing="grpcio"))
    try:
        spark = SparkSession.builder.remote(remote).getOrCreate()
    except ImportError as problem:
        raise BadPipeline(NO_CONNECT.format(missing=first_line(problem))) from problem
    except Exception as problem:
        # A package that is missing comes as an error of pyspark's own, too.
        if "PACKAGE_NOT_INSTALLED" in str(problem):
            raise BadPipeline(NO_CONNECT.format(missing=first_line(problem))) from problem
        raise BadPipeline(f"no Spark Connect at '{remote}': {first_line(problem)}") from problem
    spark.addArtifacts(str(package_archive()), pyfile=True)
    return spark


def check_master(master: str) -> None:
    """Spark itself answers with its own stack, and where nobody is only after a minute."""
    if not MASTER.fullmatch(master):
        raise BadPipeline(f"--master is '{master}'; give local[*], spark://HOST:PORT, yarn or k8s://ADDRESS")
    if not master.startswith("spark://"):
        return
    problem: OSError | None = None
    # There may be several, of which one leads and the others stand by.
    for each in master.removeprefix("spark://").split(","):
        host, _, port = each.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise BadPipeline(f"--master is '{master}'; give spark://HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
        except OSError as refused:
            problem = refused
        else:
            return
    raise BadPipeline(f"no Spark master at '{master}': {problem}; is it running, and may this machine reach it?")


def check_somebody_is_there(remote: str) -> None:
    """Spark itself tries again for ten minutes before it says that nobody is."""
    parts = urlsplit(remote)
    if parts.scheme != "sc" or not parts.hostname:
        raise BadPipeline(f"--remote is '{remote}'; give sc://HOST or sc://HOST:PORT")
    try:
        port = parts.port or CONNECT_PORT
    except ValueError:
        raise BadPipeline(f"--remote is '{remote}': invalid port") from None
    try:
        socket.create_connection((parts.hostname, port), CONNECT_S).close()
    except OSError as problem:
        raise BadPipeline(f"no Spark Connect at '{remote}': {problem}") from problem


def check_java() -> tuple[str, int]:
    """The Java that Spark would run on, and its version. Raises `BadPipeline` with advice if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None or not Path(java).is_file():
        raise BadPipeline(NO_JAVA.format(found="JAVA_HOME has none" if home else "none was found"))
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r' version "(\d+)', said)
    if version is None or int(version[1]) < JAVA_MAJOR_MIN:
        found = "an unknown version" if version is None else f"version {version[1]}"
        raise BadPipeline(NO_JAVA.format(found=f"'{java}' is {found}"))
    return java, int(version[1])


def package_archive() -> Path:
    """This package as a file that Spark sends to every executor."""
    source = Path(roamcast.__file__).parent
    archive = Path(tempfile.mkdtemp(prefix="roamcast-")) / "roamcast.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(source.rglob("*.py")):
            file.write(path, Path("roamcast") / path.relative_to(source))
    return archive


def is_remote(spark: SparkSession) -> bool:
    return not hasattr(spark, "_jsparkSession")


def first_line(problem: BaseException) -> str:
    return str(problem).strip().partition("\n")[0]


def without_java_frames(problem: BaseException) -> str:
    """What Spark says went wrong, with the traceback of a worker of ours if there is one, and no Java stack."""
    said, _, _ = str(problem).partition("JVM stacktrace:")
    return "\n".join(line for line in said.strip().splitlines() if not JAVA_FRAME.match(line))


def unreadable_file(problem: BaseException) -> str | None:
    """The file of a table that Spark could not read, if that is what went wrong."""
    found = UNREADABLE.search(str(problem))
    return found and found[1]
