"""Rebeca's figures 2, 3 and 5 and its tables 1 to 4 (R3, R5, R6): what naive solutions cost, and what ours does."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.client import Client
from roamcast.broker.logical.params import PAPERS_RULE, LogicalParams
from roamcast.broker.params import BrokerParams
from roamcast.broker.resubscribing import ResubscribingParams
from roamcast.broker.routing import Strategy
from roamcast.model.values import FOREVER_US
from roamcast.papers.chaos import SETTLES_S, Trial, TrialParams, accepted_by
from roamcast.papers.example import Example, Figure5, NaiveExample, NaiveTrial
from roamcast.papers.experiment import Claim, Experiment, Figures, Findings, Parameters, Plot, Verdict, between

# Figure 2: clients that roam.

WAYS = {
    "resubscribes, says goodbye": ResubscribingParams(unsubscribes=True),
    "resubscribes, does not": ResubscribingParams(unsubscribes=False),
    "flooding, says goodbye": ResubscribingParams(routing="flooding", unsubscribes=True),
    "flooding, does not": ResubscribingParams(routing="flooding", unsubscribes=False),
}
RELOCATION = "relocation"


def roaming(parameters: Parameters, seed: int) -> Figures:
    """A random trial of roaming (chaos.py), and what of it each subscription should have and has."""
    short = TrialParams(actions=parameters["actions"])
    way = parameters["way"]
    trial = Trial(seed, BrokerParams(), short) if way == RELOCATION else NaiveTrial(seed, WAYS[way], short)
    trial.run()
    return account_of(trial)


def account_of(trial: Trial) -> Figures:
    wanted = lost = doubled = disordered = 0
    place = {event.id: index for index, event in enumerate(trial.published)}
    for subscription in trial.subscriptions.values():
        got = trial.ledger.got.get(subscription.id, [])
        first = list(dict.fromkeys(got))
        doubled += len(got) - len(first)
        for client in trial.clients:
            order = [place[each] for each in first if each.startswith(f"{client}:")]
            disordered += sum(later < earlier for earlier, later in pairwise(order))
        if trial.versions.ended(subscription.id):
            continue
        since_us = trial.required_from_us[subscription.id]
        # A filter that was replaced on the way: due is what every one of them accepted.
        versions = [each for each in trial.versions.between(subscription.id, 0, FOREVER_US) if each is not None]
        due = [
            each.id
            for each in trial.published
            if each.published_us >= since_us and all(accepted_by(version, each) for version in versions)
        ]
        wanted += len(due)
        lost += len(set(due) - set(got))
    return {"wanted": wanted, "lost": lost, "doubled": doubled, "disordered": disordered}


def percent(figure: str, **where: Any) -> Callable[[Findings], float]:
    return lambda found: 100 * found.where(**where).share(figure, "wanted")


def loses(way: str) -> Claim:
    return Claim(
        f"lost, {way}, %",
        "as published (3.2): “the client might miss several notifications”",
        between(percent("lost", way=way), 0.01, 100.0, ".1f"),
    )


def doubles(way: str) -> Claim:
    return Claim(
        f"doubled, {way}, %",
        "as published (3.2): “or get duplicates, even if notifications are flooded”",
        between(percent("doubled", way=way), 0.01, 1_000.0, ".1f"),
    )


NAIVE = Experiment(
    name="rebeca-naive",
    requirement="R3, R6",
    title="Roaming: what naive clients lose and get twice",
    section="3.2, figure 2",
    about="Random trees of brokers; clients publish, move, vanish and hang on two brokers at once.",
    measure=roaming,
    settings={
        "quick": tuple({"way": way, "actions": 60} for way in (RELOCATION, *WAYS)),
        "full": tuple({"way": way, "actions": 150} for way in (RELOCATION, *WAYS)),
    },
    runs={"quick": 3, "full": 20},
    claims=(
        Claim(
            "lost, doubled or out of order, relocation",
            "as published (4.1): “no notification is lost or delivered twice”",
            between(
                lambda found: sum(
                    found.where(way=RELOCATION).total(each) for each in ("lost", "doubled", "disordered")
                ),
                0,
                0,
                ".0f",
            ),
        ),
        loses("resubscribes, says goodbye"),
        loses("flooding, says goodbye"),
        doubles("resubscribes, does not"),
        doubles("flooding, does not"),
    ),
    plots=(
        Plot("way", "", "lost, % of what was wanted", percent("lost")),
        Plot("way", "", "got twice, % of what was wanted", percent("doubled")),
    ),
)


# Figure 3: clients that walk.

KINDS = ("resubscription", "flooding", "logical mobility", "no step ahead")
SAYS = {
    "resubscription": "as published (3.3): t_d “until the subscription is propagated”, and “another” t_d",
    "flooding": "as published (figure 3b): “flooding prevents the blackout periods”; an event takes t_d",
    "logical mobility": "as published (3.3): “as if” flooding were used",
    "no step ahead": "our reading: with steps = 0 nothing is asked for ahead, so as resubscription",
}
FACTORS = {"resubscription": 2, "flooding": 1, "logical mobility": 1, "no step ahead": 2}
DELAYS_MS = (30, 40, 20)
"""There and back: the client's link and two links between brokers, so t_d is 45 ms."""


