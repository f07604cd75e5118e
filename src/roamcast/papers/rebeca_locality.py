"""How far a move of a Rebeca client reaches, and how long it takes (R3, R6; sections 3.2 and 4.1).

A client stands in the middle of a line of brokers and moves along it. What its move makes brokers say to each other
must not depend on how long the line is, and what it missed must come as soon as a word can go to its old broker and
back.
"""

from collections.abc import Callable, Iterator, Sequence

from roamcast.broker.params import BrokerParams
from roamcast.broker.routing import Strategy
from roamcast.papers.chaos import SETTLES_S, Trial, TrialParams
from roamcast.papers.example import Figure5, Spoken
from roamcast.papers.experiment import Claim, Experiment, Figures, Findings, Parameters, Plot, Verdict, between
from roamcast.papers.rebeca_mobility import account_of
from roamcast.sim.links import LinkParams

STRATEGIES: tuple[Strategy, ...] = ("simple", "identity", "covering", "merging")
ROUTES = ("wanted", "unwanted")
SEARCH = ("relocate", "replay", "not_found")
SHORT, LONG = 7, 63
HOP_MS = 10.0
ACCESS_MS = 1.0


class Line(Trial):
    """B0 - B1 - B2 - …; C0 moves, C1 publishes at the first broker."""

    def __init__(self, brokers: int, routing: Strategy = "covering") -> None:
        super().__init__(1, BrokerParams(routing=routing), TrialParams(brokers, clients=2))
        self.spoken = Spoken()
        self.world.observers = (*self.world.observers, self.spoken)
        for body in self.world.bodies:
            body.host.observers = self.world.observers

    def _tree(self) -> Sequence[tuple[str, str]]:
        return list(zip(self.brokers, self.brokers[1:], strict=False))

    def _links(self) -> Iterator[LinkParams]:
        yield from (LinkParams(one, other, HOP_MS) for one, other in self.tree)
        yield from (LinkParams(client, name, ACCESS_MS) for client in self.clients for name in self.brokers)

    def begin(self) -> str:
        """C0 is in the middle, subscribed, and everybody knows."""
        self.pass_s(2)
        self.move("C1", self.brokers[0])
        self.move("C0", self.brokers[len(self.brokers) // 2])
        self.pass_s(1)
        subscription = self.subscribe("C0", "price < 5")
        self.pass_s(5)
        return subscription

    def between_brokers(self, message_type: str) -> int:
        ways = {f"{message_type} {one}-{other}" for pair in self.tree for one, other in (pair, pair[::-1])}
        return sum(times for way, times in self.spoken.count.items() if way in ways)


# Locality: what brokers say because of a move by one hop.


def one_hop(parameters: Parameters, _seed: int) -> Figures:
    """The client's first move, or a later one. The line has nothing random in it."""
    line = Line(parameters["brokers"], parameters["routing"])
    line.begin()
    middle = len(line.brokers) // 2
    for move in range(1 if parameters["move"] == "first" else 2):
        line.spoken.count.clear()
        line.move("C0", line.brokers[middle + 1 - move])
        line.pass_s(5)
    said = {kind: line.between_brokers(kind) for kind in (*ROUTES, *SEARCH)}
    return {"routes": sum(said[kind] for kind in ROUTES), "search": sum(said[kind] for kind in SEARCH)}


def on_both(figure: str, wanted: int, **where: str) -> Callable[[Findings], Verdict]:
    """The same on a short line and on a long one."""

    def judge(findings: Findings) -> Verdict:
        counts = [findings.where(brokers=brokers, **where).mean(figure) for brokers in (SHORT, LONG)]
        return Verdict(f"{counts[0]:.0f} and {counts[1]:.0f}", counts == [wanted, wanted])

    return judge


def lines(*sizes: int) -> tuple[Parameters, ...]:
    return tuple(
        {"routing": routing, "brokers": brokers, "move": move}
        for routing in STRATEGIES
        for brokers in sizes
        for move in ("first", "later")
    )


SMALLEST = "“restricts reconfiguration of the broker network to the smallest possible subgraph”"
LOCALITY = Experiment(
    name="rebeca-locality",
    requirement="R3",
    title="A move by one hop stays local",
    section="4.1, main idea",
    about="A client in the middle of a line moves to the next broker. What brokers say: routes (`wanted`, "
    f"`unwanted`), and the search (`relocate`, `replay`, `not_found`), on lines of {SHORT} to {LONG} brokers.",
    measure=one_hop,
    settings={"quick": lines(SHORT, LONG), "full": lines(SHORT, 15, 31, LONG)},
    runs={"quick": 1, "full": 1},
    claims=(
        *(
            Claim(
                f"routes changed, {routing}, {SHORT} and {LONG} brokers",
                f"as published: {SMALLEST}; here one asked and one withdrawn",
                on_both("routes", 2, routing=routing),
            )
            for routing in STRATEGIES
        ),
        Claim(
            f"search of a later move, {SHORT} and {LONG} brokers",
            f"as published: {SMALLEST}; here a claim and its answer",
            on_both("search", 2, move="later"),
        ),
        Claim(
            f"search of a client's first move, {SHORT} and {LONG} brokers",
            "our reading: the same",
            on_both("search", 2, move="first"),
            "Nobody knows where a client is that has never moved, so its first claim goes to everybody beyond the "
            "new broker too, once. The paper looks for an old entry of the subscription in routing tables, which "
            "covering and merging do not keep.",
        ),
    ),
    plots=(
        Plot("brokers", "brokers", "routes changed by a move", lambda found: found.mean("routes"), "routing"),
        Plot("brokers", "brokers", "claims and answers", lambda found: found.mean("search"), "move"),
    ),
)


# Responsiveness: how long until a client has what it missed.


def catches_up(parameters: Parameters, _seed: int) -> Figures:
    """An event for the client comes to its old broker while it is away; how long after it has come elsewhere does it
    have it?"""
    line = Line(parameters["brokers"])
    subscription = line.begin()
    line.move("C0", None)
    line.publish("C1", {"price": 1})
    line.pass_s(5)
    came_us = line.world.kernel.now_us
    line.move("C0", line.brokers[len(line.brokers) // 2 + parameters["hops"]])
    line.pass_s(5)
    (event,) = line.ledger.got[subscription]
    return {"late_ms": (line.ledger.at_us[subscription, event] - came_us) / 1_000}


def there_and_back(findings: Findings) -> Verdict:
    pairs = [(2 * (row.parameters["hops"] * HOP_MS + ACCESS_MS), row.figures["late_ms"]) for row in findings.rows]
    worst = max((late - way for way, late in pairs), default=float("nan"))
    return Verdict(f"at most {worst:g} ms later", bool(pairs) and worst <= 0.001)


RESPONSIVENESS = Experiment(
    name="rebeca-catch-up",
    requirement="R3",
    title="How long until a client that moved has what it missed",
    section="3.2, responsiveness",
    about=f"A line with links of {HOP_MS:g} ms; the client comes back so many hops away, and an event waits for it.",
    measure=catches_up,
    settings={
        preset: tuple({"brokers": brokers, "hops": hops} for brokers in (15, LONG) for hops in (1, 2, 4, 7))
        for preset in ("quick", "full")
    },
    runs={"quick": 1, "full": 1},
    claims=(
        Claim(
            "beyond a word to the old broker and back",
            "as published: “the delay of relocating a roaming client should be minimal”; here nothing, whatever the "
            "distance and the network",
            there_and_back,
        ),
    ),
    plots=(Plot("hops", "hops", "ms until it has what it missed", lambda found: found.mean("late_ms"), "brokers"),),
)


# Figure 5, right: several producers.

PRODUCERS = {"C1": "B8", "C2": "B5", "C3": "B2", "C4": "B1"}
"""Behind the junction of the figure's left side, on the old path, on the new path, and at the new broker."""


def several_producers(parameters: Parameters, seed: int) -> Figures:
    """Everybody publishes while C0 is at B6, away, and being relocated to B1; and a while later again."""
    trial = Figure5(seed, BrokerParams(routing=parameters["routing"]), clients=5)
    spoken = Spoken()
    for body in trial.world.bodies:
        body.host.observers = (*body.host.observers, spoken)
    trial.pass_s(1)
    trial.move("C0", "B6")
    for producer, broker in PRODUCERS.items():
        trial.move(producer, broker)
    trial.pass_s(1)
    trial.subscribe("C0", "TRUE")
    trial.pass_s(SETTLES_S)
    all_publish(trial)
    trial.move("C0", None)
    all_publish(trial)
    trial.move("C0", "B1")
    all_publish(trial)
    trial.pass_s(SETTLES_S)
    spoken.count.clear()
    all_publish(trial)
    trial.pass_s(SETTLES_S)
    astray = sum(way in ("B4-B5", "B5-B6") for way in spoken.of("notified "))
    return account_of(trial) | {"astray": astray}


def all_publish(trial: Trial, events: int = 20) -> None:
    for _ in range(events):
        for producer in PRODUCERS:
            trial.publish(producer)
        trial.pass_s(0.005)


SEVERAL = Experiment(
    name="rebeca-producers",
    requirement="R3",
    title="A client moves from B6 to B1 while four clients publish",
    section="4.1, figure 5 right",
    about="The brokers of figure 5 with links of 1 to 70 ms. Producers are at B8, B5, B2 and B1, so that each has "
    "its own junction; each publishes 20 events before the move, while the client is away, while it is relocated, "
    "and after.",
    measure=several_producers,
    settings={preset: tuple({"routing": routing} for routing in STRATEGIES) for preset in ("quick", "full")},
    runs={"quick": 2, "full": 20},
    claims=(
        Claim(
            "lost, doubled or out of order",
            "as published: “no notification is lost or delivered twice”, in the order of the sender",
            between(lambda found: sum(found.total(each) for each in ("lost", "doubled", "disordered")), 0, 0, ".0f"),
        ),
        Claim(
            "events on the old path after the move",
            "as published: “any routing path to the old location related to the client will be deleted”",
            between(lambda found: found.total("astray"), 0, 0, ".0f"),
        ),
    ),
)

EXPERIMENTS = (LOCALITY, RESPONSIVENESS, SEVERAL)
