"""Rebeca's experiment (R6, section 5.4): messages of logical mobility against flooding.

Its parameters are in a report that is not at hand, so only the shape can be compared.
"""

from collections.abc import Callable
from hashlib import blake2b

from roamcast.papers.experiment import Claim, Experiment, Figures, Findings, Parameters, Plot, Verdict, between
from roamcast.papers.varied import run_varied
from roamcast.sim.observers import Tally

KINDS = ("flooding", "1s", "10s")
FLOODING_10S = "flooding, stays of 10 s"
"""Flooding for a client that stays as long as that of `10s`; to brokers it makes no difference."""


def one_run(parameters: Parameters, seed: int) -> Figures:
    seconds, kind = float(parameters["seconds"]), parameters["kind"]
    changes: Parameters = {"seconds": seconds, "publish.0.until_s": seconds - 2}
    if kind == FLOODING_10S:
        kind, changes["hosts.2.attributes.stay_s"] = "flooding", 10
    tally = Tally()
    result = run_varied(f"rebeca-logical-{kind}", changes, seed, watching=(tally,))
    return {
        "messages": result.transmissions,
        "delivered": result.delivered,
        "duplicates": result.duplicates,
        "deliveries": digest_of(tally),
    }


def digest_of(tally: Tally) -> float:
    """The same for the same deliveries; 48 bits, which a float holds."""
    said = repr(sorted(tally.deliveries.items())).encode()
    return float(int.from_bytes(blake2b(said, digest_size=6).digest(), "big"))


def settings(durations_s: tuple[int, ...]) -> tuple[Parameters, ...]:
    return tuple({"kind": kind, "seconds": seconds} for kind in (*KINDS, FLOODING_10S) for seconds in durations_s)


def messages(findings: Findings) -> float:
    return findings.mean("messages")


def ordered(findings: Findings) -> Verdict:
    at_end = [findings.where(kind=kind, seconds=max(findings.values("seconds"))) for kind in KINDS]
    counts = [messages(each) for each in at_end]
    return Verdict(" > ".join(f"{count:,.0f}" for count in counts), counts[0] > counts[1] > counts[2])


def below_flooding(findings: Findings) -> float:
    return messages(findings.where(kind="1s")) / messages(findings.where(kind="flooding"))


def curvature(findings: Findings) -> float:
    """How far the messages at half of the time are from half of the messages, the worst of the three, in percent."""
    durations = sorted(findings.values("seconds"))
    half, whole = durations[0], durations[-1]
    worst = 0.0
    for kind in KINDS:
        at = {seconds: messages(findings.where(kind=kind, seconds=seconds)) for seconds in (half, whole)}
        worst = max(worst, abs(at[half] / at[whole] / (half / whole) - 1))
    return 100 * worst


def as_flooding(kind: str, flooding: str) -> Callable[[Findings], Verdict]:
    """Run by run, on the same world."""

    def judge(findings: Findings) -> Verdict:
        ours, theirs = (by_world(findings.where(kind=each)) for each in (kind, flooding))
        alike = sum(ours[world] == theirs.get(world) for world in ours)
        return Verdict(f"equal in {alike} of {len(ours)} runs", 0 < alike == len(ours) == len(theirs))

    return judge


def by_world(findings: Findings) -> dict[tuple[int, int], float]:
    return {(row.parameters["seconds"], row.run): row.figures["deliveries"] for row in findings.rows}


FIGURE_9 = Experiment(
    name="rebeca-logical",
    requirement="R6",
    title="Messages of logical mobility against flooding",
    section="5.4, figure 9",
    about="A client stays 1 s or 10 s at each of twenty places; fifteen brokers, eight producers.",
    measure=one_run,
    settings={"quick": settings((50, 100)), "full": settings((50, 100, 200, 400))},
    runs={"quick": 2, "full": 10},
    paired=True,
    claims=(
        *(
            Claim(
                f"what a client with stays of {stays} gets",
                "as published (3.3): all notifications “as if” flooding were used",
                as_flooding(kind, flooding),
            )
            for stays, kind, flooding in (("1 s", "1s", "flooding"), ("10 s", "10s", FLOODING_10S))
        ),
        Claim(
            "messages: flooding, stays of 1 s, of 10 s",
            "shape (figure 9): in this order, “the fraction of messages saved is still considerable”",
            ordered,
        ),
        Claim(
            "stays of 1 s against flooding",
            "shape (figure 9): far below, on a logarithmic axis; at most a third, as the paper's network and rates "
            "are in a report that is not at hand",
            between(below_flooding, 0.0, 0.34, ".2f"),
        ),
        Claim(
            "messages at half of the time, % from half of them",
            "shape (figure 9): straight lines; within 15 %, since nobody publishes in the first 3 s and the last 2 s",
            between(curvature, 0.0, 15.0, ".1f"),
        ),
    ),
    plots=(Plot("seconds", "time, s", "messages", messages, "kind", logarithmic=True),),
)

EXPERIMENTS = (FIGURE_9,)
