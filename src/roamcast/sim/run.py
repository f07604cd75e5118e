"""One run of a scenario: the world is built, runs in steps, and ends with a result."""

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from roamcast.movement.legs import Track
from roamcast.node.kit import ProtocolKit
from roamcast.node.observer import Observer
from roamcast.sim.access import Access, AccessRule
from roamcast.sim.applications import Applications
from roamcast.sim.checkers import make_checker
from roamcast.sim.draws import draw_all
from roamcast.sim.fences import watch_fences
from roamcast.sim.hosts import Resident
from roamcast.sim.ideal import Ideal
from roamcast.sim.links import LinkParams
from roamcast.sim.observers import Tally
from roamcast.sim.scenario import BadScenario, Scenario
from roamcast.sim.traffic import Traffic
from roamcast.sim.world import World

if TYPE_CHECKING:
    from roamcast.journal.writer import Journal


class Result(Struct, frozen=True):
    """What a run came to. `expected` counts what an ideal system delivers, `missed` what of that did not arrive,
    `unwanted` what arrived although the ideal system does not deliver it. The ideal system looks at where everybody
    is every `ideal_period_s`, so what matches for less than that may not count."""

    scenario: str
    seed: int
    seconds: float
    hosts: int
    events: int
    subscriptions: int
    ideal_period_s: float
    expected: int
    delivered: int
    missed: int
    unwanted: int
    duplicates: int
    transmissions: int
    megabits: float
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    messages: dict[str, int]
    notes: dict[str, int]
    steps: int

    @property
    def delivery_rate(self) -> float | None:
        return (self.expected - self.missed) / self.expected if self.expected else None


class Run:
    def __init__(
        self,
        scenario: Scenario,
        kit: ProtocolKit,
        seed: int,
        journal: "Journal | None" = None,
        say: Callable[[int, str, str], None] | None = None,
        round_trip: bool = False,
        watching: tuple[Observer, ...] = (),
    ) -> None:
        """`round_trip`: every message passes through its codec, as on a real network; slower. `watching`: whoever
        else wants to see what happens."""
        self.scenario = scenario
        self.tally = Tally()
        self.ideal = Ideal()
        self.checkers = [make_checker(check, self.ideal) for check in scenario.checks]
        groups = {group.name: group.hosts() for group in scenario.hosts}
        traffic = Traffic(groups, scenario.area_m, scenario.end_us, scenario.publish, scenario.subscribe)
        observers: tuple[Observer, ...] = (self.tally, self.ideal, *self.checkers, *watching, traffic)
        if journal is not None:
            observers = (journal, *observers)
        try:
            self.world = World(
                residents_of(scenario, kit, seed),
                kit.codec,
                seed,
                scenario.radio,
                links_of(scenario, groups, seed),
                scenario.faults,
                observers,
                scenario.packet_bytes,
                scenario.graph(),
                say,
                round_trip,
                scenario.underlay,
                kit.domain_hops,
            )
            self.ideal.watch(self.world)
            for checker in self.checkers:
                checker.watch(self.world)
            traffic.watch(self.world)
            watch_fences(scenario.fences, groups, self.world)
            for number, rule in enumerate(scenario.access):
                access_of(rule, number, groups, seed).watch(self.world)
        except ValueError as problem:
            raise BadScenario(f"{scenario.name}: {problem}") from problem

    def steps(self) -> Iterator[int]:
        """Runs, and tells the virtual time after every second of it."""
        yield from self.world.run(self.scenario.end_us)

    @property
    def now_us(self) -> int:
        """How far it has come."""
        return self.world.kernel.now_us

    def check(self) -> None:
        """Lets every checker have its last word; fails with `CheckFailed` when one finds the run lacking."""
        for checker in self.checkers:
            checker.finish()

    def finish(self) -> Result:
        """The last checks, and the result if they pass."""
        self.check()
        return self.result()

    def result(self) -> Result:
        """What the run has come to so far."""
        tally, expected = self.tally, self.ideal.expected
        delivered = set(tally.deliveries)
        latencies = sorted(tally.latencies_us)
        return Result(
            scenario=self.scenario.name,
            seed=self.world.seed,
            seconds=self.world.kernel.now_us / 1e6,
            hosts=len(self.world.bodies),
            events=tally.events,
            subscriptions=tally.subscriptions,
            ideal_period_s=self.ideal.period_us / 1e6,
            expected=len(expected),
            delivered=len(delivered),
            missed=sum(pair not in delivered for pair in expected),
            unwanted=sum(pair not in expected for pair in delivered),
            duplicates=tally.deliveries.total() - len(delivered),
            transmissions=tally.messages.total(),
            megabits=tally.bytes.total() * 8 / 1e6,
            latency_p50_ms=percentile_ms(latencies, 0.5),
            latency_p99_ms=percentile_ms(latencies, 0.99),
            messages=dict(sorted(tally.messages.items())),
            notes=dict(sorted(tally.notes.items())),
            steps=self.world.kernel.steps,
        )


def run_scenario(
    scenario: Scenario,
    kit: ProtocolKit,
    seed: int,
    journal: "Journal | None" = None,
    round_trip: bool = False,
    watching: tuple[Observer, ...] = (),
) -> Result:
    """Runs a scenario from beginning to end."""
    run = Run(scenario, kit, seed, journal, round_trip=round_trip, watching=watching)
    for _ in run.steps():
        pass
    return run.finish()


def links_of(scenario: Scenario, groups: dict[str, list[str]], seed: int) -> list[LinkParams]:
    links = list(scenario.links)
    for number, wiring in enumerate(scenario.wiring):
        links += wiring.links(groups[wiring.of], Random(f"{seed}/wiring/{number}"))
    return links


def access_of(rule: AccessRule, number: int, groups: dict[str, list[str]], seed: int) -> Access:
    return Access(rule, groups[rule.by], groups[rule.to], lambda host: Random(f"{seed}/access/{number}/{host}"))


def residents_of(scenario: Scenario, kit: ProtocolKit, seed: int) -> list[Resident]:
    residents = []
    applications = Applications()
    for group in scenario.hosts:
        hosts = group.hosts()
        make_application = applications.load(group.application) if group.application else None
        for index, host in enumerate(hosts):
            legs = group.mobility.legs(Random(f"{seed}/mobility/{host}"), index, len(hosts))
            attributes = draw_all(group.attributes, Random(f"{seed}/attributes/{host}"))
            residents.append(
                Resident(host, Track(legs), kit.make_node, attributes, make_application, kit.runs_modulators)
            )
    return residents


def percentile_ms(ordered_us: list[int], share: float) -> float | None:
    if not ordered_us:
        return None
    return ordered_us[min(len(ordered_us) - 1, int(share * len(ordered_us)))] / 1_000