def example_of(kind: str, delays_ms: Sequence[float]) -> Example:
    match kind:
        case "resubscription":
            return NaiveExample(delays_ms, ResubscribingParams(location="resubscribe"))
        case "flooding":
            return NaiveExample(delays_ms, ResubscribingParams(routing="flooding", location="flood"))
        case "logical mobility":
            return Example(delays_ms, LogicalParams())
        case _:
            return Example(delays_ms, LogicalParams(steps=0))


def blackout(parameters: Parameters, _seed: int) -> Figures:
    """The line has nothing random in it, so that every run comes to the same: one is enough."""
    example = example_of(parameters["kind"], [parameters["times"] * each for each in DELAYS_MS])
    return {"blackout_ms": example.blackout_ms(), "one_way_ms": example.one_way_ms}


def exactly(kind: str) -> Claim:
    factor = FACTORS[kind]
    name = "2 t_d" if factor == 2 else "t_d"

    def judge(findings: Findings) -> Verdict:
        rows = findings.where(kind=kind).rows
        pairs = [(row.figures["blackout_ms"], row.figures["one_way_ms"]) for row in rows]
        shown = ", ".join(f"{dark:g} for t_d = {way:g}" for dark, way in pairs)
        return Verdict(shown or "no data", bool(pairs) and all(dark == factor * way for dark, way in pairs))

    return Claim(f"blackout, {kind}, ms", f"{SAYS[kind]}; {name}, exactly", judge)


BLACKOUT = Experiment(
    name="rebeca-blackout",
    requirement="R4, R6",
    title="Blackout after a client has moved to another place",
    section="3.3, figure 3",
    about="From the move to the arrival of the first event that has left the producer's broker since. The time from "
    "the client to that broker is t_d.",
    measure=blackout,
    settings={
        preset: tuple({"kind": kind, "times": times, "t_d_ms": 45 * times} for kind in KINDS for times in (1, 2, 4))
        for preset in ("quick", "full")
    },
    runs={"quick": 1, "full": 1},
    claims=tuple(exactly(kind) for kind in KINDS),
    plots=(Plot("t_d_ms", "t_d, ms", "blackout, ms", lambda found: found.mean("blackout_ms"), "kind"),),
)


# Tables 1 to 4: the filters along the line.

EVEN_MS = (100, 100, 100)
UNEVEN_MS = (120, 50, 50, 20)
ALL = "abcd"
NEXT = {"a": "abc", "b": "abd", "c": "acd", "d": "bcd"}


class Filters(Struct, frozen=True):
    """A table: delays, how long a client stays, and which set each filter from F0 on has: 0, 1 or 2 steps."""

    title: str
    delays_ms: tuple[int, ...]
    stays_s: float
    steps: tuple[int, ...]


TABLES = {
    "1": Filters("table 1, a link takes as long as a stay", EVEN_MS, 0.1, (0, 1, 2, 2)),
    "3, slow": Filters("table 3, a slow client", EVEN_MS, 60.0, (0, 1, 1, 1)),
    "3, fast": Filters("table 3, a fast client", EVEN_MS, 0.01, (0, 2, 2, 2)),
    "4": Filters("table 4, stays of 100 ms, delays of 120, 50, 50 and 20 ms", UNEVEN_MS, 0.1, (0, 1, 1, 2, 2)),
}
WALK = "2"


def reached(place: str, steps: int) -> str:
    return (place, NEXT[place], ALL)[steps]


def filters(parameters: Parameters, _seed: int) -> Figures:
    """How many of the sets of a table brokers hold just so; delays are those that they have measured."""
    name, place = parameters["table"], parameters["place"]
    table = TABLES["1" if name == WALK else name]
    example = Example(table.delays_ms, replace(PAPERS_RULE, residence_s=table.stays_s))
    example.begin(place)
    found = [example.sets()]
    wanted = [[reached(place, steps) for steps in table.steps]]
    for next_place in "bd" if name == WALK else "":
        example.stand("C0", next_place)
        example.pass_s(3)
        found.append(example.sets())
        wanted.append([reached(next_place, steps) for steps in table.steps])
    pairs = [pair for one, other in zip(found, wanted, strict=True) for pair in zip(one, other, strict=True)]
    return {"sets": len(pairs), "agree": sum(one == other for one, other in pairs)}


