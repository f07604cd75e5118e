"""One run of a scenario: the world is built, runs in steps, and ends with a result."""

from collections.abc import Callable, Iterator
from random import Random

from msgspec import Struct

from roamcast.journal.scribe import Scribe
from roamcast.journal.writer import Recorder
from roamcast.node.boundary import Node
from roamcast.node.codec import Codec
from roamcast.node.host import Observer
from roamcast.sim.applications import load_application
from roamcast.sim.checkers import make_checker
from roamcast.sim.draws import draw_all
from roamcast.sim.ideal import Ideal
from roamcast.sim.mobility.legs import Track
from roamcast.sim.observers import Tally
from roamcast.sim.residents import Resident, Seat
from roamcast.sim.scenario import BadScenario, Scenario
from roamcast.sim.traffic import Traffic
from roamcast.sim.world import World


class ProtocolKit(Struct, frozen=True):
    """A protocol, ready to be run: what its messages are and what makes a node."""

    codec: Codec
    make_node: Callable[[Seat], Node]


class Result(Struct, frozen=True):
    """What a run came to. `expected` counts what an ideal system delivers, `missed` what of that did not arrive,
    `unwanted` what arrived although the ideal system does not deliver it."""

    scenario: str
    seed: int
    seconds: float
    hosts: int
    events: int
    subscriptions: int
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
        journal: Recorder | None = None,
        say: Callable[[int, str, str], None] | None = None,
    ) -> None:
        self.scenario = scenario
        self.tally = Tally()
        self.ideal = Ideal()
        self.checkers = [make_checker(check, self.ideal) for check in scenario.checks]
        observers: tuple[Observer, ...] = (self.tally, self.ideal, *self.checkers)
        if journal is not None:
            observers = (Scribe(journal), *observers)
        groups = {group.name: group.hosts() for group in scenario.hosts}
        try:
            self.world = World(
                residents_of(scenario, kit, seed),
                kit.codec,
                seed,
                scenario.radio,
                scenario.links,
                scenario.faults,
                observers,
                scenario.packet_bytes,
                scenario.graph(),
                say,
            )
        except ValueError as problem:
            raise BadScenario(f"{scenario.name}: {problem}") from problem
        self.ideal.watch(self.world)
        for checker in self.checkers:
            checker.watch(self.world)
        Traffic(self.world, groups, scenario.area_m, scenario.end_us, scenario.publish, scenario.subscribe)

    def steps(self) -> Iterator[int]:
        """Runs, and tells the virtual time after every second of it."""
        yield from self.world.run(self.scenario.end_us)

    def finish(self) -> Result:
        """The result of a run that has come to its end; fails with `CheckFailed` when a checker finds it lacking."""
        for checker in self.checkers:
            checker.finish()
        tally, expected = self.tally, self.ideal.expected
        delivered = set(tally.deliveries)
        latencies = sorted(tally.latencies_us)
        return Result(
            scenario=self.scenario.name,
            seed=self.world.seed,
            seconds=self.scenario.seconds,
            hosts=len(self.world.bodies),
            events=tally.events,
            subscriptions=tally.subscriptions,
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


def run_scenario(scenario: Scenario, kit: ProtocolKit, seed: int, journal: Recorder | None = None) -> Result:
    """Runs a scenario from beginning to end."""
    run = Run(scenario, kit, seed, journal)
    for _ in run.steps():
        pass
    return run.finish()


def residents_of(scenario: Scenario, kit: ProtocolKit, seed: int) -> list[Resident]:
    residents = []
    for group in scenario.hosts:
        hosts = group.hosts()
        make_application = load_application(group.application) if group.application else None
        for index, host in enumerate(hosts):
            legs = group.mobility.legs(Random(f"{seed}/mobility/{host}"), index, len(hosts))
            attributes = draw_all(group.attributes, Random(f"{seed}/attributes/{host}"))
            residents.append(Resident(host, Track(legs), kit.make_node, attributes, make_application))
    return residents


def percentile_ms(ordered_us: list[int], share: float) -> float | None:
    if not ordered_us:
        return None
    return ordered_us[min(len(ordered_us) - 1, int(share * len(ordered_us)))] / 1_000
