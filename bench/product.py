"""The product as it is used: moving clients, kept sessions, a journal and linked brokers; ours against Mosquitto.

300 clients go 10 m/s on 3 km x 3 km and report once a second, each wants what happens within 300 m, and 200 events a
second are published: about 8.7 receivers an event. The row `busy` has ten times the events, from ten times the
publishers. Mosquitto knows no places, so the ground is tiled: an event goes to the topic of its tile, and a client
subscribes to the tiles that its circle touches. Tiles of half and of one radius are tried, and the better one counts.
Mosquitto is always one broker, in memory.

Told is the CPU time of all brokers together for a wanted delivery, and Mosquitto's over ours. A wanted delivery that
is missing is an error: there is no ratio then, and the exit code is 1. Ours and Mosquitto take turns.

`python -m bench product`, or one row in a minute: `python -m bench.product --row product --seconds 10`; `--ours`
leaves Mosquitto out, `--list` has the rows. `--profile` shows the hottest functions of the first broker, and
`--strace` counts the system calls of all; both leave Mosquitto out.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from bench import progress
from bench.fanout_peers import Peer, Running, chained, needs, our_command, program, single
from bench.mobile import World
from bench.product_load import Crowd, Result, Way
from bench.product_watch import counted, profiled, traced

TAKES = "6 minutes"
NEEDS = {
    "mosquitto": "apt-get install mosquitto",
    "py-spy": "pip install py-spy, for --profile",
    "strace": "apt-get install strace, for --strace",
}
SECONDS = 10
CLIENTS = 300
EVENTS_PER_S = 200
BUSY_EVENTS_PER_S = 10 * EVENTS_PER_S
"""More than two cores carry: the clients' clock waits, and no broker is ever idle."""
RADIUS_M = 300.0
CLIENTS_PER_KM2 = 300 / 9
"""The ground grows with the number of clients, so that an event has as many receivers."""
TILES_PER_RADIUS = (0.5, 1.0)
HEADS = "  CPU us   wanted missing doubled unwanted  p50 ms  p99 ms pace %"
OURS = """
name = "{name}"
data = "data-{name}"
space = "plane"
log_level = "error"
listeners = [{{ port = {port}, host = "127.0.0.1" }}]
{journal}
{links}
[storage]
{storage}
[security.limits]
connects_per_s = 0
connections_per_address_max = 100000
messages_per_s = 1e9
bytes_per_s = 1e12
"""
MOSQUITTO = """
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 100000
max_inflight_messages 1024
log_dest none
user root
"""


Job: TypeAlias = tuple[int, int, bool]


class Row(Struct, frozen=True):
    name: str
    what: str
    brokers: int = 1
    clients: int = CLIENTS
    journal: bool = False
    kept: bool = False
    """Sessions that outlive their connections, and QoS 1; else QoS 0."""
    synced: bool = True
    events_per_s: int = EVENTS_PER_S
    target: float | None = None
    """Mosquitto's CPU time over ours, wanted."""

    @property
    def way(self) -> Way:
        return Way(RADIUS_M, qos=int(self.kept), kept=self.kept)

    @property
    def job(self) -> "Job":
        """Rows with the same one are the same for Mosquitto."""
        return self.clients, self.events_per_s, self.kept

    @property
    def is_busy(self) -> bool:
        return self.events_per_s > EVENTS_PER_S


ROWS = (
    Row("alone-q0", "alone, QoS 0", target=1.4),
    Row("journal-q0", "alone, journal, QoS 0", journal=True),
    Row("linked-q0", "two linked, QoS 0", brokers=2),
    Row("kept", "alone, kept, QoS 1", kept=True, target=0.9),
    Row("linked-kept", "two linked, kept, QoS 1", brokers=2, kept=True),
    Row("product", "two linked, journal, kept, QoS 1", brokers=2, journal=True, kept=True, target=0.6),
    Row("kept-off", "alone, kept, QoS 1, not synced", kept=True, synced=False, target=1.2),
    Row(
        "product-off",
        "two linked, journal, kept, not synced",
        brokers=2,
        journal=True,
        kept=True,
        synced=False,
        target=0.9,
    ),
    Row(
        "busy", "two linked, journal, kept, busy", brokers=2, journal=True, kept=True, events_per_s=BUSY_EVENTS_PER_S
    ),
    Row("four", "four linked, journal, kept, QoS 1", brokers=4, clients=1_000, journal=True, kept=True),
)


def ours(row: Row) -> Peer:
    def prepare(folder: Path, ports: list[int]) -> list[list[str]]:
        commands = []
        for number, (port, links) in enumerate(zip(ports, chained(row.brokers), strict=True)):
            config = folder / f"b{number}.toml"
            text = OURS.format(
                name=f"b{number}",
                port=port,
                journal=f'journal = "journal-{number}"' if row.journal else "",
                links=links,
                storage="" if row.synced else 'sync = "off"',
            )
            config.write_text(text, encoding="utf-8")
            commands.append(our_command(config))
        return commands

    return Peer("ours", lambda: None, prepare, brokers=row.brokers)


def mosquitto(folder: Path, port: int) -> list[str]:
    config = folder / "mosquitto.conf"
    config.write_text(MOSQUITTO.format(port=port), encoding="utf-8")
    return [program("mosquitto") or "mosquitto", "-c", str(config)]


MOSQUITTO_PEER = Peer("mosquitto", needs("mosquitto", "apt-get install mosquitto"), single(mosquitto))


@contextmanager
def warmed(peer: Peer, world: World, way: Way) -> Iterator[tuple[Running, Crowd]]:
    with Running(peer) as brokers:
        crowd = Crowd(world, way, brokers.ports)
        try:
            crowd.warm_up()
            yield brokers, crowd
        finally:
            crowd.close()