def table_claim(name: str, title: str) -> Claim:
    def judge(findings: Findings) -> Verdict:
        here = findings.where(table=name)
        agree, sets = here.total("agree"), here.total("sets")
        return Verdict(f"{agree:.0f} of {sets:.0f} filters", sets > 0 and agree == sets)

    return Claim(title, f"as published (table {name.split(',')[0]}): every filter exactly", judge)


TABLES_1_TO_4 = Experiment(
    name="rebeca-tables",
    requirement="R5",
    title="Filters along the path of a client that walks",
    section="5.2 and 5.3, tables 1 to 4",
    about="What client and brokers on a line let pass, for a client at each of the four places of figure 7; in table "
    "2 it walks from a to b to d. Steps are max(1, ⌊Σδ/Δ⌋).",
    measure=filters,
    settings={
        preset: (
            *({"table": name, "place": place} for name in TABLES for place in ALL),
            {"table": WALK, "place": "a"},
        )
        for preset in ("quick", "full")
    },
    runs={"quick": 1, "full": 1},
    claims=(
        table_claim("1", TABLES["1"].title),
        table_claim(WALK, "table 2, a walk from a to b to d"),
        *(table_claim(name, TABLES[name].title) for name in ("3, slow", "3, fast", "4")),
    ),
)


# Figure 5: a client moves from B6 to B1.

LAST_NUMBER = 123
STRATEGIES: tuple[Strategy, ...] = ("flooding", "simple", "identity", "covering", "merging")


def relocated(parameters: Parameters, seed: int) -> Figures:
    """C0 has got number 123 when it leaves B6; events go on while it is away, and while it is being relocated."""
    trial = Figure5(seed, BrokerParams(routing=parameters["routing"]))
    trial.pass_s(1)
    trial.move("C0", "B6")
    trial.move("C1", "B8")
    trial.pass_s(1)
    subscription = trial.subscribe("C0", "TRUE")
    trial.pass_s(SETTLES_S)
    for _ in range(LAST_NUMBER):
        trial.publish("C1")
    trial.pass_s(SETTLES_S)
    last = client_of(trial).last
    trial.move("C0", None)
    publish_for(trial, 20)
    trial.move("C0", "B1")
    publish_for(trial, 20)
    trial.pass_s(SETTLES_S)
    got = trial.ledger.got[subscription]
    numbers = [int(each.split(":")[1]) + 1 for each in got]
    return account_of(trial) | {
        "last_number": last,
        "first_after": numbers[last],
        "all": len(numbers),
        "counterparts": trial.nodes["B6"].left()["sessions"],
    }


def client_of(trial: Trial) -> Client:
    node = trial.world.by_name["C0"].host.node
    assert isinstance(node, Client)
    return node


def publish_for(trial: Trial, events: int) -> None:
    """One every 5 ms: less than a link takes."""
    for _ in range(events):
        trial.publish("C1")
        trial.pass_s(0.005)


FIGURE_5 = Experiment(
    name="rebeca-relocation",
    requirement="R3",
    title="A client moves from B6 to B1",
    section="4.1, figure 5",
    about="The brokers of figure 5 with links of 1 to 70 ms; 20 events while the client is away and 20 while it is "
    "relocated, 5 ms apart, under each routing strategy.",
    measure=relocated,
    settings={preset: tuple({"routing": routing} for routing in STRATEGIES) for preset in ("quick", "full")},
    runs={"quick": 2, "full": 20},
    claims=(
        Claim(
            "last number before the move",
            "as published (4.1): (C, F, 123)",
            between(lambda found: found.mean("last_number"), LAST_NUMBER, LAST_NUMBER, ".0f"),
        ),
        Claim(
            "replay begins with",
            "as published (4.1): “(here 124)”",
            between(lambda found: found.mean("first_after"), LAST_NUMBER + 1, LAST_NUMBER + 1, ".0f"),
        ),
        Claim(
            "lost, doubled or out of order",
            "as published (4.1): “no notification is lost or delivered twice”, “the correct delivery order”",
            between(lambda found: sum(found.total(each) for each in ("lost", "doubled", "disordered")), 0, 0, ".0f"),
        ),
        Claim(
            "virtual counterparts that stay at the old broker",
            "as published (4.1): none, the old broker “can garbage collect all resources”",
            between(lambda found: found.total("counterparts"), 0, 0, ".0f"),
        ),
    ),
)

EXPERIMENTS = (NAIVE, BLACKOUT, TABLES_1_TO_4, FIGURE_5)
