"""Redis as a peer: geo sets in a server of our own on a socket file, and the CPU time that it takes.

The client writes a pipeline of commands with a PING behind them and reads until the answer to that; what that costs
is the client's affair, only the CPU time of the server counts. Plane metres become degrees near the equator.
"""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.children import tied

DEGREE_M = 111_000.0
PONG = b"+PONG\r\n"


def redis_server() -> str | None:
    return shutil.which("redis-server")


def encoded(*words: str) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)


def add(subject: str, name: str, x: float, y: float) -> bytes:
    return encoded("GEOADD", subject, f"{x / DEGREE_M:.9f}", f"{y / DEGREE_M:.9f}", name)


def search(subject: str, x: float, y: float, radius_m: float) -> bytes:
    longitude, latitude = f"{x / DEGREE_M:.9f}", f"{y / DEGREE_M:.9f}"
    return encoded("GEOSEARCH", subject, "FROMLONLAT", longitude, latitude, "BYRADIUS", f"{radius_m:.3f}", "m")


class Redis:
    """A server for as long as it is used."""

    family: socket.AddressFamily = socket.AF_UNIX

    def __init__(self, program: str) -> None:
        self.program = program

    def arguments(self, directory: Path) -> tuple[list[str], Any]:
        """And where it listens."""
        path = str(directory / "redis.sock")
        keeps = ["--save", "", "--appendonly", "no", "--dir", str(directory)]
        return ["--port", "0", "--unixsocket", path, *keeps], path

    def __enter__(self) -> Self:
        self.directory = tempfile.TemporaryDirectory()
        arguments, address = self.arguments(Path(self.directory.name))
        self.process = subprocess.Popen(
            [self.program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=tied
        )
        self.socket = socket.socket(self.family)
        try:
            self._connect(address)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _connect(self, address: Any) -> None:
        until = time.monotonic() + 10
        while True:
            try:
                self.socket.connect(address)
                return
            except OSError:
                self.socket.close()
                self.socket = socket.socket(self.family)
                if time.monotonic() > until or self.process.poll() is not None:
                    raise
                time.sleep(0.02)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.directory.cleanup()

    def ask(self, commands: Iterable[bytes]) -> int:
        """Has them done, and says how many bytes came back."""
        self.socket.sendall(b"".join(commands) + encoded("PING"))
        received, end = 0, b""
        while not end.endswith(PONG):
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionError("Redis closed the connection")
            received += len(data)
            end = (end + data)[-len(PONG) :]
        return received

    def cpu_s(self) -> float:
        """Of all its threads, to the nanosecond: `stat` counts in hundredths of a second."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9
