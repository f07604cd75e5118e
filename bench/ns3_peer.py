"""The same worlds in ns-3 and here: simulated seconds for each second of CPU, and what arrives of the frames.

ns-3 runs `ns3/adhoc.cc`, compiled against what `pip install ns3` brings; here the real nodes run. Hosts, density,
movement, radio, size and number of messages are the same. Flooding is the same protocol on both sides. Geocast is the
context protocol's here, with its tables and checks, and in C++ only its rules for who passes an event on and when.

Besides speed both tell how much they did and what came of it: frames a second, the share of those in range of a
sender that heard its frame, and the share of hosts that an event was for and that heard it.
"""

import importlib.util
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import progress
from roamcast.adhoc.context.messages import EventMessage
from roamcast.adhoc.flooding import Flooded
from roamcast.model.region import Box
from roamcast.node.boundary import Message
from roamcast.papers.assemble import kit_of
from roamcast.sim.radio import Frame, SharedMedium
from roamcast.sim.run import Run
from roamcast.sim.scenario import Scenario

SOURCE = Path(__file__).parent / "ns3" / "adhoc.cc"
PARTS = ("core", "network", "mobility", "wifi", "propagation")
WARM_UP_S = 10
"""Publishers begin within the first ten seconds."""
SECONDS = {100: (60, 60), 400: (8, 20), 1_000: (3, 10)}
"""For how many hosts, and how long after the warm-up: in ns-3, which is slow, and here."""


def why_not() -> str:
    """Why ns-3 cannot be run here; empty if it can."""
    if importlib.util.find_spec("ns3") is None:
        return "not installed: pip install ns3"
    return "" if shutil.which("g++") else "there is no g++ to compile its scenario with: apt-get install g++"


def compiled(directory: Path) -> Path:
    spec = importlib.util.find_spec("ns3")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    home = Path(next(iter(spec.submodule_search_locations)))
    libraries = home / "lib64"
    version = next(libraries.glob("libns3*-core.so")).name.removeprefix("lib").removesuffix("-core.so")
    program = directory / "adhoc"
    command = ["g++", "-std=c++23", "-O2", f"-I{home / 'include'}", str(SOURCE), "-o", str(program)]
    command += [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-Wl,--allow-shlib-undefined"]
    subprocess.run([*command, *(f"-l{version}-{part}" for part in PARTS)], check=True)
    return program


class Counts:
    """What both sides count. Frames and receptions are of the measured time, events of all of it."""

    def __init__(self, seconds: float, counted: dict[str, float]) -> None:
        self.simulated_per_cpu_s = seconds / counted["cpu_s"]
        self.frames_per_s = counted["frames"] / seconds
        self.heard = counted["received"] / counted["in_range"]
        self.reached = counted["reached"] / counted["wanted"]


def theirs(program: Path, hosts: int, publishers: int, *, flood: bool, seconds: int) -> Counts:
    given = {
        "hosts": hosts,
        "side": side_m(hosts),
        "seconds": seconds,
        "warmup": WARM_UP_S,
        "publishers": publishers,
        "flood": int(flood),
    }
    arguments = [f"--{name}={value}" for name, value in given.items()]
    answer = subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout
    return Counts(seconds, json.loads(answer))


def side_m(hosts: int) -> float:
    return 1_000 * math.sqrt(hosts / 100)


class Witness:
    """Stands between the radio and the hosts and counts who hears what."""

    def __init__(self, run: Run) -> None:
        radio = run.world.radio
        assert isinstance(radio, SharedMedium)
        self.whereabouts = run.world.whereabouts
        self.frames = self.in_range = self.received = 0
        self.wanted: dict[str, set[int]] = {}
        self.reached: dict[str, set[int]] = {}
        self._pass_on = radio.heard
        radio.heard = self.heard

    def heard(self, frame: Frame, hearers: list[int]) -> None:
        self.frames += 1
        self.in_range += len(frame.hearers)
        self.received += len(hearers)
        name = event_of(frame.said.message)
        if name is not None:
            if name not in self.wanted:
                self.wanted[name] = self._audience(frame)
                self.reached[name] = {frame.sender}
            self.reached[name].update(hearers)
        self._pass_on(frame, hearers)

    def _audience(self, frame: Frame) -> set[int]:
        message = frame.said.message
        if not isinstance(message, EventMessage):
            return set(range(len(self.whereabouts.tracks))) - {frame.sender}
        target = message.route.target
        assert isinstance(target, Box)
        return set(self.whereabouts.within(target, frame.start_us)) - {frame.sender}

    def counted(self, cpu_s: float, before: tuple[int, int, int]) -> dict[str, float]:
        return {
            "cpu_s": cpu_s,
            "frames": self.frames - before[0],
            "in_range": self.in_range - before[1],
            "received": self.received - before[2],
            "wanted": sum(len(hosts) for hosts in self.wanted.values()),
            "reached": sum(len(hosts & self.reached[name]) for name, hosts in self.wanted.items()),
        }


def event_of(message: Message) -> str | None:
    return message.event_id if isinstance(message, Flooded | EventMessage) else None


def ours(scenario: Scenario) -> Counts:
    """Of a scenario that ends so many seconds after the warm-up."""
    run = Run(scenario, kit_of(scenario.protocol, scenario.radio), seed=1)
    witness = Witness(run)
    steps = run.steps()
    for _ in range(WARM_UP_S):
        next(steps)
    before, started = (witness.frames, witness.in_range, witness.received), time.process_time()
    for _ in steps:
        pass
    cpu_s = time.process_time() - started
    return Counts(scenario.seconds - WARM_UP_S, witness.counted(cpu_s, before))


def compared(name: str, hosts: int, here: Counts, there: Counts) -> dict[str, float]:
    ratio = here.simulated_per_cpu_s / there.simulated_per_cpu_s
    print(f"{name:8} {hosts:5} hosts: {ratio:6.1f} times as fast as ns-3")
    for who, counts in (("here", here), ("ns-3", there)):
        print(
            f"    {who}: {counts.simulated_per_cpu_s:7.2f} simulated s per CPU s, {counts.frames_per_s:7.1f} frames "
            f"a second, heard by {counts.heard:.3f} of those in range, events by {counts.reached:.3f} of their hosts"
        )
    sys.stdout.flush()
    figures = {f"ns3.{name}.{hosts}.ratio": ratio}
    for who, counts in (("here", here), ("ns3", there)):
        figures |= {f"ns3.{name}.{hosts}.{who}.{key}": value for key, value in vars(counts).items()}
    return figures


def compare(worlds: dict[str, dict[int, Scenario]]) -> dict[str, float]:
    """Each world, by its protocol and number of hosts, on both sides; nothing where there is no ns-3."""
    reason = why_not()
    if reason:
        progress.skipped("ns-3", reason)
        return {}
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        program = compiled(Path(directory))
        for name, by_hosts in worlds.items():
            for hosts, scenario in by_hosts.items():
                publishers = round(scenario.publish[0].share * hosts)
                there = theirs(program, hosts, publishers, flood=name == "flooding", seconds=SECONDS[hosts][0])
                figures |= compared(name, hosts, ours(scenario), there)
                progress.note(figures)
    return figures