def measured(peer: Peer, world: World, way: Way) -> Result:
    with warmed(peer, world, way) as (brokers, crowd):
        return crowd.run(brokers.cpu_s)


def watched(row: Row, seconds: int, tool: Literal["profile", "strace"]) -> None:
    """A run whose figures are not to be quoted, for what it shows of the brokers."""
    world = world_of(row, seconds)
    with warmed(ours(row), world, row.way) as (brokers, crowd):
        pids = [each.pid for each in brokers.processes]
        if tool == "profile":
            with profiled(pids[0]) as profile:
                result = crowd.run(brokers.cpu_s)
            lines = profile.lines(cpu_us(result))
        else:
            with traced(pids) as calls:
                result = crowd.run(brokers.cpu_s)
            lines = counted(calls, result.wanted, len(world.events))
    told(row.what, result)
    print("\n".join(lines))


def world_of(row: Row, seconds: int) -> World:
    side_m = (row.clients / CLIENTS_PER_KM2) ** 0.5 * 1_000
    return World(row.clients, row.events_per_s, RADIUS_M, seconds, side_m)


def cpu_us(result: Result) -> float:
    return result.cpu_s / max(1, result.made) * 1e6


def told(name: str, result: Result, note: str = "") -> None:
    print(
        f"{name:<39}{cpu_us(result):8.1f}{result.wanted:9,}{result.missing:8,}{result.doubled:8,}{result.unwanted:9,}"
        f"{result.p50_ms:8.1f}{result.p99_ms:8.1f}{100 * result.pace:7.0f}{note}",
        flush=True,
    )


class Board:
    """What was measured, and what Mosquitto takes for the same job."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.figures: dict[str, float] = {}
        self.failed = False
        self._theirs: dict[Job, list[float]] = {}

    def ours(self, row: Row) -> None:
        result = measured(ours(row), world_of(row, self.seconds), row.way)
        self._note(row.what, row.name, result, complete=result.missing == 0)

    def mosquitto(self, row: Row, share: float) -> None:
        tile_m = share * RADIUS_M
        way = msgspec.structs.replace(row.way, tile_m=tile_m)
        result = measured(MOSQUITTO_PEER, world_of(row, self.seconds), way)
        name = f"mosquitto {row.clients} q{way.qos} tiles {tile_m:g} m{' busy' if row.is_busy else ''}"
        self._note(name, name, result, complete=result.missing == 0)
        if result.missing == 0:
            self._theirs.setdefault(row.job, []).append(cpu_us(result))

    def _note(self, shown: str, name: str, result: Result, *, complete: bool) -> None:
        told(shown, result, "" if complete else "  INCOMPLETE")
        self.failed |= not complete
        if complete:
            self.figures[f"{name}/cpu_us"] = round(cpu_us(result), 1)
        for field in ("wanted", "missing", "doubled", "unwanted", "pace", "p50_ms", "p99_ms"):
            self.figures[f"{name}/{field}"] = round(float(getattr(result, field)), 3)
        progress.note(self.figures)

    def ratios(self, rows: list[Row]) -> None:
        for row in rows:
            theirs, mine = self._theirs.get(row.job), self.figures.get(f"{row.name}/cpu_us")
            if theirs and mine:
                ratio = self.figures[f"{row.name}/ratio"] = round(min(theirs) / mine, 2)
                wanted = f" (wanted: {row.target:g})" if row.target else ""
                print(f"{row.what:<39} Mosquitto over ours {ratio:.2f}{wanted}")


def compared(rows: list[Row], seconds: int, *, alone: bool) -> Board:
    board = Board(seconds)
    reason = MOSQUITTO_PEER.lacks()
    if reason is not None:
        progress.skipped("mosquitto", reason)
    print(f"{'':<39}{HEADS}")
    done: set[tuple[Job, float]] = set()
    for row in rows:
        board.ours(row)
        if alone or reason is not None:
            continue
        # Tiles of one size after this row and of the other after the next one like it; the last has what is left.
        left = [each for each in TILES_PER_RADIUS if (row.job, each) not in done]
        like = [each for each in rows[rows.index(row) + 1 :] if each.job == row.job]
        for share in left[:1] if like else left:
            board.mosquitto(row, share)
            done.add((row.job, share))
    board.ratios(rows)
    return board


def main() -> dict[str, float]:
    return compared(list(ROWS), SECONDS, alone=False).figures


def command_line() -> int:
    options = argparse.ArgumentParser(prog="python -m bench.product", description=__doc__.partition("\n")[0])
    names = [each.name for each in ROWS]
    options.add_argument("--row", action="append", choices=names, help="only this row; may be given several times")
    options.add_argument("--seconds", type=int, default=SECONDS, help="for how long events are published")
    options.add_argument("--ours", action="store_true", help="without Mosquitto, and so without ratios")
    tools = options.add_mutually_exclusive_group()
    tools.add_argument(
        "--profile", action="store_true", help="the hottest functions of the first broker; needs py-spy"
    )
    tools.add_argument("--strace", action="store_true", help="system calls of all brokers; needs strace")
    options.add_argument("--list", action="store_true", help="the rows")
    given = options.parse_args()
    if given.list:
        for each in ROWS:
            print(f"{each.name:<14}{each.what}")
        return 0
    rows = [each for each in ROWS if not given.row or each.name in given.row]
    if given.profile or given.strace:
        for row in rows:
            watched(row, given.seconds, "profile" if given.profile else "strace")
        return 0
    return int(compared(rows, given.seconds, alone=given.ours).failed)


if __name__ == "__main__":
    sys.exit(command_line())
