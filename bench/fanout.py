"""Brokers compared: the CPU time of a delivery, messages a second and the time to arrive, for ours and its peers.

All speak MQTT 3.1.1 (NATS also its own protocol, Zenoh only that), 100 bytes a message, plain topics, users with
passwords and rules (Zenoh and NATS without rules). `ours_journal` writes a journal as well; `ours_linked` is two
brokers, of which publishers have the one and subscribers the other.
`batched` means that publishers write 100 messages at once and up to 800 are on their way; `unbatched`, one message in
its own segment, and the next when it has arrived everywhere. Only the broker's CPU time counts, not that of the
clients, which are a process of their own (`fanout_load`). The machine may be busy, so ratios of CPU time are what to
compare; rates and latencies are bounds. Ratios are the peer's CPU time over ours, and for our other configurations
Mosquitto's over theirs. Runs of the brokers alternate; each figure is the median of `RUNS`.

`python -m bench fanout`, or with words that a peer or a case contains: `python -m bench.fanout ours mosquitto 1-50`.
"""

import statistics
import subprocess
import sys
from contextlib import ExitStack
from difflib import get_close_matches

import msgspec
from msgspec import Struct

from bench import progress
from bench.children import tied
from bench.fanout_load import Seen, Spec
from bench.fanout_peers import PASSWORD, PEERS, USER, Peer, Running

TAKES = "15 minutes"
NEEDS = {
    "mosquitto": "apt-get install mosquitto",
    "nats-server": "apt-get install nats-server",
    "eclipse-zenoh": "pip install 'roamcast[bench]'",
    "amqtt": "pip install amqtt, where nothing else is",
}
RUNS = 3
SECONDS = 1.5
RUN_S_MAX = 120.0


class Case(Struct, frozen=True):
    name: str
    publishers: int
    subscribers: int
    qos: int
    batch: int = 1
    window: int = 1
    pairs: bool = False
    kept: bool = False
    target: float | None = None
    """Mosquitto's CPU time divided by ours, wanted."""


CASES = (
    Case("1-1 batched q0", 1, 1, 0, 100, 800, target=5.0),
    Case("1-50 batched q0", 1, 50, 0, 100, 800, target=20.0),
    Case("50-50 batched q0", 50, 50, 0, 4, 16),
    Case("50 pairs batched q0", 50, 50, 0, 20, 160, pairs=True),
    Case("1-1 batched q1", 1, 1, 1, 100, 800, target=2.0),
    Case("1-50 batched q1", 1, 50, 1, 100, 800, target=2.0),
    Case("50-50 batched q1", 50, 50, 1, 4, 16),
    Case("1-50 batched q1 kept", 1, 50, 1, 100, 800, kept=True, target=1.5),
    Case("ping-pong q0", 1, 1, 0, target=0.8),
    Case("ping-pong q1", 1, 1, 1, target=0.7),
    Case("1-50 unbatched q0", 1, 50, 0),
    Case("1-50 unbatched q1", 1, 50, 1, target=0.7),
    Case("50-1 unbatched q0", 50, 1, 0, target=1.0),
    Case("50-1 unbatched q1", 50, 1, 1, target=0.6),
)


class Figure(Struct, frozen=True):
    cpu_us: float
    """Of the broker, a delivery; and so milliseconds for a thousand."""
    per_s: float
    p50_ms: float
    p99_ms: float


