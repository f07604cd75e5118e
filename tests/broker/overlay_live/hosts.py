"""Flood watch on three machines (O8; section 4.3, figures 15 to 17): what it takes to run it, and what is seen of it.

Brokers run on A and B, PreSend beside the broker on A, the client on C; each is a process in the namespace of its
machine. Who hears whom is a matter of where the machines stand, as in `papers/overlay_hosts.py`, the simulation.
Kernels forward packets, by routes that a routing protocol on the machines finds. The path of an event is read off the
air: the frames in which its id stands, from card to card.
"""

import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from roamcast.model.values import Point
from roamcast.papers.overlay_hosts import NETWORKS, ThreeHosts
from tests.networks.namespaces import Machines
from tests.networks.radio import TapRadio

MACHINES = ("A", "B", "C")
RANGE_M = 250.0
PATIENCE_S = 120.0
"""A busy machine takes its time to start a process."""
LINK_PORT = 27_300
EVENT = re.compile(rb"P:e\d+\.\d+")
CHECKOUT = Path(__file__).parents[3]
TIMES = {"kind": "overlay", "brokers": ["A", "B"], "update_period_s": 2.0, "discovery_period_s": 1.0}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "overlay": TIMES,
    "static": {**TIMES, "topology": "given", "home": "given"},
}


class NotInTime(Exception):
    """Nothing was said for too long."""


class Paths:
    """What a listener on the air sees of events."""

    def __init__(self) -> None:
        self.hops: dict[str, list[tuple[str, str]]] = {}
        self._cards: dict[bytes, str] = {}

    def tap(self, sender: str, receiver: str, frame: bytes) -> None:
        self._cards[frame[6:12]] = sender
        if self._cards.get(frame[:6]) != receiver:
            return
        for found in EVENT.findall(frame):
            hops = self.hops.setdefault(found.decode(), [])
            # A frame that is sent again says nothing new.
            if (sender, receiver) not in hops:
                hops.append((sender, receiver))

    def way(self, event_id: str) -> str:
        """The machines one after the other; what does not hang together is shown as it is."""
        hops = self.hops.get(event_id, [])
        joined = all(before[1] == after[0] for before, after in pairwise(hops))
        if not hops or not joined:
            return ", ".join(f"{one}→{other}" for one, other in hops)
        return "→".join([hops[0][0], *(other for _, other in hops)])


