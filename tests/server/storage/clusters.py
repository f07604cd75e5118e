"""PostgreSQL servers that live as long as a test, and what a machine may lack for them.

The server refuses to run for root, so root starts it as `nobody`. Everything it has lies in a directory of its own
under the system's temporary one, since `nobody` may not look into what belongs to pytest.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.ports import free_port

USER = "roamcast"
DATABASE = "postgres"
REPLICATES_S = 60.0
# Without syncs: the machine under a test stays, and what was written is with the system.
SETTINGS = """
unix_socket_directories = ''
max_connections = 60
shared_buffers = 16MB
fsync = off
wal_keep_size = 256MB
logging_collector = off
wal_sender_timeout = 20s
"""


def programs() -> Path | None:
    """Where `initdb` and its like are: Debian does not put them on the path."""
    found = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda each: int(each.parts[-3]))
    return debian[-1].parent if debian else Path(found).resolve().parent if found else None


def why_not() -> str:
    """Why there can be no server here; empty if there can."""
    if programs() is None:
        return "PostgreSQL is not installed (tools/clients.sh)"
    return "" if find_spec("psycopg") else "psycopg is not installed (pip install 'roamcast[postgres]')"


needs_postgres = pytest.mark.skipif(bool(why_not()), reason=why_not())


class Cluster:
    """One server. States: stopped, running, paused."""

    def __init__(
        self, directory: Path, application: str = "", host: str = "127.0.0.1", within: Sequence[str] = ()
    ) -> None:
        """`within` is a command that runs it elsewhere, where its host is."""
        self.directory = directory
        self.host = host
        self.within = within
        self.port = free_port()
        self.application = application
        """What it is called by a primary that it follows."""

    @property
    def url(self) -> str:
        return url_of(self)

    def make(self) -> None:
        given = ("-D", str(self.directory), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        run(self.within, "initdb", *given)
        self._configure()

    def copy(self, primary: "Cluster") -> None:
        """Makes it a standby of a server that runs."""
        if self.directory.exists():
            shutil.rmtree(self.directory)
        where = f"host={primary.host} port={primary.port} user={USER} application_name={self.application}"
        given = ("-D", str(self.directory), "-d", where, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        run(self.within, "pg_basebackup", *given)
        self._configure()
        # It does not wait for whom the other one waits for.
        altered = self.directory / "postgresql.auto.conf"
        lines = altered.read_text(encoding="utf-8").splitlines(keepends=True)
        altered.write_text("".join(each for each in lines if "synchronous" not in each), encoding="utf-8")

    def _configure(self) -> None:
        lines = f"{SETTINGS}port = {self.port}\nlisten_addresses = '{self.host}'\n"
        (self.directory / "postgresql.conf").write_text(lines, encoding="utf-8")
        with (self.directory / "pg_hba.conf").open("a", encoding="utf-8") as rules:
            rules.write("host all all 10.77.0.0/16 trust\nhost replication all 10.77.0.0/16 trust\n")

    def start(self) -> None:
        log = self.directory / "server.log"
        run(self.within, "pg_ctl", "-D", str(self.directory), "-w", "-t", "60", "-l", str(log), "start")

    def promote(self) -> None:
        run(self.within, "pg_ctl", "-D", str(self.directory), "-w", "-t", "60", "promote")

    def wait_for(self, names: str) -> None:
        """Commits wait for the standbys of these names from now on; none: for nobody."""
        self.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.sql("SELECT pg_reload_conf()")

    def until_synchronous(self, name: str) -> None:
        """Returns when commits wait for this standby. To reload settings is only a signal to the server."""
        shown = "SELECT current_setting('synchronous_standby_names')"
        state = f"SELECT sync_state FROM pg_stat_replication WHERE application_name = '{name}'"
        give_up_s = time.monotonic() + REPLICATES_S
        while (self.sql(shown), self.sql(state)) != ([(name,)], [("sync",)]):
            assert time.monotonic() < give_up_s, f"{name} is no synchronous standby"
            time.sleep(0.05)

    def stop(self) -> None:
        """As `kill -9` of everything does, and of what is paused."""
        for number in self._processes():
            kill(number, signal.SIGKILL)
        (self.directory / "postmaster.pid").unlink(missing_ok=True)

    def pause(self) -> None:
        for number in self._processes():
            kill(number, signal.SIGSTOP)

    def resume(self) -> None:
        for number in self._processes():
            kill(number, signal.SIGCONT)

    def _processes(self) -> list[int]:
        """The server first, so that it starts none anew while the others are killed."""
        try:
            first = int((self.directory / "postmaster.pid").read_text().split()[0])
        except (OSError, ValueError):
            return []
        children = Path(f"/proc/{first}/task/{first}/children")
        return [first, *map(int, children.read_text().split())] if children.exists() else []

    def sql(self, text: str) -> list[tuple[object, ...]]:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text)
            return [] if cursor.description is None else list(cursor.fetchall())


def url_of(*clusters: Cluster) -> str:
    """For whoever takes the one of them that can be written to."""
    places = ",".join(f"{each.host}:{each.port}" for each in clusters)
    return f"postgresql://{USER}@{places}/{DATABASE}"


def kill(number: int, what: signal.Signals) -> None:
    try:
        os.kill(number, what)
    except ProcessLookupError:
        return


def run(within: Sequence[str], program: str, *arguments: str) -> None:
    where = programs()
    assert where is not None
    as_nobody = ("runuser", "-u", "nobody", "--") if os.getuid() == 0 else ()
    command = [*within, *as_nobody, str(where / program), *arguments]
    # Into a file: whoever starts a server hands it what it has open, and a pipe would never end.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=120, cwd="/")
        output.seek(0)
        assert done.returncode == 0, f"{program}: {output.read()}"


@contextmanager
def folder_of_clusters() -> Iterator[Path]:
    """A directory that the server's user may use; meanwhile nobody hears what PG* in the environment says."""
    folder = Path(tempfile.mkdtemp(prefix="roamcast-postgres-"))
    given = {key: os.environ.pop(key) for key in list(os.environ) if key.startswith("PG")}
    try:
        if os.getuid() == 0:
            os.chown(folder, pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)
        yield folder
    finally:
        os.environ.update(given)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """One server that runs."""
    with folder_of_clusters() as folder:
        made = Cluster(folder / "one")
        made.make()
        made.start()
        try:
            yield made
        finally:
            made.stop()