def measured(broker: Running, case: Case, seconds: float = SECONDS) -> Figure:
    spec = Spec(
        broker.ports[0],
        case.publishers,
        case.subscribers,
        case.qos,
        case.batch,
        case.window,
        case.pairs,
        case.kept,
        seconds,
        broker.peer.nats,
        USER,
        PASSWORD,
        broker.ports[-1],
    )
    command = [sys.executable, "-m", broker.peer.load, msgspec.json.encode(spec).decode()]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, preexec_fn=tied) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        try:
            if load.stdout.readline() != "ready\n":
                raise RuntimeError(f"{broker.peer.name} could not be loaded with {case.name}")
            before_s = broker.cpu_s()
            load.stdin.write("go\n")
            load.stdin.flush()
            said = load.stdout.readline()
            cpu_s = broker.cpu_s() - before_s
            load.communicate("done\n", RUN_S_MAX)
        finally:
            load.kill()
    seen = msgspec.json.decode(said, type=Seen)
    latencies = sorted(seen.latencies_ms)
    return Figure(
        cpu_s / seen.deliveries * 1e6,
        seen.deliveries / seen.seconds,
        latencies[len(latencies) // 2],
        latencies[len(latencies) * 99 // 100],
    )


def median(figures: list[Figure]) -> Figure:
    return Figure(
        *(
            statistics.median(getattr(each, field) for each in figures)
            for field in ("cpu_us", "per_s", "p50_ms", "p99_ms")
        )
    )


def tried(broker: Running, case: Case) -> Figure | None:
    """None where a broker does not get through: it is said, and the others go on."""
    try:
        return measured(broker, case)
    except (RuntimeError, msgspec.MsgspecError, IndexError, ZeroDivisionError, subprocess.TimeoutExpired) as problem:
        print(f"  {broker.peer.name}, {case.name}: {problem}")
        return None


def compared(peers: list[Peer], cases: list[Case], runs: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    with ExitStack() as stack:
        brokers = [stack.enter_context(Running(each)) for each in peers]
        print(f"{'case':<22}{'broker':<13}{'CPU us':>8}{'per s':>10}{'p50 ms':>8}{'p99 ms':>8}  over ours")
        for case in cases:
            found: dict[str, list[Figure]] = {}
            for _ in range(runs):
                for broker in brokers:
                    if case.qos <= broker.peer.qos_max:
                        figure = tried(broker, case)
                        if figure is not None:
                            found.setdefault(broker.peer.name, []).append(figure)
            medians = {name: median(each) for name, each in found.items()}
            report(case, medians)
            for name, each in medians.items():
                for field, value in msgspec.structs.asdict(each).items():
                    figures[f"{case.name}/{name}/{field}"] = round(value, 3)
                if (ratio := ratio_of(name, medians)) is not None:
                    figures[f"{case.name}/{name}/ratio"] = round(ratio, 2)
            progress.note(figures)
    return figures


def ratio_of(name: str, medians: dict[str, Figure]) -> float | None:
    """A peer's CPU time over ours; for our other configurations, Mosquitto's over theirs."""
    over, under = ("mosquitto", name) if name.startswith("ours_") else (name, "ours")
    if over == under or over not in medians or under not in medians:
        return None
    return medians[over].cpu_us / medians[under].cpu_us


def report(case: Case, medians: dict[str, Figure]) -> None:
    for name, each in medians.items():
        ratio = ratio_of(name, medians)
        shown = "" if ratio is None else f"{ratio:8.2f}"
        wanted = f" (wanted: {case.target:g})" if case.target and name == "mosquitto" else ""
        row = f"{case.name:<22}{name:<13}{each.cpu_us:8.2f}{each.per_s:10.0f}{each.p50_ms:8.2f}{each.p99_ms:8.2f}"
        print(f"{row}{shown}{wanted}", flush=True)


def main(words: tuple[str, ...] = (), runs: int = RUNS) -> dict[str, float]:
    names = [each.name for each in PEERS]
    cases = [
        case for case in CASES if not (rest := set(words) - set(names)) or any(word in case.name for word in rest)
    ]
    peers: list[Peer] = []
    for peer in PEERS:
        if set(words) & set(names) and peer.name not in words:
            continue
        reason = peer.lacks()
        if reason is None:
            peers.append(peer)
        else:
            progress.skipped(peer.name, reason)
    return compared(peers, cases, runs)


def refused(words: list[str]) -> str | None:
    """Why: a word that is mistyped would choose nothing, and be missed by nobody."""
    peers, cases = [each.name for each in PEERS], [each.name for each in CASES]
    for word in words:
        if word not in peers and not any(word in name for name in cases):
            near = get_close_matches(word, [*peers, *cases], n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            known = f"peers are {', '.join(peers)}; cases are {', '.join(cases)}"
            return f"'{word}' is no peer and in no case{hint} ({known})"
    return None


if __name__ == "__main__":
    why = refused(sys.argv[1:])
    if why is not None:
        print(why, file=sys.stderr)
        sys.exit(2)
    main(tuple(sys.argv[1:]))