class Program:
    """One of the processes: what it is told, and what it says."""

    def __init__(self, namespace: str, part: dict[str, Any]) -> None:
        self.name = str(part["name"])
        command = ["ip", "netns", "exec", namespace, sys.executable, "-m", "tests.broker.overlay_live.watcher"]
        self.process = subprocess.Popen(
            [*command, msgspec.json.encode(part).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": f"{CHECKOUT / 'src'}"},
        )
        self._said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said.put(msgspec.json.decode(line))
        self._said.put(None)

    def tell(self, **command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(command) + b"\n")
        self.process.stdin.flush()

    def hear(self, key: str, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """The next that it says of this; anything else is passed over."""
        while True:
            try:
                said = self._said.get(timeout=patience_s)
            except queue.Empty:
                raise NotInTime(f"{self.name} has not said '{key}' for {patience_s} s") from None
            if said is None:
                raise NotInTime(f"{self.name} has ended before '{key}'")
            if key in said:
                return said

    def ask(self, key: str) -> Any:
        self.tell(**{key: None})
        return self.hear(key)[key]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class FloodWatch:
    def __init__(self, approach: str, side: int, *, bits_per_s: float = float("inf")) -> None:
        self.network = 0
        self.side = side
        self.paths = Paths()
        self.programs: dict[str, Program] = {}
        self.machines = Machines(list(MACHINES))
        self.protocol = PROTOCOLS[approach]
        self.bits_per_s = bits_per_s
        self.hour = 0
        self.deepest: list[int] = []
        """What the client was told of each hour."""

    def __enter__(self) -> Self:
        self.machines.__enter__()
        self.radio = TapRadio(
            self.machines.cards, self._where, RANGE_M, bits_per_s=self.bits_per_s, tap=self.paths.tap
        )
        self.radio.__enter__()
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for program in self.programs.values():
            program.stop()
        self.radio.__exit__(kind, error, at)
        self.machines.__exit__(kind, error, at)

    def _where(self, machine: str, _now_us: int) -> Point:
        x, y = ThreeHosts.PLACES[machine][self.network]
        return Point(float(x), float(y))

    def _start(self) -> None:
        places = {name: f"10.77.0.{number}" for number, name in enumerate(MACHINES, 2)}
        addresses = {name: (place, LINK_PORT) for name, place in places.items()}
        addresses["P"] = (places["A"], LINK_PORT + 1)
        for name in ("A", "B", "C", "P"):
            interfaces = {"A": ("air0", "lo"), "P": ("lo",)}.get(name, ("air0",))
            part = {
                "name": name,
                "addresses": addresses,
                "protocol": self.protocol,
                "interfaces": interfaces,
                "routes": name != "P",
                "side": self.side,
            }
            namespace = self.machines.namespaces["A" if name == "P" else name]
            self.programs[name] = Program(namespace, part)
        for program in self.programs.values():
            program.hear("ready")

    # What is done with it.

    def begin(self, rows: int) -> None:
        """The client asks for this many rows of the land, and the broker on A knows it."""
        self.until_home("P", "A")
        self.until_home("C", "B")
        self.programs["C"].tell(rows=rows)
        self._until(lambda: self.programs["A"].ask("state")["places"] == {"C": "B"}, "A does not know what C wants")

    def until_home(self, client: str, home: str) -> None:
        self._until(lambda: self.programs[client].ask("state")["home"] == home, f"{client} is not at home at {home}")

    def until_routed(self) -> None:
        """The routing has found what network there is now."""
        name = NETWORKS[self.network]
        wanted = {
            one: {other: 1 if f"{one}-{other}" in name or f"{other}-{one}" in name else 2 for other in MACHINES}
            for one in MACHINES
        }

        def is_found(machine: str) -> bool:
            hops = self.programs[machine].ask("state")["hops"]
            return all(hops[other] == wanted[machine][other] for other in MACHINES if other != machine)

        self._until(lambda: all(map(is_found, MACHINES)), f"the routing does not find {name}")

    def _until(self, holds: Callable[[], bool], otherwise: str) -> None:
        pause = threading.Event()
        for _ in range(round(PATIENCE_S / 0.1)):
            if holds():
                return
            pause.wait(0.1)
        raise NotInTime(otherwise)

    def rain(self) -> tuple[str, dict[str, Any]]:
        """One event: its way, and what the client says of it."""
        self.hour += 1
        self.programs["P"].tell(rain=self.hour)
        event_id = self.programs["P"].hear("raised")["raised"]
        said: dict[str, Any] = {}
        while said.get("got") != event_id:
            said = self.programs["C"].hear("got")
        self.deepest.append(said["deepest"])
        return self.paths.way(event_id), said

    def storm(self, events: int, every_s: float) -> list[float]:
        """Events one after the other, whether those before have arrived or not; how long each took, in ms."""
        pause = threading.Event()
        raised: list[str] = []
        for _ in range(events):
            self.hour += 1
            self.programs["P"].tell(rain=self.hour)
            raised.append(self.programs["P"].hear("raised")["raised"])
            pause.wait(every_s)
        got = [self.programs["C"].hear("got") for _ in raised]
        assert [each["got"] for each in got] == raised, "all of them, in order"
        return [each["latency_us"] / 1e3 for each in got]

    def settle(self, network: int, wanted: str) -> int:
        """Another network; how many events there were until one took the wanted way, after the routing had it."""
        self.network = network
        self.until_routed()
        pause = threading.Event()
        for tried in range(round(PATIENCE_S / 0.25)):
            if self.rain()[0] == wanted:
                return tried
            pause.wait(0.25)
        raise NotInTime(f"{NETWORKS[network]}: no event goes {wanted}, but {self.rain()[0]}")

    def modulator_at(self) -> str:
        """At which broker it is."""
        found = [name for name in ("A", "B") if self.programs[name].ask("state")["posts"]]
        return " and ".join(found)
