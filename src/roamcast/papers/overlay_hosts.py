"""Flood watch on three hosts, in simulation (O8, section 4.3, figures 15 to 17).

Brokers run on A and B, the client on C, and the producer P is beside A and reaches nobody else. The network is A-B-C,
then A-B-C-A, A-C-B and B-A-C. What is compared is the path of section 4.3 in each of them, and what an event costs on
it: the bytes that A and B send, every hop counted. The paper has latencies instead, of its laptops; each follows from
how much goes over how many hops, and that is what we can compare.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar

from roamcast.broker.modulators.spec import Declarative, spec_to_text
from roamcast.broker.overlay.broker import OverlayBroker
from roamcast.broker.overlay.client import OverlayClient
from roamcast.broker.overlay.messages import MESSAGES
from roamcast.broker.overlay.modelled import ModelledBroker
from roamcast.broker.overlay.params import OverlayParams
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point, Value
from roamcast.movement.legs import Leg, Track, moving, resting, resting_forever
from roamcast.node.boundary import Node, Publish, Subscribe
from roamcast.node.codec import Codec
from roamcast.node.kit import Seat
from roamcast.node.observer import Observer
from roamcast.papers.experiment import Claim, Experiment, Figures, Findings, Parameters, Plot, Verdict
from roamcast.sim.hosts import Resident
from roamcast.sim.radio import UnitDiskParams
from roamcast.sim.underlay import UnderlayParams
from roamcast.sim.world import World

STAGE_S = 40.0
SETTLED_S = 20.0
"""In each stage; then events count."""
NETWORKS = ("A-B-C", "A-B-C-A", "A-C-B", "B-A-C")
OVERLAY = OverlayParams(update_period_s=2, discovery_period_s=1)
STATIC = OverlayParams(topology="given", home="given", discovery_period_s=1)
ROWS = 10
"""The area in ten parts, an event for each: a client interested in a tenth of it wants one."""
DEPTHS = "0.000 " * 100


class Sent(Observer):
    """The bytes of events that brokers send, over all hops."""

    bytes = 0

    def transmitted(
        self, now_us: int, host: str, message_type: str, size_bytes: int, to: str | None, event_id: str | None
    ) -> None:
        if event_id is not None and host in ("A", "B"):
            self.bytes += size_bytes


class ThreeHosts:
    PLACES: ClassVar[dict[str, list[tuple[int, int]]]] = {
        "A": [(0, 0), (0, 0), (0, 0), (0, 0)],
        "B": [(200, 0), (200, 0), (400, 0), (200, 0)],
        "C": [(400, 0), (100, 150), (200, 0), (20, -240)],
        "P": [(-120, 0), (-120, 0), (-120, 0), (-120, 0)],
    }

    def __init__(self, overlay: OverlayParams, modulator: str = "") -> None:
        self.overlay = overlay
        self.modulator = modulator
        self.brokers: dict[str, OverlayBroker] = {}
        self.clients: dict[str, OverlayClient] = {}
        self.sent = Sent()
        self.published = 0
        self.world = World(
            [Resident(name, Track(self._legs(name)), self._node) for name in self.PLACES],
            Codec(MESSAGES),
            1,
            radio=UnitDiskParams(250),
            observers=(self.sent,),
            underlay=UnderlayParams(),
        )

    def _legs(self, name: str) -> list[Leg]:
        points = [Point(*map(float, place)) for place in self.PLACES[name]]
        legs, now_us = [], 0
        for number, point in enumerate(points):
            if number and point != points[number - 1]:
                legs.append(moving(now_us, points[number - 1], point, 400))
                now_us = legs[-1].end_us
            end_us = round((number + 1) * STAGE_S * 1e6)
            legs.append(resting(now_us, point, end_us - now_us))
            now_us = end_us
        return [*legs, resting_forever(now_us, points[-1])]

    def _node(self, seat: Seat) -> Node:
        if seat.host in "AB":
            self.brokers[seat.host] = ModelledBroker(seat.host, self.overlay, seat.rng)
            return self.brokers[seat.host]
        self.clients[seat.host] = OverlayClient(seat.host, self.overlay, seat.rng)
        return self.clients[seat.host]

    def until(self, seconds: float) -> None:
        for _ in self.world.run(round(seconds * 1e6)):
            pass

    def path(self) -> list[str]:
        """From broker A to the client: over brokers as they see it."""
        entry = self.brokers["A"].brokers.directory.entries["C/s"]
        path = self.brokers["A"].brokers.topology.path(entry.place)
        assert path is not None
        return [*path, "C"]

    def hops(self, path: list[str]) -> int:
        underlay, by_name = self.world.underlay, self.world.by_name
        assert underlay is not None
        return sum(underlay.hops(by_name[one].index, by_name[other].index) or 0 for one, other in pairwise(path))

    def way(self) -> str:
        """The hosts that an event passes from broker A to the client, those between brokers among them."""
        way = [self.path()[0]]
        for one, other in pairwise(self.path()):
            if self.hops([one, other]) == 2:
                (between,) = {"A", "B", "C"} - {one, other}
                way.append(between)
            way.append(other)
        return "→".join(way)

    def begin(self) -> None:
        self.until(8)
        now_us = self.world.kernel.now_us
        wanted = Subscription("C/s", "C", "x", now_us, FOREVER_US, modulator=self.modulator)
        self.world.give("C", Subscribe(wanted))
        self.publish(0)

    def publish(self, row: int) -> None:
        now_us = self.world.kernel.now_us
        self.published += 1
        content: dict[str, Value] = {"row": row, "depths": DEPTHS}
        event = Event(f"P:{self.published}", "x", Context("P"), now_us, FOREVER_US, content)
        self.world.give("P", Publish(event))

    def stages(self) -> list[str]:
        """The way at the end of each stage."""
        self.begin()
        ways = []
        for stage in range(1, len(NETWORKS) + 1):
            self.until(stage * STAGE_S - 1)
            ways.append(self.way())
        return ways

    def kilobytes(self) -> list[float]:
        """In each stage, what brokers send for one event for the whole area: one for each of its parts."""
        self.begin()
        spent = []
        for stage in range(len(NETWORKS)):
            self.until(stage * STAGE_S + SETTLED_S)
            before = self.sent.bytes
            for row in range(ROWS):
                self.publish(row)
                self.until(stage * STAGE_S + SETTLED_S + row + 1)
            self.until((stage + 1) * STAGE_S - 1)
            spent.append((self.sent.bytes - before) / 1_000)
        return spent


A_TENTH = spec_to_text(Declarative(filter=parse_text("row = 0")))
APPROACHES = {"overlay": OVERLAY, "static": STATIC}
WAYS = {
    "overlay": ("A→B→C", "A→C", "A→C", "A→C"),
    "static": ("A→B→C", "A→B→C", "A→C→B→C", "A→B→A→C"),
}
"""What section 4.3 says."""


def three_hosts(parameters: Parameters, _seed: int) -> Figures:
    """Everything here is given, so that every run comes to the same: one is enough."""
    params = APPROACHES[parameters["approach"]]
    ways = ThreeHosts(params).stages()
    kilobytes = ThreeHosts(params, A_TENTH if parameters["data"] == "10 %" else "").kilobytes()
    figures: Figures = {}
    for number, network in enumerate(NETWORKS):
        figures[f"hops {network}"] = ways[number].count("→")
        figures[f"agrees {network}"] = float(ways[number] == WAYS[parameters["approach"]][number])
        figures[f"kB@{number + 1}"] = kilobytes[number]
    return figures


def ways_claim(approach: str) -> Claim:
    def judge(findings: Findings) -> Verdict:
        here = findings.where(approach=approach)
        hops = [here.mean(f"hops {network}") for network in NETWORKS]
        agree = [here.mean(f"agrees {network}") for network in NETWORKS]
        shown = ", ".join(f"{each:g}" for each in hops)
        return Verdict(f"{agree.count(1.0)} of 4 paths, {shown} hops", agree == [1.0] * 4)

    return Claim(f"paths in the four networks, {approach}", f"as published: {', '.join(WAYS[approach])}", judge)


def kilobytes(findings: Findings, approach: str, data: str) -> list[float]:
    return [value for _, value in findings.where(approach=approach, data=data).along("kB")]


def shape_claim(what: str, paper: str, holds: Callable[[list[float], list[float]], bool], data: str) -> Claim:
    """Of what overlay and static send in the four networks."""

    def judge(findings: Findings) -> Verdict:
        ours, theirs = (kilobytes(findings, approach, data) for approach in ("overlay", "static"))
        shown = ", ".join(f"{one:.1f} / {other:.1f}" for one, other in zip(ours, theirs, strict=True))
        return Verdict(shown or "no data", len(ours) == len(theirs) == 4 and holds(ours, theirs))

    return Claim(what, paper, judge)


def gains_after_the_first(ours: list[float], theirs: list[float]) -> bool:
    alike = abs(ours[0] - theirs[0]) <= 0.05 * theirs[0]
    return alike and all(one < other for one, other in zip(ours[1:], theirs[1:], strict=True))


HOSTS = Experiment(
    name="overlay-hosts",
    requirement="O8",
    title="Flood watch on three hosts",
    section="4.3, figures 15 to 17",
    about="In simulation. The paper's latencies are those of its laptops and cannot be compared; what can is the "
    "path in each network, and how much goes over it: kB sent by brokers over all hops for ten events, one for each "
    "tenth of the area. Networks 1 to 4 are A-B-C, A-B-C-A, A-C-B and B-A-C.",
    measure=three_hosts,
    settings={
        preset: tuple({"approach": approach, "data": data} for approach in APPROACHES for data in ("100 %", "10 %"))
        for preset in ("quick", "full")
    },
    runs={"quick": 1, "full": 1},
    claims=(
        ways_claim("overlay"),
        ways_claim("static"),
        shape_claim(
            "kB, overlay / static, all data",
            "our reading of figure 16, as bytes: the same in A-B-C, less in the others",
            gains_after_the_first,
            "100 %",
        ),
        shape_claim(
            "kB, overlay / static, a tenth of the data",
            "our reading of figure 17, as bytes: “following a shorter path but also delivers less data”; at most a "
            "fifth once the modulator is at A",
            lambda ours, theirs: all(one <= other / 5 for one, other in zip(ours[1:], theirs[1:], strict=True)),
            "10 %",
        ),
        shape_claim(
            "the same: static in A-C-B against B-A-C",
            "shape: “performs worse under network topology A-C-B than B-A-C”",
            lambda ours, theirs: len(ours) == 4 and theirs[2] > theirs[3],
            "10 %",
        ),
    ),
    plots=(
        Plot("", "network", "kB for ten events, all data", series="approach", along=("kB",), where={"data": "100 %"}),
        Plot("", "network", "kB for ten events, a tenth", series="approach", along=("kB",), where={"data": "10 %"}),
    ),
)

EXPERIMENTS = (HOSTS,)
