"""Flood watch on three machines (O8; section 4.3, figures 15 to 17): the paths of events, and how long they take.

Four programs in three network namespaces, on a radio in user space (`tests/broker/overlay_live/hosts.py`). The land
has 100 x 100 cells, as the paper's. All machines share a channel of 1 Mbit/s, the basic rate of 802.11b: the paper's
second for 80 kB over one hop is not far from that. Events come one at a time, each after the one before has arrived,
so that nothing waits for earlier ones; the paper does not say how its events came. Latencies are from the moment when
an event is raised until the client has it, on one clock. They have in them what the modulator takes, which is
measured alone as well.

Two of the paper's figures depend on what it does not say. *Six times* is looked for with an event every second,
whether those before have arrived or not: in B-A-C three hops of 40 kB take longer than that, and one takes less.
*Less than 200 ms* is looked for on a channel of 5 Mbit/s, about what 802.11b carries at 11 Mbit/s.
"""

import statistics
import time

from msgspec import Struct

from bench import progress
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane
from roamcast.model.values import FOREVER_US
from roamcast.papers.overlay_hosts import APPROACHES, NETWORKS, WAYS
from tests.broker.overlay_live.hosts import FloodWatch
from tests.broker.overlay_live.watcher import asking, rain_of
from tests.broker.test_modulator_page import FLOOD
from tests.networks.namespaces import why_not

TAKES = "7 minutes"
NEEDS = {"ip": "apt-get install iproute2", "/dev/net/tun": "modprobe tun; and it must be run as root"}
SIDE = 100
CHANNEL_BITS_PER_S = 1e6
EVENTS = 20
WIDE_BITS_PER_S = 5e6
EVERY_S = 1.0
CROWDED = NETWORKS.index("B-A-C")
FIGURES = {"16": ("all data", SIDE), "17": ("a tenth", SIDE // 10)}


class Stage(Struct):
    """One network, for one approach and one wish."""

    ways: list[str]
    """In the order in which they were first taken, once it had settled."""
    modulator_at: str
    latencies_ms: list[float]

    def percentile_ms(self, percent: int) -> float:
        return statistics.quantiles(self.latencies_ms, n=100, method="inclusive")[percent - 1]


def stages(approach: str, rows: int, bits_per_s: float = CHANNEL_BITS_PER_S) -> list[Stage]:
    found = []
    with FloodWatch(approach, SIDE, bits_per_s=bits_per_s) as watch:
        watch.begin(rows)
        for number, wanted in enumerate(WAYS[approach]):
            watch.settle(number, wanted)
            seen = [watch.rain() for _ in range(EVENTS)]
            latencies_ms = [said["latency_us"] / 1e3 for _, said in seen]
            found.append(Stage(list(dict.fromkeys(way for way, _ in seen)), watch.modulator_at(), latencies_ms))
    return found


def crowded_ms(approach: str) -> list[float]:
    """Latencies of all data in B-A-C with an event every second."""
    with FloodWatch(approach, SIDE, bits_per_s=CHANNEL_BITS_PER_S) as watch:
        watch.begin(SIDE)
        watch.settle(CROWDED, WAYS[approach][CROWDED])
        return watch.storm(EVENTS, EVERY_S)


def modulator_ms() -> float:
    """What one event takes of a processor in the modulator alone; a busy machine takes longer by the clock."""
    modulator = FLOOD.Runoff(asking(SIDE, SIDE), Plane())
    rain = [Event("e", "r", Context("P"), 0, FOREVER_US, {"rain": rain_of(hour, SIDE)}) for hour in range(EVENTS)]
    took_ms = []
    for event in rain:
        started = time.process_time()
        modulator.take(event, 0)
        took_ms.append((time.process_time() - started) * 1e3)
    return statistics.median(took_ms)


def main() -> dict[str, float]:
    reason = why_not()
    if reason is not None:
        progress.skipped("flood watch", f"it needs machines of its own: {reason}")
        return {}
    figures = {"modulator_ms": modulator_ms()}
    print(f"the modulator alone takes {figures['modulator_ms']:.0f} ms of a processor for an event (median)")
    for figure, (wish, rows) in FIGURES.items():
        print(f"figure {figure}: {wish}; {EVENTS} events in each network, ms")
        print(f"  {'network':8} {'approach':8} {'paper':10} {'here':14} {'modulator':9} {'p50':>7} {'p95':>7}")
        for approach in APPROACHES:
            for network, wanted, stage in zip(NETWORKS, WAYS[approach], stages(approach, rows), strict=True):
                half, most = stage.percentile_ms(50), stage.percentile_ms(95)
                taken = f"{wanted:10} {' or '.join(stage.ways):14} {stage.modulator_at:9}"
                print(f"  {network:8} {approach:8} {taken} {half:7.0f} {most:7.0f}", flush=True)
                name = f"figure {figure} {approach} {network}"
                figures[f"{name} p50_ms"], figures[f"{name} p95_ms"] = half, most
                figures[f"{name} agrees"] = float(stage.ways == [wanted])
                progress.note(figures)
    print(f"an event every {EVERY_S:g} s in B-A-C, all data: mean, ms")
    for approach in APPROACHES:
        figures[f"every second {approach} mean_ms"] = statistics.fmean(crowded_ms(approach))
        print(f"  {approach:8} {figures[f'every second {approach} mean_ms']:7.0f}", flush=True)
    print(f"a tenth on {WIDE_BITS_PER_S / 1e6:g} Mbit/s: p50 in each network, ms")
    for approach in APPROACHES:
        halves = [each.percentile_ms(50) for each in stages(approach, SIDE // 10, WIDE_BITS_PER_S)]
        figures |= {f"wide {approach} {one} p50_ms": ms for one, ms in zip(NETWORKS, halves, strict=True)}
        print(f"  {approach:8} " + " ".join(f"{half:7.0f}" for half in halves), flush=True)
    progress.note(figures)
    return figures
