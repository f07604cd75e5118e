"""Brokers for benchmarks: each is started as its own process, and asked how much CPU time it has had.

Those of `bench.fanout` have users, passwords and rules. What is not installed is skipped and says how to get it.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from msgspec import Struct

from bench.children import tied
from roamcast.server.security.passwords import set_password

USER, PASSWORD = "bench", "a-password-of-the-bench"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
START_S_MAX = 60.0
PATHS = (str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")]))
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)}
"""What is started in a folder of its own finds this one, and the roamcast that this process uses."""

OURS = """
name = "{name}"
data = "data-{name}"
log_level = "error"
listeners = [{{ port = {port}, host = "127.0.0.1" }}]
{more}
[security]
passwords = "passwords"
[[security.rules]]
users = ["bench"]
publish = ["bench/#"]
subscribe = ["bench/#"]
[security.limits]
connects_per_s = 0
messages_per_s = 1e9
bytes_per_s = 1e12
"""
MOSQUITTO = """
listener {port} 127.0.0.1
allow_anonymous false
password_file {folder}/passwords
acl_file {folder}/rules
max_queued_messages 100000
max_inflight_messages 1024
persistence false
log_dest none
user root
"""
NATS = """
listen: 127.0.0.1:{other}
server_name: bench
authorization {{ user: {user}, password: {password} }}
jetstream {{ store_dir: "{folder}/jetstream" }}
mqtt {{ listen: 127.0.0.1:{port} }}
"""
NATS_CORE = """
listen: 127.0.0.1:{port}
authorization {{ user: {user}, password: {password} }}
"""
AMQTT = """
listeners:
  default:
    type: tcp
    bind: 127.0.0.1:{port}
plugins:
  amqtt.plugins.authentication.AnonymousAuthPlugin:
    allow_anonymous: true
"""


class Peer(Struct, frozen=True):
    name: str
    lacks: Callable[[], str | None]
    """Why it cannot be measured here."""
    prepare: Callable[[Path, list[int]], list[list[str]]]
    """Writes what it needs into a folder, and answers with the commands that start its brokers on these ports."""
    brokers: int = 1
    """Linked ones: who publishes is at the first, who subscribes at the last."""
    qos_max: int = 1
    nats: bool = False
    load: str = "bench.fanout_load"
    """Whose clients speak to it."""


def program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


def needs(name: str, how: str) -> Callable[[], str | None]:
    return lambda: None if program(name) else f"not installed: {how}"


def single(prepare: Callable[[Path, int], list[str]]) -> Callable[[Path, list[int]], list[list[str]]]:
    return lambda folder, ports: [prepare(folder, ports[0])]


def our_command(config: Path) -> list[str]:
    return [sys.executable, "-c", "from roamcast.cli.main import main; main()", "broker", "--config", str(config)]


def chained(count: int) -> list[str]:
    """The settings of `links` for so many of our brokers, in a chain: b0, b1 and so on."""
    ports = [free_port() for _ in range(count)]
    links = []
    for number in range(count):
        near = [each for each in (number - 1, number + 1) if 0 <= each < count]
        peers = ", ".join(f'{{ name = "b{each}", host = "127.0.0.1", port = {ports[each]} }}' for each in near)
        links.append(f"[links]\nport = {ports[number]}\npeers = [{peers}]" if near else "")
    return links


def ours(more: str = "") -> Callable[[Path, list[int]], list[list[str]]]:
    def prepare(folder: Path, ports: list[int]) -> list[list[str]]:
        set_password(folder / "passwords", USER, PASSWORD)
        commands = []
        for number, (port, links) in enumerate(zip(ports, chained(len(ports)), strict=True)):
            config = folder / f"b{number}.toml"
            config.write_text(OURS.format(name=f"b{number}", port=port, more=f"{more}\n{links}"), encoding="utf-8")
            commands.append(our_command(config))
        return commands

    return prepare


def mosquitto(folder: Path, port: int) -> list[str]:
    (folder / "passwords").touch(0o600)
    subprocess.run(["mosquitto_passwd", "-b", str(folder / "passwords"), USER, PASSWORD], check=True)
    (folder / "rules").write_text(f"user {USER}\ntopic readwrite bench/#\n", encoding="utf-8")
    config = folder / "mosquitto.conf"
    config.write_text(MOSQUITTO.format(port=port, folder=folder), encoding="utf-8")
    return [program("mosquitto") or "mosquitto", "-c", str(config)]


def nats(text: str) -> Callable[[Path, int], list[str]]:
    def prepare(folder: Path, port: int) -> list[str]:
        config = folder / "nats.conf"
        config.write_text(
            text.format(port=port, other=free_port(), folder=folder, user=USER, password=PASSWORD), encoding="utf-8"
        )
        return [program("nats-server") or "nats-server", "-c", str(config)]

    return prepare


def amqtt(folder: Path, port: int) -> list[str]:
    config = folder / "amqtt.yaml"
    config.write_text(AMQTT.format(port=port), encoding="utf-8")
    return [program("amqtt") or "amqtt", "-c", str(config)]


def zenoh(folder: Path, port: int) -> list[str]:
    (folder / "users").write_text(f"{USER}:{PASSWORD}\n", encoding="utf-8")
    return [sys.executable, "-m", "bench.fanout_zenoh", "router", str(port), str(folder)]


def no_zenoh() -> str | None:
    return None if find_spec("zenoh") else "not installed: pip install eclipse-zenoh"


PEERS = (
    Peer("ours", lambda: None, ours()),
    Peer("ours_journal", lambda: None, ours('journal = "journal"')),
    Peer("ours_linked", lambda: None, ours(), brokers=2),
    Peer("mosquitto", needs("mosquitto", "apt-get install mosquitto"), single(mosquitto)),
    Peer("nats", needs("nats-server", "apt-get install nats-server"), single(nats(NATS_CORE)), qos_max=0, nats=True),
    Peer("nats_mqtt", needs("nats-server", "apt-get install nats-server"), single(nats(NATS))),
    Peer("zenoh", no_zenoh, single(zenoh), qos_max=0, load="bench.fanout_zenoh"),
    Peer("amqtt", needs("amqtt", "pip install amqtt, where nothing else is"), single(amqtt)),
)


def free_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])


class Running:
    """The brokers of a peer, for as long as they are used."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.ports = [free_port() for _ in range(peer.brokers)]
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Running":
        self.folder = tempfile.TemporaryDirectory()
        quiet = subprocess.DEVNULL
        try:
            for command in self.peer.prepare(Path(self.folder.name), self.ports):
                broker = subprocess.Popen(
                    command, cwd=self.folder.name, env=ENVIRONMENT, stdout=quiet, stderr=quiet, preexec_fn=tied
                )
                self.processes.append(broker)
            for port in self.ports:
                self._wait(port)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _wait(self, port: int) -> None:
        until = time.monotonic() + START_S_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
                return
            except OSError:
                if time.monotonic() > until or any(each.poll() is not None for each in self.processes):
                    raise
                time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self.processes:
            each.kill()
            each.wait(10)
        self.folder.cleanup()

    def cpu_s(self) -> float:
        """Of all brokers and their threads, and of their children that have ended."""
        return sum(process_cpu_s(each.pid) for each in self.processes)


def process_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(each) for each in fields[11:15]) / TICKS_PER_S
