"""Which files of the package one delivery passes, from socket to socket, in the product's configuration.

Two linked brokers with a journal run in one process. A client at the first publishes with QoS 1, and a moving client
at the second, whose session is kept, gets it and acknowledges it. Every call of a function of the package and every
line that is executed on the way is counted; what happens at only some of the publications, as timers do, is left out.

`python -m bench.product_path` prints the files, with calls and lines, on the event loop and on other threads.
"""

import asyncio
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import uvloop

import roamcast
from bench.product_load import Client, Way
from roamcast.server.running import RunningBroker
from roamcast.server.settings import LinkSettings, Listener, Peer, Settings

PACKAGE = str(Path(roamcast.__file__).parent) + "/"
WARM_UP = 30
TRIALS = 7
QUIET_S = 0.7
"""After a delivery: acknowledgements wait for others to be stored with, for half a second."""
SPOT = (100.0, 100.0)


class Tracer:
    """What was executed, by thread and file."""

    def __init__(self) -> None:
        self.on = False
        self.calls: Counter[tuple[str, str]] = Counter()
        self.lines: dict[tuple[str, str], set[int]] = {}

    def begin(self) -> None:
        self.calls, self.lines, self.on = Counter(), {}, True

    def called(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        file = frame.f_code.co_filename
        if not self.on or event != "call" or not file.startswith(PACKAGE):
            return None
        where = "loop" if threading.current_thread() is threading.main_thread() else "other threads"
        key = where, file.removeprefix(PACKAGE)
        self.calls[key] += 1
        lines = self.lines.setdefault(key, set())

        def executed(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return executed

        return executed


class Passed:
    """What every trial had in common: the fewest calls, and the lines of all."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] | None = None
        self.lines: dict[tuple[str, str], set[int]] = {}

    def add(self, tracer: Tracer) -> None:
        if self.calls is None:
            self.calls, self.lines = tracer.calls, tracer.lines
        else:
            self.calls &= tracer.calls
            self.lines = {key: self.lines[key] & tracer.lines[key] for key in self.calls}

    def told(self) -> None:
        calls = self.calls or Counter()
        for where in ("loop", "other threads"):
            keys = sorted(key for key in calls if key[0] == where)
            for key in keys:
                print(f"{calls[key]:6}{len(self.lines[key]):7}  {key[1]}")
            count, lines = sum(calls[key] for key in keys), sum(len(self.lines[key]) for key in keys)
            print(f"{count:6}{lines:7}  in {len(keys)} files, {where}: calls, and different lines\n")


def settings(folder: Path, name: str, peers: tuple[Peer, ...] = ()) -> Settings:
    return Settings(
        name,
        str(folder / name),
        "plane",
        listeners=(Listener(port=0),),
        links=LinkSettings(host="127.0.0.1", port=0, peers=peers),
        journal=str(folder / f"journal-{name}"),
        log_level="error",
    )


def publish_all(ports: list[int], ready: Callable[[], bool], tracer: Tracer, passed: Passed) -> None:
    """On a thread of its own: the clients. Until the matching engine is loaded the definition decides."""
    way = Way(300.0, qos=1, kept=True)
    source, reader = Client("source", ports[0], way), Client("reader", ports[1], way)
    reader.subscribe(SPOT)
    while not ready():
        time.sleep(0.1)
    arrived: list[int] = []
    for number in range(WARM_UP + TRIALS):
        if number >= WARM_UP:
            time.sleep(QUIET_S)
            tracer.begin()
        source.publish(number, SPOT)
        while not arrived or arrived[-1] != number:
            reader.read(lambda _, each: arrived.append(each))
        source.socket.recv(1_024)
        if number >= WARM_UP:
            time.sleep(QUIET_S)
            tracer.on = False
            passed.add(tracer)


async def run(folder: Path) -> None:
    tracer, passed = Tracer(), Passed()
    threading.settrace(tracer.called)
    first = RunningBroker(settings(folder, "b0"))
    await first.start()
    port = next(each.port for each in first.addresses if each.what == "links")
    second = RunningBroker(settings(folder, "b1", (Peer("b0", "127.0.0.1", port),)))
    await second.start()
    threading.settrace(None)
    ports = [next(each.port for each in broker.addresses if each.what != "links") for broker in (first, second)]
    sys.settrace(tracer.called)
    await asyncio.sleep(0.5)
    audience = second.server.core.border.audience
    await asyncio.to_thread(publish_all, ports, lambda: audience.ready, tracer, passed)
    sys.settrace(None)
    await second.stop()
    await first.stop()
    passed.told()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(run(Path(folder)))


if __name__ == "__main__":
    main()
